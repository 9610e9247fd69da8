"""The ops of a model, with the values that they have when it runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from onnx import helper

from mcm_compiler.execution.inputs import random_inputs
from mcm_passes.parallelism.rules.graph_rules import GraphRules, RuleTable
from sharding_examples.example import Array, Example
from sharding_examples.parts import DIVISIBLE, DividedOp


def divided_ops(model: ir.Model, table: RuleTable, seed: int) -> Iterator[DividedOp]:
    """Ops of ONNX's own domain that can be divided, of several with the same facts the first.

    Args:
        model: as the importer gives it, small enough to run with all values kept.
        table: the rules.
        seed: of the inputs.
    """
    values = _all_values(model, seed)
    rules = GraphRules(model, table)
    seen: set[tuple[Any, ...]] = set()
    for node in model.graph:
        facts, rule = rules.facts(node), rules.rule(node)
        key = (facts.op_type, str(rule), facts.input_shapes, facts.output_shapes)
        sizes = [factor.size for factor in rule.factors]
        kinds = {factor.kind for factor in rule.factors}
        if facts.domain or key in seen or None in sizes or not kinds & set(DIVISIBLE):
            continue
        seen.add(key)
        arrays = [None if v is None else values[v.name or ""] for v in node.inputs]
        attributes = {a.name: helper.get_attribute_value(a) for a in ir.to_proto(node).attribute}
        results = len(node.outputs)
        example = Example(facts.op_type, (), attributes, results, facts.version)
        whole = [np.asarray(r) for r in example.run(arrays)]
        yield DividedOp(example, arrays, whole, facts, rule)


def _all_values(model: ir.Model, seed: int) -> dict[str, Array]:
    """Of initializers, inputs, and what every node of the main graph makes."""
    inputs = random_inputs(model, seed)
    proto = ir.to_proto(model)
    kept = [output.name for output in proto.graph.output]
    for node in proto.graph.node:
        made = [name for name in node.output if name and name not in kept]
        kept += made
        proto.graph.output.extend(map(helper.make_empty_tensor_value_info, made))
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(
        onnx.ModelProto.SerializeToString(proto), options, providers=["CPUExecutionProvider"]
    )
    found: dict[str, Any] = dict(zip(kept, session.run(None, inputs), strict=True))
    weights = {
        name: value.const_value.numpy()
        for name, value in model.graph.initializers.items()
        if value.const_value is not None
    }
    return {name: np.asarray(v) for name, v in {**weights, **inputs, **found}.items()}
