"""A plan put to work: every divided op becomes one op per shard, of standard ONNX.

Weights are sliced (as views of their file where that is possible), other tensors that arrive whole
are `Split`. Partial results are put together in a chain, shard after shard, as they stand along
the ring. Where an op needs a divided tensor as a whole, its parts are `Concat`enated. (Auto-MAP,
section 3.2, executes its plans by such rewriting.)
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from mcm_compiler.contracts.sharding.rules import FactorKind, ShardingRule
from mcm_compiler.contracts.sharding.sharding import DividedTensor, OperatorSharding
from mcm_compiler.graph.constants import constant_values, subgraphs
from mcm_compiler.ir.rewriting.naming import UnusedNames
from mcm_passes.parallelism.classes.dimension_classes import DimensionClasses
from mcm_passes.parallelism.oversized.graph_edits import drop_unused
from mcm_passes.parallelism.oversized.weight_slices import Slice, WeightSlicer, can_slice
from mcm_passes.parallelism.rules.graph_rules import GraphRules, installed_rules
from mcm_passes.parallelism.rules.shard_forms import ShardForm, shard_form
from mcm_passes.parallelism.sharded_graph import new_ops
from mcm_passes.parallelism.sharded_graph.value_parts import (
    combined_results,
    joined_value,
    known_extent,
    split_value,
)

WHOLE = -1
"""In place of a class: the operand is read whole."""

GEMM_ADDS_IF_ASKED = 11
"""Opset from which on the third operand may be left out."""


@dataclass(frozen=True)
class ShardedGraph:
    """Sharded form of a graph.

    Attributes:
        operators: each op that has a divided weight, with the ops of its shards.
        tensors: operands and results that are divided, op by op.
        nodes: all ops that are new.
    """

    operators: tuple[OperatorSharding, ...]
    tensors: tuple[DividedTensor, ...]
    nodes: tuple[ir.Node, ...]


def shard_graph(
    model: ir.Model, classes: DimensionClasses, partitioned: NDArray[np.bool_], degree: int
) -> ShardedGraph:
    """Rewrites a model in place so that its partitioned classes are divided.

    Args:
        model: the model that `classes` were found in, not changed since.
        classes: of its dimensions.
        partitioned: `[classes]`, feasible: none is blocked, no two meet in an op.
        degree: shards of each; a class with fewer units is divided into as many as it has.
    """
    return _Rewriting(model, classes, partitioned, degree).run()


class _Rewriting:
    def __init__(
        self,
        model: ir.Model,
        classes: DimensionClasses,
        partitioned: NDArray[np.bool_],
        degree: int,
    ) -> None:
        self._graph = model.graph
        self._classes = classes
        self._rules = GraphRules(model, installed_rules())
        self._partitioned = partitioned
        self._degree = degree
        self._names = UnusedNames(model.graph)
        self._make = new_ops.NewOps(model.graph, self._names)
        self._slicer = WeightSlicer(model.graph, self._names)
        self._constants = constant_values(model.graph)
        self._parts: dict[ir.Value, tuple[ir.Value, ...]] = {}
        self._whole: dict[ir.Value, ir.Value] = {}
        self._cut: set[ir.Value] = set()
        self._operators: list[OperatorSharding] = []
        self._tensors: list[DividedTensor] = []

    def run(self) -> ShardedGraph:
        """See `shard_graph`."""
        number = {node: index for index, node in enumerate(self._classes.ruled.nodes)}
        replaced: list[ir.Node] = []
        for node in list(self._graph):
            divided = None if node not in number else self._divided_factor(number[node])
            self._make.before, self._make.stem = node, node.name or node.op_type
            if divided is None:
                self._read_whole(node)
            else:
                self._shard(node, *divided)
                replaced.append(node)
        self._make.before, self._make.stem = None, "outputs"
        for index, value in enumerate(self._graph.outputs):
            if value in self._parts or value in self._whole:
                self._graph.outputs[index] = self._renamed(value)
        operands = [value for node in replaced for value in node.inputs if value is not None]
        for node in reversed(replaced):
            self._graph.remove(node, safe=True)
        drop_unused(self._graph, operands)
        return ShardedGraph(tuple(self._operators), tuple(self._tensors), tuple(self._make.nodes))

    def _divided_factor(self, index: int) -> tuple[ShardingRule, int, int] | None:
        """Rule, factor and class of what is divided of an op."""
        classes = self._classes
        start, stop = classes.factor_ptr[index], classes.factor_ptr[index + 1]
        for factor, of in enumerate(classes.factor_class[start:stop].tolist()):
            if of >= 0 and self._partitioned[of]:
                return classes.ruled.rule_of(index).rule, factor, of
        return None

    def _shard(self, node: ir.Node, rule: ShardingRule, factor: int, of: int) -> None:
        reduces = rule.factors[factor].kind is FactorKind.REDUCE
        facts, extents = self._rules.facts(node), self._extents(of)
        whole = rule.factors[factor].size or extents[-1].units
        shards: list[list[ir.Value]] = []
        for index, part in enumerate(extents):
            self._make.stem = f"{node.name}/shard_{index}"
            form = shard_form(facts, rule, factor, *part.of(whole))
            operands = [
                self._operand(v, of if at < len(rule.inputs) and rule.inputs[at] else WHOLE, index)
                for at, v in enumerate(node.inputs)
            ]
            for at in form.first_only if index else ():
                operands[at] = self._nothing_added(node, at)
            if form.index_offset is None:
                shards.append(self._op_of_shard(node, of, part, operands, form))
            else:
                shards.append([self._looked_up(node, operands, part)])
        self._make.stem = node.name or node.op_type
        for at, value in enumerate(node.outputs):
            parts = tuple(results[at] for results in shards)
            if self._axis(value, of) is not None:
                self._parts[value] = parts
            elif reduces:
                reduction = rule.factors[factor].reduction
                shares = [(part.stop - part.start) / part.units for part in extents]
                self._whole[value] = combined_results(self._make, parts, reduction, shares)
            else:
                # All shards make the same, such as an unused second result.
                self._whole[value] = parts[0]
        makers = [results[0].producer() for results in shards]
        self._record(node, of, [(maker.name or "") if maker else "" for maker in makers])

    def _nothing_added(self, node: ir.Node, operand: int) -> ir.Value | None:
        """In place of a bias that another shard adds: nothing, where it may be left out."""
        bias, version = node.inputs[operand], self._make.opset
        if node.op_type != "Gemm" or version >= GEMM_ADDS_IF_ASKED or bias is None:
            return None
        assert bias.dtype is not None
        return self._make.constant(np.zeros(1, bias.dtype.numpy()), "nothing")

    def _op_of_shard(
        self,
        node: ir.Node,
        of: int,
        part: new_ops.Extents,
        operands: list[ir.Value | None],
        form: ShardForm,
    ) -> list[ir.Value]:
        results: list[ir.Value] = []
        for value in node.outputs:
            axis = self._axis(value, of)
            shape = value.shape
            if axis is not None and shape is not None:
                dims = list(shape)
                start, stop = part.of(known_extent(value, axis))
                dims[axis] = stop - start
                shape = ir.Shape(dims)
            name = self._names.take(f"{value.name}@{self._make.stem}") if value.name else ""
            results.append(ir.Value(name=name, type=value.type, shape=shape))
        self._make.part(node, operands, results, form, self._names.take(self._make.stem))
        return results

    def _looked_up(
        self, node: ir.Node, operands: Sequence[ir.Value | None], part: new_ops.Extents
    ) -> ir.Value:
        table, rows, indices = node.inputs[0], operands[0], operands[1]
        assert table is not None
        assert table.shape is not None
        assert rows is not None
        assert indices is not None
        axis = node.attributes.get_int("axis", 0) % len(table.shape)
        extent, runs = known_extent(table, axis), self._classes.runs_of(table, axis)
        found = Slice(axis, *part.of(extent // runs), runs)
        return new_ops.masked_lookup(self._make, node, rows, indices, found, extent)

    def _operand(self, value: ir.Value | None, of: int, index: int) -> ir.Value | None:
        if value is None:
            return None
        axis = None if of == WHOLE else self._axis(value, of)
        return self._as_whole(value) if axis is None else self._in_parts(value, axis, of)[index]

    def _in_parts(self, value: ir.Value, axis: int, of: int) -> tuple[ir.Value, ...]:
        if value not in self._parts:
            self._cut.add(value)
            if value in self._constants and can_slice(value, axis):
                self._parts[value] = self._sliced(value, axis, of)
            else:
                self._parts[value] = self._split(value, axis, of)
        return self._parts[value]

    def _sliced(self, value: ir.Value, axis: int, of: int) -> tuple[ir.Value, ...]:
        assert self._make.before is not None
        runs = self._classes.runs_of(value, axis)
        run = known_extent(value, axis) // runs
        return tuple(
            self._slicer.part(value, Slice(axis, *part.of(run), runs), self._make.before)
            for part in self._extents(of)
        )

    def _split(self, value: ir.Value, axis: int, of: int) -> tuple[ir.Value, ...]:
        whole, runs = self._as_whole(value), self._classes.runs_of(value, axis)
        bounds = [part.of(known_extent(value, axis) // runs) for part in self._extents(of)]
        with self._named(value.name or ""):
            sizes = [stop - start for start, stop in bounds]
            return split_value(self._make, whole, axis, runs, sizes)

    @contextmanager
    def _named(self, stem: str) -> Generator[None]:
        """New ops are named after something else for a while."""
        before, self._make.stem = self._make.stem, stem
        try:
            yield
        finally:
            self._make.stem = before

    def _as_whole(self, value: ir.Value) -> ir.Value:
        if value in self._whole:
            return self._whole[value]
        if value not in self._parts or value in self._cut:
            return value
        parts = self._parts[value]
        axis = next(
            axis
            for axis, of in enumerate(self._classes.of(value).tolist())
            if of >= 0 and self._partitioned[of]
        )
        runs = self._classes.runs_of(value, axis)
        with self._named(f"{value.name}/concat"):
            joined = joined_value(self._make, parts, value, axis, runs)
        self._whole[value] = joined
        return joined

    def _renamed(self, value: ir.Value) -> ir.Value:
        """A graph output under its own name."""
        whole = self._as_whole(value)
        if whole is value:
            return value
        name, value.name = value.name, self._names.take(f"{value.name}@replaced")
        if whole.is_graph_output():
            # Two outputs of the same value.
            whole = self._make.like("Identity", [whole])
        whole.name = name
        return whole

    def _read_whole(self, node: ir.Node) -> None:
        inner = (reader for graph in subgraphs(node) for reader in graph.all_nodes())
        for reader in (node, *inner):
            for index, value in enumerate(reader.inputs):
                if value is None or (value not in self._parts and value not in self._whole):
                    continue
                whole = self._as_whole(value)
                if whole is not value:
                    reader.replace_input_with(index, whole)

    def _axis(self, value: ir.Value, of: int) -> int | None:
        if value not in self._classes.ruled.value_index:
            return None
        found = np.flatnonzero(self._classes.of(value) == of)
        return int(found[0]) if found.size else None

    def _extents(self, of: int) -> list[new_ops.Extents]:
        units = int(self._classes.size[of])
        count = min(self._degree, units)
        bounds = [units * k // count for k in range(count + 1)]
        return [new_ops.Extents(a, b, units) for a, b in pairwise(bounds)]

    def _record(self, node: ir.Node, of: int, pieces: Sequence[str]) -> None:
        for value in dict.fromkeys((*node.inputs, *node.outputs)):
            axis = None if value is None else self._axis(value, of)
            if value is None or axis is None:
                continue
            name, tensor = node.name or "", value.name or ""
            runs = self._classes.runs_of(value, axis)
            self._tensors.append(DividedTensor(name, tensor, axis, len(pieces), runs))
            if value in self._constants:
                stored = value.const_value
                size = stored.nbytes if stored is not None else 0
                self._operators.append(OperatorSharding(name, tensor, size, axis, tuple(pieces)))
