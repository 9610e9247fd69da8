"""Which ops are divided along rows, along which, and into how many tiles."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import onnx_ir as ir

from mcm_compiler.components.op_support import runs_on_host
from mcm_compiler.contracts.cost import CostModel
from mcm_compiler.contracts.fusion import FusionGroup, FusionPlan
from mcm_compiler.contracts.sharding.sharding import OutputPart
from mcm_compiler.contracts.target import PackageLimits
from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.graph.constants import constant_values, consumed_values, leaves, placeable_nodes
from mcm_compiler.text.units import bytes_text, count_text
from mcm_passes.parallelism.oversized import output_pieces

if TYPE_CHECKING:
    from mcm_passes.parallelism.row_tiles.row_regions import RowRegion

SMALL = 0.125
"""Share of a chip's SRAM up to which a value may be taken apart or put together on the way."""

TILES_PER_CHIP = 4
"""Tiles that a region is divided into at most, for each chip of the package."""

_EXTENTS = frozenset({"Shape", "Size"})


@dataclass(frozen=True)
class TiledRows:
    """One region that was divided.

    Attributes:
        node: the op that it was divided for.
        need_bytes: what this op needs at least on a chip; 0 where it was divided for an option.
        rows: of the region.
        tiles: into how many it was divided.
        ops: names of its ops.
        parts: places of the pieces of outputs that now leave in pieces, output by output.
    """

    node: str
    need_bytes: int
    rows: int
    tiles: int
    ops: tuple[str, ...]
    parts: tuple[tuple[tuple[str, OutputPart], ...], ...]


@dataclass(frozen=True)
class NotTiled:
    """An op that no chip has space for and that is not divided.

    Attributes:
        node: the op.
        need_bytes: what it needs at least on a chip.
        reasons: why, axis by axis.
    """

    node: ir.Node
    need_bytes: int
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class RowTiling:
    """Changes that were made to a graph.

    Attributes:
        plan: the fusion plan of the graph as it is now; tiles are fused as the whole was.
        regions: that were divided.
        refused: ops that were not.
        nodes: all new ops.
    """

    plan: FusionPlan
    regions: tuple[TiledRows, ...]
    refused: tuple[NotTiled, ...]
    nodes: tuple[ir.Node, ...]


