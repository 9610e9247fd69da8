"""Devices that talk only where `partial_values` says get the same results as one device.

Every device runs its part of every op in ONNX's reference evaluator; parts of sums are added up
at the values that were named, and nowhere else.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from mcm_compiler.contracts.sharding.rules import FactorKind, ShardingRule
from mcm_compiler.ir.reading.importer import import_model
from mcm_models.zoo.bert import Bert
from mcm_models.zoo.cnn_families import ResidualCnn
from mcm_models.zoo.gpt2 import Gpt2
from mcm_models.zoo.t5 import relative_bucket
from mcm_passes.parallelism.classes.dimension_classes import (
    DimensionClasses,
    dimension_classes,
    linkage_groups,
)
from mcm_passes.parallelism.classes.partial_values import partial_values
from mcm_passes.parallelism.classes.variables import trainable_variables
from mcm_passes.parallelism.decisions.decision_problem import opp_problem
from mcm_passes.parallelism.rules.graph_rules import GraphRules, installed_rules, rules_of
from mcm_passes.parallelism.rules.shard_forms import shard_form
from tests.generators.automap_models import T5Automap
from tests.generators.partial_decisions import ConflictMasks, PartialDecision

Array = np.ndarray[Any, Any]


class Cut(NamedTuple):
    """A factor of an op's rule, and the class that it is divided with."""

    factor: int
    index: int


class Devices:
    """Runs a model with some classes divided."""

    def __init__(
        self, model: ir.Model, classes: DimensionClasses, divided: dict[int, int], degree: int
    ) -> None:
        self.model, self.classes, self.degree = model, classes, degree
        self.divided = divided
        """Bit of each divided class, by class."""
        self.rules = GraphRules(model, installed_rules())
        self.held: list[dict[ir.Value, Array]] = [{} for _ in range(degree)]
        self.in_parts: set[ir.Value] = set()

    def part(self, index: int, device: int, extent: int) -> tuple[int, int]:
        units = int(self.classes.size[index])
        each = -(-units // self.degree)
        scale = extent // units
        first, last = min(device * each, units), min((device + 1) * each, units)
        return first * scale, last * scale

    def place(self, value: ir.Value, whole: Array) -> None:
        for device in range(self.degree):
            array = whole
            for dim, index in enumerate(self.classes.of(value).tolist()):
                if index in self.divided:
                    runs = np.split(array, self.classes.runs_of(value, dim), axis=dim)
                    start, stop = self.part(index, device, runs[0].shape[dim])
                    pieces = [run.take(range(start, stop), axis=dim) for run in runs]
                    array = np.concatenate(pieces, axis=dim)
            self.held[device][value] = array

    def whole(self, value: ir.Value) -> Array:
        for dim, index in enumerate(self.classes.of(value).tolist()):
            if index in self.divided:
                runs = self.classes.runs_of(value, dim)
                parts = [np.split(held[value], runs, axis=dim) for held in self.held]
                return np.concatenate([p[run] for run in range(runs) for p in parts], axis=dim)
        for held in self.held[1:]:
            np.testing.assert_allclose(held[value], self.held[0][value], rtol=1e-4, atol=1e-5)
        return self.held[0][value]

    def run(self, sums: set[ir.Value]) -> None:
        number = {node: at for at, node in enumerate(self.classes.ruled.nodes)}
        for node in self.model.graph:
            if node not in number:
                values = [self.held[0][v] for v in node.inputs if v is not None]
                for value, array in zip(node.outputs, _evaluate(node, values, {}), strict=True):
                    self.place(value, array)
                continue
            rule = self.classes.ruled.rule_of(number[node]).rule
            at = int(self.classes.factor_ptr[number[node]])
            cuts = [
                Cut(factor, index)
                for factor in range(len(rule.factors))
                if (index := int(self.classes.factor_class[at + factor])) in self.divided
            ]
            assert len(cuts) < 2
            cut = cuts[0] if cuts else None
            for device in range(self.degree):
                results = self.results(device, node, rule, cut)
                for value, array in zip(node.outputs, results, strict=True):
                    self.held[device][value] = array
            factor = rule.factors[cut.factor] if cut else None
            made = factor is not None and factor.kind is FactorKind.REDUCE
            in_parts = made or any(v in self.in_parts for v in node.inputs if v is not None)
            for value in node.outputs:
                if in_parts:
                    self.in_parts.add(value)
                if value in sums:
                    self.all_reduce(value, factor.reduction if made else "sum")

    def results(
        self, device: int, node: ir.Node, rule: ShardingRule, cut: Cut | None
    ) -> list[Array]:
        """What a device makes of a node, of which it runs its part."""
        values = self.operands(device, node)
        if cut is None:
            return _evaluate(node, values, {})
        factor = rule.factors[cut.factor]
        start, stop = self.part(cut.index, device, factor.size)
        form = shard_form(self.rules.facts(node), rule, cut.factor, start, stop)
        assert form.reads is None
        for operand, made in form.constants.items():
            values[operand] = np.array(made, dtype=np.int64)
        for operand in form.first_only:
            if device:
                values[operand] = np.zeros_like(values[operand])
        if form.index_offset is not None:
            outside = (values[1] < start) | (values[1] >= stop)
            values[1] = np.where(outside, 0, values[1] - start)
        results = _evaluate(node, values, dict(form.attributes))
        if form.index_offset is not None:
            results[0] = np.where(outside[..., np.newaxis], 0, results[0])
        if factor.reduction == "mean":
            weight = np.float32((stop - start) / factor.size)
            results = [array * weight for array in results]
        return results

    def operands(self, device: int, node: ir.Node) -> list[Array | None]:
        """What a device holds of them; of what is added to parts, but one device has nothing."""
        values = [None if v is None else self.held[device][v] for v in node.inputs]
        parts = any(v in self.in_parts for v in node.inputs if v is not None)
        if parts and device and node.op_type in ("Add", "Sub", "Sum"):
            values = [
                array if value in self.in_parts else np.zeros_like(array)
                for value, array in zip(node.inputs, values, strict=True)
            ]
        return values

    def all_reduce(self, value: ir.Value, combiner: str) -> None:
        arrays = [held[value] for held in self.held]
        total = np.max(arrays, axis=0) if combiner == "max" else np.sum(arrays, axis=0)
        for held in self.held:
            held[value] = total.astype(arrays[0].dtype)
        self.in_parts.discard(value)


def _evaluate(node: ir.Node, values: list[Array | None], changes: dict[str, Any]) -> list[Array]:
    names = ["" if v is None else f"i{k}" for k, v in enumerate(values)]
    outputs = [f"o{k}" for k in range(len(node.outputs))]
    attributes = {name: attribute.value for name, attribute in node.attributes.items()} | changes
    attributes = {
        name: ir.to_proto(value) if isinstance(value, ir.TensorProtocol) else value
        for name, value in attributes.items()
    }
    proto = helper.make_node(node.op_type, names, outputs, **attributes)
    feeds = {name: v for name, v in zip(names, values, strict=True) if v is not None}
    graph = helper.make_graph(
        [proto],
        "op",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), None)
            for n, v in feeds.items()
        ],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
    )
    version = node.graph.opset_imports[""]
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])
    return list(ReferenceEvaluator(model).run(None, feeds))


