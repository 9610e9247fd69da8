"""Ops of regions replaced by one op for each tile, and what tiles read of each other.

A tile reads a range of what another op made, which may be cut in other places or along another
axis. It gets a `Slice` of each piece that it needs a part of, and a `Concat` where it needs
several. The slices run with the op that makes the piece, so that chips exchange no more than what
is read. The `Concat` runs with the op that reads it, as ranges of its receive buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from mcm_compiler.arrays.dags import following_lists, topological
from mcm_compiler.graph.constants import consumed_values
from mcm_compiler.ir.rewriting.naming import UnusedNames
from mcm_passes.parallelism.oversized.graph_edits import concat_in_place, drop_unused, fixed_shape
from mcm_passes.parallelism.oversized.weight_slices import Slice, WeightSlicer
from mcm_passes.parallelism.row_tiles.row_regions import RowRegion, TiledOp
from mcm_passes.parallelism.rules.shard_forms import ShardForm, shard_form
from mcm_passes.parallelism.sharded_graph.new_ops import NewOps
from mcm_passes.parallelism.sharded_graph.value_parts import split_value

Bounds = Sequence[tuple[int, int]]

_SLICE_HAS_OPERANDS = 10
"""Opset from which on; attributes before."""


@dataclass(frozen=True)
class CutRegion:
    """A region, and where it is cut.

    Attributes:
        region: its ops.
        bounds: first row and one past the last of each tile.
    """

    region: RowRegion
    bounds: Bounds

    def parts(self, value: ir.Value) -> list[Slice]:
        """The part of a divided value that each tile has."""
        how = self.region.values[value]
        return [Slice(how.axis, start * how.unit, stop * how.unit) for start, stop in self.bounds]


@dataclass(frozen=True)
class TiledRegions:
    """Tiles and joins of regions.

    Attributes:
        tiles: of each op by its name, the ops of its tiles, in order.
        joins: `Concat`s that put values together, for what is outside.
        fused: ops that run with another one, by the name of that: before it those that make its
            operands, after it slices of its results.
        nodes: all new ops.
    """

    tiles: Mapping[str, tuple[ir.Node, ...]]
    joins: tuple[ir.Node, ...]
    fused: Mapping[str, tuple[list[str], list[str]]]
    nodes: tuple[ir.Node, ...]


@dataclass(frozen=True)
class _Pieces:
    parts: Sequence[Slice]
    values: Sequence[ir.Value]

    @property
    def axis(self) -> int:
        return self.parts[0].axis


def tile_regions(
    graph: ir.Graph,
    regions: Sequence[CutRegion],
    constants: set[ir.Value],
    fuses: Callable[[ir.Node], bool] | None = None,
    given: Mapping[ir.Value, Sequence[ir.Value]] | None = None,
) -> TiledRegions:
    """Rewrites a graph in place.

    Tiles are one after the other, each with all of its ops of a region, as far as the rest of the
    graph lets them.

    Args:
        graph: the main graph, in topological order.
        regions: without common ops.
        constants: values that depend on no input.
        fuses: whether slices and joins may run with an op; without, they are ops of their own, and
            values are taken apart and put together once each.
        given: values that are there in the pieces of the regions that read them.
    """
    return _Tiling(graph, regions, constants, fuses, given or {}).run()


def _all_of(value: ir.Value, wanted: Slice | None) -> Slice | None:
    return wanted and Slice(wanted.axis, 0, fixed_shape(value)[wanted.axis])


class _Tiling:
    def __init__(
        self,
        graph: ir.Graph,
        regions: Sequence[CutRegion],
        constants: set[ir.Value],
        fuses: Callable[[ir.Node], bool] | None,
        given: Mapping[ir.Value, Sequence[ir.Value]],
    ) -> None:
        self._graph = graph
        self._cuts = {node: cut for cut in regions for node in cut.region.ops}
        self._constants = constants
        self._fuses = fuses
        self._names = UnusedNames(graph)
        self._make = NewOps(graph, self._names)
        self._slicer = WeightSlicer(graph, self._names)
        self._parts = {
            value: _Pieces(cut.parts(value), pieces)
            for cut in regions
            for value, pieces in given.items()
            if value in cut.region.values
        }
        self._sliced: dict[tuple[ir.Value, Slice], ir.Value] = {}
        self._read: dict[tuple[int, int, ir.Value, Slice | None], ir.Value] = {}
        self._fused: dict[str, tuple[list[str], list[str]]] = {}
        self._rank: dict[ir.Node, tuple[int, int]] = {}
        self._at = {node: index for index, node in enumerate(graph)}
        self._place = (0, 0)
        self._scope: tuple[int, int] = (0, 0)

    def run(self) -> TiledRegions:
        """See `tile_regions`."""
        at = self._at
        first = {id(cut): min(at[node] for node in cut.region.ops) for cut in self._cuts.values()}
        nodes = [node for node in self._graph if node in self._cuts]
        tiles: dict[str, tuple[ir.Node, ...]] = {}
        for node in nodes:
            cut = self._cuts[node]
            self._make.before = node
            self._make.stem = node.name or node.op_type
            tiles[node.name or ""] = self._tiles(node, cut, cut.region.ops[node], first[id(cut)])
        found = [self._joined(value) for node in nodes for value in node.outputs]
        joins = [join for join in found if join is not None]
        operands = [value for node in nodes for value in node.inputs if value is not None]
        for node in reversed(nodes):
            self._graph.remove(node, safe=True)
        drop_unused(self._graph, operands)
        self._sort()
        return TiledRegions(tiles, tuple(joins), self._fused, tuple(self._make.nodes))

    def _tiles(
        self, node: ir.Node, cut: CutRegion, op: TiledOp, anchor: int
    ) -> tuple[ir.Node, ...]:
        made: list[ir.Node] = []
        parts = [cut.parts(value) for value in node.outputs]
        for index, (start, stop) in enumerate(cut.bounds):
            form = shard_form(op.facts, op.rule, op.factor, start * op.unit, stop * op.unit)
            name = self._names.take(f"{node.name}/tile_{index}")
            self._place = (anchor, index)
            inputs = [
                self._operand(cut, node.inputs, at, index, form, name)
                for at in range(len(node.inputs))
            ]
            outputs = [
                own[index].of_value(value, self._names.take(f"{value.name}/tile_{index}"))
                for value, own in zip(node.outputs, parts, strict=True)
            ]
            tile = self._make.part(node, inputs, outputs, form, name, f"tile_{index}/sizes")
            self._rank[tile] = self._place
            made.append(tile)
        for at, (value, own) in enumerate(zip(node.outputs, parts, strict=True)):
            self._parts[value] = _Pieces(own, [tile.outputs[at] for tile in made])
        return tuple(made)

    def _operand(
        self,
        cut: CutRegion,
        operands: Sequence[ir.Value | None],
        at: int,
        index: int,
        form: ShardForm,
        reader: str,
    ) -> ir.Value | None:
        value = operands[at]
        if at < len(form.runs) and (row := operands[0]) is not None:
            return self._range(cut, row, Slice(*form.runs[at]), index, reader)
        if value is None:
            return None
        if at == 0 and form.reads is not None:
            return self._range(cut, value, Slice(*form.reads), index, reader)
        wanted = cut.region.slice_of(value, *cut.bounds[index])
        if wanted is None and value not in self._parts:
            return value
        return self._range(cut, value, wanted, index, reader)

    def _range(
        self, cut: CutRegion, value: ir.Value, wanted: Slice | None, index: int, reader: str
    ) -> ir.Value:
        """The range that a tile reads of a value; all of it where `wanted` is None."""
        before = self._make.before
        assert before is not None
        if value in self._constants and wanted is not None:
            return self._slicer.part(value, wanted, before)
        if value not in self._parts and self._fuses is None and wanted is not None:
            # All tiles of a region have the same bounds.
            self._parts[value] = self._taken_apart(cut, value)
        stem, self._make.stem = self._make.stem, reader
        self._scope = (id(cut), index)
        found = self._once(value, wanted, reader)
        self._make.stem = stem
        return found

    def _once(self, value: ir.Value, wanted: Slice | None, reader: str) -> ir.Value:
        """A range of a value, put together once for the ops of a tile."""
        if wanted == _all_of(value, wanted):
            wanted = None
        pieces = self._parts.get(value)
        if pieces is None:
            return value if wanted is None else self._cut_out(value, wanted, reader)
        key = (*self._scope, value, wanted)
        if key not in self._read:
            self._read[key] = self._assembled(value, pieces, wanted, reader)
        return self._read[key]

    def _assembled(
        self, value: ir.Value, pieces: _Pieces, wanted: Slice | None, reader: str
    ) -> ir.Value:
        parts: list[ir.Value] = []
        for there, part in zip(pieces.parts, pieces.values, strict=True):
            own = wanted
            if wanted is not None and wanted.axis == pieces.axis:
                if wanted.stop <= there.start or there.stop <= wanted.start:
                    continue
                low, high = max(wanted.start, there.start), min(wanted.stop, there.stop)
                own = Slice(wanted.axis, low - there.start, high - there.start)
            parts.append(self._once(part, own, reader))
        if len(parts) == 1:
            return parts[0]
        dims = list(fixed_shape(value))
        if wanted is not None:
            dims[wanted.axis] = wanted.extent
        along = [ir.AttrInt64("axis", pieces.axis)]
        joined = self._make.op("Concat", parts, along, value.dtype, dims)
        self._fuse(joined, reader, 0)
        return joined

    def _cut_out(self, value: ir.Value, wanted: Slice, reader: str) -> ir.Value:
        """A range of a value: by the op that makes it, or by `reader` where none can."""
        maker = value.producer()
        with_maker = maker is not None and self._fuses is not None and self._fuses(maker)
        key = (value, wanted)
        if with_maker and (known := self._sliced.get(key)) is not None:
            # The check of kernels takes it for a piece by a reader that is no range itself.
            cut, before = known.producer(), self._make.before
            if cut is not None and before is not None and before.op_type != "Concat":
                cut.metadata_props.update(before.metadata_props)
            return known
        stem = self._make.stem
        if with_maker:
            self._make.stem = f"{value.name}/{wanted.start}_{wanted.stop}"
        result = self._slice_op(value, wanted)
        self._make.stem = stem
        if with_maker and maker is not None:
            self._sliced[key] = result
            place, self._place = self._place, self._rank.get(maker) or (self._at[maker], 0)
            self._fuse(result, maker.name or "", 1)
            self._place = place
        else:
            self._fuse(result, reader, 0)
        return result

    def _slice_op(self, value: ir.Value, wanted: Slice) -> ir.Value:
        bounds = {"starts": [wanted.start], "ends": [wanted.stop], "axes": [wanted.axis]}
        dims = wanted.of_shape(fixed_shape(value))
        if self._make.opset < _SLICE_HAS_OPERANDS:
            given = [ir.AttrInt64s(name, numbers) for name, numbers in bounds.items()]
            return self._make.op("Slice", [value], given, value.dtype, dims)
        numbers = [self._make.constant(np.array(at, np.int64), name) for name, at in bounds.items()]
        return self._make.op("Slice", [value, *numbers], [], value.dtype, dims)

    def _fuse(self, made: ir.Value, node: str, side: int) -> None:
        maker = made.producer()
        assert maker is not None
        if self._fuses is not None:
            self._rank[maker] = self._place
            self._fused.setdefault(node, ([], []))[side].append(maker.name or "")

    def _taken_apart(self, cut: CutRegion, value: ir.Value) -> _Pieces:
        parts = cut.parts(value)
        stem, self._make.stem = self._make.stem, value.name or ""
        made = split_value(self._make, value, parts[0].axis, 1, [part.extent for part in parts])
        self._make.stem = stem
        return _Pieces(parts, made)

    def _joined(self, value: ir.Value) -> ir.Node | None:
        """Puts a value together where something outside reads it, or it is an output."""
        outside = [use for use in value.uses() if use.node not in self._cuts]
        if not outside and not value.is_graph_output():
            return None
        pieces, fuses = self._parts[value], self._fuses
        if fuses is None or value.is_graph_output() or not all(fuses(u.node) for u in outside):
            node = value.producer()
            assert node is not None
            name = self._names.take(f"{value.name}/concat")
            join = concat_in_place(node, value, pieces.values, pieces.axis, name)
            self._graph.insert_before(node, join)
            self._make.nodes.append(join)
            return join
        for use in outside:
            name = use.node.name or ""
            self._make.before, self._make.stem = use.node, name
            self._place = (self._at[use.node], -1)
            self._scope = (id(use.node), 0)
            use.node.replace_input_with(use.idx, self._once(value, None, name))
        return None

    def _sort(self) -> None:
        """A topological order in which tiles follow each other, else in the order of before."""
        nodes = list(self._graph)
        last = 0
        rank: list[tuple[int, int, int]] = []
        for index, node in enumerate(nodes):
            last = self._at.get(node, last)
            rank.append((*self._rank.get(node, (last, -1)), index))
        makers = {value: at for at, node in enumerate(nodes) for value in node.outputs}
        edges = {
            (makers[value], at)
            for at, node in enumerate(nodes)
            for value in consumed_values(node)
            if value in makers
        }
        order = topological(following_lists(len(nodes), sorted(edges)), rank)
        self._graph.extend(nodes[at] for at in order)
