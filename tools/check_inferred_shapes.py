"""Where onnx's shape inference contradicts the expected outputs of onnx's own node tests.

    python tools/check_inferred_shapes.py [OUT.json]

Takes half a minute. Each case is inferred without its declared output shapes, as it is and with
its small integer and Boolean inputs as constants. OUT.json gets the versions, the number of cases,
and for each op type the cases that contradict, with both shapes;
`mcm_compiler.ir.shapes.fixed_shapes` names the ops. The committed file is
tests/data/inferred_shapes.json.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

MAX_CONSTANT_RANK = 1


def claimed_dims(info: onnx.ValueInfoProto) -> list[int | None] | None:
    """The inferred dimensions of a tensor or of a sequence's elements; None if there are none."""
    kind = info.type
    while kind.WhichOneof("value") in ("sequence_type", "optional_type"):
        kind = getattr(kind, kind.WhichOneof("value")).elem_type
    if not kind.tensor_type.HasField("shape"):
        return None
    dims = kind.tensor_type.shape.dim
    return [dim.dim_value if dim.HasField("dim_value") else None for dim in dims]


def expected_shapes(value: Any) -> Iterator[tuple[int, ...]]:
    """Shapes of an expected output: of a tensor, or of the elements of a list."""
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, onnx.TensorProto):
            yield tuple(item.dims)
        elif isinstance(item, np.ndarray | np.generic):
            yield item.shape


def contradictions(model: onnx.ModelProto, outputs: Sequence[Any]) -> Iterator[str]:
    """One sentence for each output whose inferred shape is not the expected one."""
    try:
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=False, data_prop=True)
    except onnx.shape_inference.InferenceError:
        return
    for info, value in zip(inferred.graph.output, outputs, strict=False):
        claimed = claimed_dims(info)
        if claimed is None:
            continue
        for shape in expected_shapes(value):
            if len(shape) != len(claimed) or any(
                c is not None and c != s for c, s in zip(claimed, shape, strict=True)
            ):
                yield f"{info.name}: {claimed} inferred, {list(shape)} expected"
                break


def without_declarations(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which nothing is said of shapes but those of the inputs."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    del bare.graph.value_info[:]
    for info in bare.graph.output:
        kind = info.type
        while kind.WhichOneof("value") in ("sequence_type", "optional_type"):
            kind = getattr(kind, kind.WhichOneof("value")).elem_type
        if kind.HasField("tensor_type"):
            kind.tensor_type.ClearField("shape")
    return bare


def main() -> int:
    """Prints the ops, and writes the file."""
    from onnx.backend.test.case.node import collect_testcases

    warnings.filterwarnings("ignore")
    found: dict[str, dict[str, list[str]]] = {}
    count = 0
    for case in collect_testcases(None):
        if case.model is None or not case.data_sets:
            continue
        count += 1
        inputs: Sequence[Any] = case.data_sets[0][0]
        outputs: Sequence[Any] = case.data_sets[0][1]
        bare = without_declarations(case.model)
        pinned = onnx.ModelProto()
        pinned.CopyFrom(bare)
        for info, value in zip(case.model.graph.input, inputs, strict=False):
            small = isinstance(value, np.ndarray) and value.ndim <= MAX_CONSTANT_RANK
            if small and value.dtype.kind in "iub":
                pinned.graph.initializer.append(onnx.numpy_helper.from_array(value, info.name))
        ops = "+".join(sorted({node.op_type for node in case.model.graph.node}))
        for model in (bare, pinned):
            for sentence in contradictions(model, outputs):
                told = found.setdefault(ops, {}).setdefault(case.name, [])
                if sentence not in told:
                    told.append(sentence)
    for ops, cases in sorted(found.items()):
        print(f"{ops}: {', '.join(cases)}")
    print(f"{count} cases")
    if len(sys.argv) > 1:
        record = {
            "command": "python tools/check_inferred_shapes.py tests/data/inferred_shapes.json",
            "versions": {"onnx": onnx.__version__},
            "cases": count,
            "contradicted": dict(sorted(found.items())),
        }
        Path(sys.argv[1]).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
