"""Divides the operators of ONNX's own node tests as their sharding rules say, and compares.

    python tools/check_sharding_rules.py [WORD]

Takes some minutes; WORD picks the cases whose name has it. Cases are left out whose operator is
never divided, draws random numbers, or has operands that are no arrays. Exit code 1 if parts do not
make up a whole.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from sharding_examples.example import KINDS, Array, Example
from sharding_examples.parts import DividedOp

from mcm_passes.parallelism.rules.graph_rules import SPECIFYING, RegisteredRule, RuleTable
from mcm_passes.parallelism.rules.operators import FAMILIES, ONNX_RULES

_TYPES = {np.dtype(kind) for kind in KINDS.values()} | {
    np.dtype(name) for name in ("float16", "float64", "int16", "uint16", "uint32", "uint64")
}


def example_of(model: onnx.ModelProto, values: Sequence[Any]) -> Example | None:
    """The only op of a model with the values of its operands, or None for one that is left out."""
    (node, *more) = model.graph.node
    if more or node.domain or node.op_type in FAMILIES["undivided"] or not all(node.output):
        return None
    arrays = iter(values)
    operands: list[Array | tuple[int, ...] | None] = []
    for index, name in enumerate(node.input):
        value = next(arrays) if name else None
        if value is not None:
            value = np.asarray(value)
            if value.dtype not in _TYPES:
                return None
            if index in SPECIFYING.get(node.op_type, ()) and value.dtype == np.int64:
                value = tuple(map(int, value)) if value.ndim == 1 else value
        operands.append(value)
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    drawing = node.op_type == "Dropout" and len(operands) > 2
    version = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    results = len(node.output)
    return None if drawing else Example(node.op_type, tuple(operands), attributes, results, version)


def main() -> int:
    """Prints what differs, and counts."""
    from onnx.backend.test.case.node import collect_testcases

    warnings.filterwarnings("ignore")
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    table = RuleTable({n: RegisteredRule(n, maker, "onnx") for n, maker in ONNX_RULES.items()})
    counts = dict.fromkeys(("cases", "left out", "not run as a whole", "divided", "different"), 0)
    for case in collect_testcases(None):
        if word not in case.name or case.model is None or not case.data_sets:
            continue
        counts["cases"] += 1
        example = example_of(case.model, case.data_sets[0][0])
        if example is None:
            counts["left out"] += 1
            continue
        try:
            op = DividedOp.of(example, table)
        except Exception as error:  # what onnxruntime does not take
            counts["not run as a whole"] += 1
            print(f"{case.name}: {type(error).__name__}", file=sys.stderr)
            continue
        found = [difference.what for difference in op.differences()]
        counts["divided"] += bool(op.cuts_tried)
        counts["different"] += bool(found)
        for what in found:
            print(f"{case.name}: {what}")
    print(", ".join(f"{count} {name}" for name, count in counts.items()))
    return 1 if counts["different"] else 0


if __name__ == "__main__":
    sys.exit(main())
