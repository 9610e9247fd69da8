"""Ops of a region replaced by one op for each tile of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from mcm_compiler.arrays.dags import following_lists, topological
from mcm_compiler.graph.constants import consumed_values
from mcm_compiler.ir.rewriting.naming import UnusedNames
from mcm_passes.parallelism.oversized.graph_edits import concat_in_place, drop_unused
from mcm_passes.parallelism.oversized.weight_slices import Slice, WeightSlicer
from mcm_passes.parallelism.row_tiles.row_regions import RowRegion, TiledOp
from mcm_passes.parallelism.rules.shard_forms import shard_form
from mcm_passes.parallelism.sharded_graph.new_ops import NewOps
from mcm_passes.parallelism.sharded_graph.value_parts import split_value


@dataclass(frozen=True)
class TiledRegion:
    """What was made of a region.

    Attributes:
        tiles: of each op by its name, the ops of its tiles, in order.
        joins: `Concat`s that put values together, for what lies outside.
        nodes: all new ops.
    """

    tiles: Mapping[str, tuple[ir.Node, ...]]
    joins: tuple[ir.Node, ...]
    nodes: tuple[ir.Node, ...]


def tile_region(
    graph: ir.Graph, region: RowRegion, bounds: Sequence[tuple[int, int]], constants: set[ir.Value]
) -> TiledRegion:
    """Rewrites a graph in place.

    Tiles stand one after the other, each with all of its ops, as far as the rest of the graph lets
    them.

    Args:
        graph: the main graph, in topological order.
        region: ops of it.
        bounds: first row and one past the last of each tile.
        constants: values that depend on no input.
    """
    return _Tiling(graph, region, bounds, constants).run()


class _Tiling:
    def __init__(
        self,
        graph: ir.Graph,
        region: RowRegion,
        bounds: Sequence[tuple[int, int]],
        constants: set[ir.Value],
    ) -> None:
        self._graph = graph
        self._region = region
        self._bounds = bounds
        self._constants = constants
        self._names = UnusedNames(graph)
        self._make = NewOps(graph, self._names)
        self._slicer = WeightSlicer(graph, self._names)
        self._parts: dict[ir.Value, tuple[ir.Value, ...]] = {}
        self._tile_of: dict[ir.Node, int] = {}

    def run(self) -> TiledRegion:
        """See `tile_region`."""
        tiles: dict[str, tuple[ir.Node, ...]] = {}
        nodes = [node for node in self._graph if node in self._region.ops]
        for node in nodes:
            self._make.before = node
            self._make.stem = node.name or node.op_type
            tiles[node.name or ""] = self._tiles(node, self._region.ops[node])
        found = [self._joined(node, value) for node in nodes for value in node.outputs]
        joins = [join for join in found if join is not None]
        operands = [value for node in nodes for value in node.inputs if value is not None]
        for node in reversed(nodes):
            self._graph.remove(node, safe=True)
        drop_unused(self._graph, operands)
        _sort(self._graph, self._tile_of)
        return TiledRegion(tiles, tuple(joins), tuple(self._make.nodes))

    def _tiles(self, node: ir.Node, op: TiledOp) -> tuple[ir.Node, ...]:
        made: list[ir.Node] = []
        for index, (start, stop) in enumerate(self._bounds):
            form = shard_form(op.facts, op.rule, op.factor, start * op.unit, stop * op.unit)
            inputs = [self._operand(value, index) for value in node.inputs]
            outputs = [self._part_of(value, index) for value in node.outputs]
            name = self._names.take(f"{node.name}/tile_{index}")
            tile = self._make.part(node, inputs, outputs, form, name, f"tile_{index}/sizes")
            self._tile_of[tile] = index
            made.append(tile)
        for at, value in enumerate(node.outputs):
            self._parts[value] = tuple(tile.outputs[at] for tile in made)
        return tuple(made)

    def _part_of(self, value: ir.Value, index: int) -> ir.Value:
        name = self._names.take(f"{value.name}/tile_{index}")
        return self._slice(value, index).of_value(value, name)

    def _slice(self, value: ir.Value, index: int) -> Slice:
        how = self._region.values[value]
        start, stop = self._bounds[index]
        return Slice(how.axis, start * how.unit, stop * how.unit)

    def _operand(self, value: ir.Value | None, index: int) -> ir.Value | None:
        if value is None or value not in self._region.values:
            return value
        if value not in self._parts:
            self._parts[value] = self._taken_apart(value)
        return self._parts[value][index]

    def _taken_apart(self, value: ir.Value) -> tuple[ir.Value, ...]:
        before = self._make.before
        assert before is not None
        slices = [self._slice(value, index) for index in range(len(self._bounds))]
        if value in self._constants:
            return tuple(self._slicer.part(value, cut, before) for cut in slices)
        sizes = [cut.extent for cut in slices]
        stem, self._make.stem = self._make.stem, value.name or ""
        parts = split_value(self._make, value, slices[0].axis, 1, sizes)
        self._make.stem = stem
        return parts

    def _joined(self, node: ir.Node, value: ir.Value) -> ir.Node | None:
        """Puts a value together where something outside reads it, or it is an output."""
        outside = [use for use in value.uses() if use.node not in self._region.ops]
        if not outside and not value.is_graph_output():
            return None
        axis, name = self._region.values[value].axis, self._names.take(f"{value.name}/concat")
        join = concat_in_place(node, value, self._parts[value], axis, name)
        self._graph.insert_before(node, join)
        self._make.nodes.append(join)
        return join


def _sort(graph: ir.Graph, tile_of: Mapping[ir.Node, int]) -> None:
    """A topological order in which tiles follow each other, and else what was first stays first."""
    nodes = list(graph)
    anchor = next((at for at, node in enumerate(nodes) if node in tile_of), 0)
    rank = [
        (anchor, tile_of[node], at) if node in tile_of else (at, -1, at)
        for at, node in enumerate(nodes)
    ]
    makers = {value: at for at, node in enumerate(nodes) for value in node.outputs}
    edges = {
        (makers[value], at)
        for at, node in enumerate(nodes)
        for value in consumed_values(node)
        if value in makers
    }
    order = topological(following_lists(len(nodes), sorted(edges)), rank)
    graph.extend(nodes[at] for at in order)