def _feeds(model: ir.Model) -> dict[ir.Value, Array]:
    rng = np.random.default_rng(5)
    made: dict[ir.Value, Array] = {}
    for value in model.graph.inputs:
        shape, name = value.shape.numpy(), value.name or ""
        if name.endswith("buckets"):
            made[value] = relative_bucket(shape[0], 32, 128, bidirectional=name[0] == "e")
        elif "attention_mask" in name:
            made[value] = np.ones(shape, dtype=np.int64)
        elif value.dtype is ir.DataType.FLOAT:
            made[value] = rng.uniform(0.5, 1.5, shape).astype(np.float32)
        else:
            made[value] = rng.integers(2 if "type" in name else 10, size=shape)
    return made


MODELS = {
    "t5": T5Automap(
        layers=1,
        decoder_layers=2,
        hidden=12,
        heads=3,
        head_width=4,
        intermediate=10,
        vocab=10,
        seq=5,
        decoder_seq=4,
        batch=2,
    ),
    "cnn": ResidualCnn(image_size=8, stages=2, blocks=1, width=6, classes=5, batch=2),
    "gpt2": Gpt2(
        layers=2, hidden=12, heads=3, intermediate=10, vocab=11, positions=8, seq=5, batch=2
    ),
    "bert": Bert(layers=2, hidden=12, heads=3, intermediate=10, vocab=11, positions=8, seq=5),
}


@pytest.mark.parametrize("degree", [2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_talking_at_the_named_values_is_enough(name, degree):
    model, _ = import_model(MODELS[name].build(), name)
    classes = dimension_classes(model, rules_of(model))
    problem = opp_problem(model, degree, classes)
    chosen = linkage_groups(classes, trainable_variables(model)).class_of_group
    found = partial_values(classes, chosen)
    feeds = _feeds(model)
    alone = Devices(model, classes, {}, 1)
    _load(alone, model, feeds)
    alone.run(set())
    rng = np.random.default_rng(degree)
    masks = ConflictMasks(problem)
    for _ in range(3):
        state = PartialDecision(masks)
        for index in rng.permutation(problem.num_classes):
            state.partition(int(index))
        assert state.partitioned
        divided = {
            int(index): bit
            for bit, index in enumerate(chosen.tolist())
            if state.partitioned >> bit & 1
        }
        sums = {
            classes.ruled.values[value]
            for value, mask in found.sums.items()
            if mask & state.partitioned
        }
        devices = Devices(model, classes, divided, degree)
        _load(devices, model, feeds)
        devices.run(sums)
        for value in model.graph.outputs:
            assert value not in devices.in_parts
            np.testing.assert_allclose(
                devices.whole(value), alone.whole(value), rtol=2e-4, atol=1e-5
            )


def _load(devices: Devices, model: ir.Model, feeds: dict[ir.Value, Array]) -> None:
    for value in model.graph.initializers.values():
        devices.place(value, value.const_value.numpy())
    for value, array in feeds.items():
        devices.place(value, array)