class RowTiler:
    """Divides ops of one model along rows, in place.

    Args:
        model: with shapes.
        cost_model: gives the size of values on a chip.
        limits: of the package.
        plan: the fusion plan.
        fraction: part of a chip's SRAM that a tile may take with all buffers.
        tile_rows: rows of the largest tile of any op that can be divided; 0 for as few tiles as
            fit, of ops that no chip has space for.
        taken: ops that stay as they are.
    """

    def __init__(
        self,
        model: ir.Model,
        cost_model: CostModel,
        limits: PackageLimits,
        plan: FusionPlan,
        fraction: float,
        tile_rows: int,
        taken: Collection[ir.Node] = (),
    ) -> None:
        self._model, self._graph = model, model.graph
        self._cost_model = cost_model
        self._sram = max(limits.sram_bytes)
        self._limits = limits
        self._plan = plan
        self._fraction = fraction
        self._tile_rows = tile_rows
        self._constants = constant_values(self._graph)
        self._sizes: dict[ir.Value, int] = {}
        self._new: set[ir.Node] = set(taken)

    def run(self) -> RowTiling:
        """See the class."""
        wanted = self._oversized()
        if self._tile_rows:
            wanted |= {node: 0 for node in placeable_nodes(self._graph) if node not in wanted}
        regions: list[TiledRows] = []
        refused: list[NotTiled] = []
        kept: list[ir.Node] = []
        for node, need in wanted.items():
            if node.graph is not self._graph:
                continue  # divided with another one
            found = self._tile(node, need, kept)
            if isinstance(found, TiledRows):
                regions.append(found)
            elif need:
                refused.append(NotTiled(node, need, tuple(found)))
        # What was refused may have been divided with another op.
        whole = tuple(found for found in refused if found.node.graph is self._graph)
        return RowTiling(self._plan, tuple(regions), whole, tuple(kept))

    def _size(self, value: ir.Value) -> int:
        if value not in self._sizes:
            self._sizes[value] = max(0, self._cost_model.storage_bytes(value))
        return self._sizes[value]

    def _oversized(self) -> dict[ir.Node, int]:
        """Ops of kernels that need more than a chip has, whatever else is there, with the need."""
        units: dict[str, list[ir.Node]] = {}
        for node in placeable_nodes(self._graph):
            name = node.name or ""
            units.setdefault(self._plan.group_names.get(name, f"op {name}"), []).append(node)
        found: dict[ir.Node, int] = {}
        for nodes in units.values():
            values = [v for node in nodes for v in (*consumed_values(node), *node.outputs)]
            most = sum(self._size(self._root(v)) for v in values)
            if most * max(self._limits.channel_slots, 1) <= self._sram:
                continue
            need = self._need(nodes)
            if need > self._sram:
                found[max(nodes, key=self._touched)] = need
        return found

    def _touched(self, node: ir.Node) -> int:
        return sum(self._size(value) for value in (*consumed_values(node), *node.outputs))

    def _need(self, nodes: Sequence[ir.Node]) -> int:
        """The least bytes that a chip holds while it runs a kernel; 0 for one of views alone."""
        if all(node.op_type in output_pieces.VIEWS or node.op_type in _EXTENTS for node in nodes):
            return 0
        made = {value for node in nodes for value in node.outputs}
        inside = set(nodes)
        slots = self._limits.channel_slots
        # The host has the weights of what it runs.
        elsewhere = self._limits.stream_bytes_per_s > 0.0 or runs_on_host(self._cost_model, nodes)
        held: dict[ir.Value, int] = {}
        for node in nodes:
            for value in consumed_values(node):
                if value in made:
                    continue
                root = self._root(value)
                absent = elsewhere and value in self._constants
                times = 0 if absent else slots if root.is_graph_input() else 1
                times = 1 if root in self._constants and times else times
                held[root] = max(held.get(root, 0), times)
            for value in node.outputs:
                root = self._root(value)
                if output_pieces.output_behind(self._graph, value, self._constants) is not None:
                    held[root] = slots
                elif any(use.node not in inside for use in value.uses()):
                    held[root] = max(held.get(root, 0), 1)
        return sum(times * self._size(value) for value, times in held.items())

    def _root(self, value: ir.Value) -> ir.Value:
        """Value that a value is a view of."""
        while (node := value.producer()) is not None and node.op_type in output_pieces.VIEWS:
            source = node.inputs[0] if node.inputs else None
            if source is None:
                break
            value = source
        return value

    def _tile(self, node: ir.Node, need: int, kept: list[ir.Node]) -> TiledRows | list[str]:
        """Divides a region that begins with an op, or says why none is divided."""
        # Most models have no such op: they load no rules.
        from mcm_passes.parallelism.row_tiles.row_regions import RowRegions
        from mcm_passes.parallelism.rules.graph_rules import GraphRules, installed_rules

        small = 0.0 if self._tile_rows else SMALL * self._sram
        rules = GraphRules(self._model, installed_rules())
        regions = RowRegions(rules, self._constants, self._new, self._size, small)
        reasons: list[str] = []
        for region in regions.of(node):
            if not need and self._breaks_kernel(region):
                break
            found = self._bounds(region)
            if isinstance(found, str):
                reasons.append(f"over {region.rows:,} rows, {found}")
                continue
            return self._rewrite(node, need, region, found, kept)
        return reasons or ["no axis of its result is divided by a rule without partial sums"]

    def _breaks_kernel(self, region: RowRegion) -> bool:
        """Return whether channels of images are divided, but not all that is fused with the ops."""
        if not all(how.axis == 1 and len(v.shape or ()) > 3 for v, how in region.values.items()):
            return False
        divided, groups = {node.name or "" for node in region.ops}, self._plan.group_of
        found = (groups[name] for name in divided if name in groups)
        return any(not divided.issuperset(group.nodes) for group in found)

    def _bounds(self, region: RowRegion) -> list[tuple[int, int]] | str:
        """The tiles of a region, or why there are none.

        The chip of a tile may have to hand on what the tiles behind it read. Where that is possible
        for no tile, the memory plan may still find a way without.
        """
        for what, size in self._at_the_rim(region):
            if size > self._sram:
                return f"{what} takes {bytes_text(size)}"
        with_relays = None if self._tile_rows else self._fit(region, relays=True)
        if isinstance(with_relays, list):
            return with_relays
        return self._fit(region, relays=False)

    def _fit(self, region: RowRegion, *, relays: bool) -> list[tuple[int, int]] | str:
        """As few tiles as fit, or why none do."""
        from mcm_passes.parallelism.row_tiles.row_regions import least_rows

        rows = region.rows
        kernels = self._kernels(region)
        least = {node: least_rows(node, op) for node, op in region.ops.items()}
        first = max(2, -(-rows // self._tile_rows)) if self._tile_rows else 2
        most = min(rows, TILES_PER_CHIP * self._limits.num_chips)
        largest: tuple[int, str] = (0, "")
        for count in range(first, most + 1):
            bounds = output_pieces.piece_bounds(rows, count)
            extents = [stop - start for start, stop in bounds]
            for node, few in least.items():
                if min(extents) < few:
                    before = f"; in fewer {quote(largest[1])} needs {bytes_text(largest[0])}"
                    return (
                        f"{quote(node.name or '')} would sum in another order in {count} tiles, of "
                        f"fewer than {few} rows{before if largest[1] else ''}"
                    )
            share = max(extents) / rows
            needs = ((self._tile_need(k, region, share, relays), k) for k in kernels)
            largest = max((need, kernel[-1].name or "") for need, kernel in needs)
            if largest[0] <= self._fraction * self._sram:
                return bounds
        return f"{quote(largest[1])} needs {bytes_text(largest[0])} in {most} tiles"

    def _at_the_rim(self, region: RowRegion) -> Iterator[tuple[str, int]]:
        """Steps that take values apart and put them together."""
        slots = self._limits.channel_slots
        for value in region.values:
            size, maker = self._size(value), value.producer()
            if value in self._constants:
                continue
            if maker not in region.ops:
                yield (
                    f"taking {quote(value.name or '')} apart",
                    size + (slots if value.is_graph_input() else 1) * size,
                )
            elif output_pieces.output_behind(
                self._graph, value, self._constants
            ) is None and leaves(value, region.ops):
                times = slots if value.is_graph_output() else 1
                yield f"putting {quote(value.name or '')} together", size + times * size

    def _kernels(self, region: RowRegion) -> list[list[ir.Node]]:
        """The ops of a region, those together that stay fused."""
        names = self._plan.group_names
        found: dict[str, list[ir.Node]] = {}
        for node in region.ops:
            found.setdefault(names.get(node.name or "", f"op {node.name}"), []).append(node)
        whole = {group.name: len(group.nodes) for group in self._plan.groups}
        kernels: list[list[ir.Node]] = []
        for name, nodes in found.items():
            fused = whole.get(name) == len(nodes)
            kernels += [nodes] if fused else [[node] for node in nodes]
        return kernels

    def _tile_need(
        self, kernel: Sequence[ir.Node], region: RowRegion, share: float, relays: bool
    ) -> int:
        """Bytes of one tile of a kernel with all buffers.

        Args:
            kernel: its ops.
            region: that they are in.
            share: of the rows.
            relays: whether all that the other tiles read is received and sent on, too.
        """
        slots, inside = self._limits.channel_slots, set(kernel)
        made = {value for node in kernel for value in node.outputs}
        read = {value for node in kernel for value in consumed_values(node)} - made
        leaving = {value for value in made if leaves(value, inside)}
        if runs_on_host(self._cost_model, kernel):
            read -= self._constants
        total = 0.0
        for value in read | leaving:
            part = share if value in region.values else 1.0
            times = part if value in self._constants else slots * part
            if relays and value in read and value not in self._constants:
                times = 2.0 * slots
            total += times * self._size(value)
        return int(total)

    def _rewrite(
        self,
        node: ir.Node,
        need: int,
        region: RowRegion,
        bounds: Sequence[tuple[int, int]],
        kept: list[ir.Node],
    ) -> TiledRows:
        from mcm_passes.parallelism.row_tiles.tile_rewriting import CutRegion, tile_regions

        name, ops = node.name or "", tuple(n.name or "" for n in region.ops)
        made = tile_regions(self._graph, [CutRegion(region, bounds)], self._constants)
        self._plan = plan_of_tiles(self._plan, made.tiles)
        parts: list[tuple[tuple[str, OutputPart], ...]] = []
        gone: set[ir.Node] = set()
        for join in made.joins:
            sizes = [self._size(piece) for piece in join.inputs if piece is not None]
            if (
                output_pieces.gather_bytes(sizes, self._limits.channel_slots)
                <= self._fraction * self._sram
            ):
                continue
            if (joined := output_pieces.joined_output(self._graph, join)) is not None:
                parts.append(tuple(output_pieces.leave_in_pieces(self._graph, joined).items()))
                gone.add(join)
        self._new.update(made.nodes)
        self._constants = constant_values(self._graph)
        kept += [new for new in made.nodes if new not in gone]
        return TiledRows(name, need, region.rows, len(bounds), ops, tuple(parts))


def plan_of_tiles(plan: FusionPlan, tiles: Mapping[str, Sequence[ir.Node]]) -> FusionPlan:
    """The fusion plan once ops are divided: a group of which all ops are becomes one for each tile.

    Groups of which only some ops are divided are given up.

    Args:
        plan: before.
        tiles: the ops of the tiles of each op by its name.
    """
    groups: list[FusionGroup] = []
    for group in plan.groups:
        divided = [name for name in group.nodes if name in tiles]
        if not divided:
            groups.append(group)
        elif len(divided) == len(group.nodes):
            for index in range(len(tiles[divided[0]])):
                names = tuple(tiles[name][index].name or "" for name in group.nodes)
                last = tiles[group.name][index].name if group.name in tiles else names[-1]
                groups.append(replace(group, name=last or "", nodes=names))
    return FusionPlan(tuple(groups))


def tiled_note(region: TiledRows, limits: PackageLimits) -> Diagnostic:
    """MCM-P057: ops were divided along rows."""
    largest = bytes_text(max(limits.sram_bytes))
    why = f"{bytes_text(region.need_bytes)} do not fit a chip of {largest}: "
    return Diagnostic(
        "MCM-P057",
        f"{why if region.need_bytes else ''}{count_text(len(region.ops), 'op')} divided along "
        f"{region.rows:,} rows into {region.tiles} tiles",
        at=f"node {quote(region.node)}",
    )


def not_tiled_note(refused: NotTiled, limits: PackageLimits) -> Diagnostic:
    """MCM-P058: an op that no chip has space for is not divided."""
    return Diagnostic(
        "MCM-P058",
        f"{bytes_text(refused.need_bytes)} do not fit a chip of "
        f"{bytes_text(max(limits.sram_bytes))}, and the op is not divided along rows: "
        + "; ".join(refused.reasons),
        at=f"node {quote(refused.node.name or '')} ({quote(refused.node.op_type)})",
    )
