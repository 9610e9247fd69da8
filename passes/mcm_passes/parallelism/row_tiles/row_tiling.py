"""Which ops are divided along rows, along which, and into how many tiles."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import onnx_ir as ir

from mcm_compiler.components.op_support import runs_on_host
from mcm_compiler.contracts.fusion import FUSION_PLAN, FusionGroup, FusionPlan
from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.graph.constants import constant_values, consumed_values, leaves, placeable_nodes
from mcm_compiler.text.units import bytes_text, count_text
from mcm_passes.parallelism.oversized import output_pieces
from mcm_passes.parallelism.oversized.model_division import ModelDivision

if TYPE_CHECKING:
    from mcm_passes.parallelism.row_tiles.row_regions import RowRegion

SMALL = 0.125
"""Share of a chip's SRAM up to which a value may be taken apart or put together on the way."""

TILES_PER_CHIP = 4
"""Tiles that a region is divided into at most, for each chip of the package."""

MAX_REFUSED = 5
"""Ops that are said not to be divided along rows."""

_EXTENTS = frozenset({"Shape", "Size"})


class RowTiler:
    """Divides ops of one model along rows, in place.

    Args:
        division: the model, with sizes of values on a chip.
        tile_rows: rows of the largest tile of any op that can be divided; 0 for as few tiles as
            fit, of ops that no chip has space for.
        taken: ops that stay as they are.
    """

    def __init__(
        self, division: ModelDivision, tile_rows: int, taken: Collection[ir.Node] = ()
    ) -> None:
        self._division, self._graph = division, division.model.graph
        self._cost_model, self._limits = division.cost_model, division.limits
        self._sram = division.sram_bytes
        self._tile_rows = tile_rows
        self._constants = constant_values(self._graph)
        self._sizes: dict[ir.Value, int] = {}
        self._new: set[ir.Node] = set(taken)
        self._kept: list[ir.Node] = []

    def run(self) -> bool:
        """See the class; returns whether something is divided."""
        wanted = self._oversized()
        if self._tile_rows:
            wanted |= {node: 0 for node in placeable_nodes(self._graph) if node not in wanted}
        tiled, refused = False, list[tuple[ir.Node, int, list[str]]]()
        for node, need in wanted.items():
            if node.graph is not self._graph:
                continue  # divided with another one
            reasons = self._tile(node, need)
            tiled |= reasons is None
            if reasons and need:
                refused.append((node, need, reasons))
        self._division.price(self._kept)
        # What was refused may have been divided with another op.
        whole = [found for found in refused if found[0].graph is self._graph]
        for found in whole[:MAX_REFUSED]:
            self._division.context.report(_refusal(*found, self._sram))
        return tiled

    def _size(self, value: ir.Value) -> int:
        if value not in self._sizes:
            self._sizes[value] = max(0, self._cost_model.storage_bytes(value))
        return self._sizes[value]

    def _oversized(self) -> dict[ir.Node, int]:
        """Ops of kernels that need more than a chip has, whatever else is there, with the need."""
        units, names = dict[str, list[ir.Node]](), self._division.plan.group_names
        for node in placeable_nodes(self._graph):
            name = node.name or ""
            units.setdefault(names.get(name, f"op {name}"), []).append(node)
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

    def _tile(self, node: ir.Node, need: int) -> list[str] | None:
        """Divides a region that begins with an op, or says why none is divided."""
        # Most models have no such op: they load no rules.
        from mcm_passes.parallelism.row_tiles.row_regions import RowRegions
        from mcm_passes.parallelism.rules.graph_rules import GraphRules, installed_rules

        small = 0.0 if self._tile_rows else SMALL * self._sram
        rules = GraphRules(self._division.model, installed_rules())
        regions = RowRegions(rules, self._constants, self._new, self._size, small)
        reasons: list[str] = []
        for region in regions.of(node):
            if not need and self._breaks_kernel(region):
                break
            found = self._bounds(region)
            if isinstance(found, str):
                reasons.append(f"over {region.rows:,} rows, {found}")
                continue
            self._rewrite(node, need, region, found)
            return None
        return reasons or ["no axis of its result is divided by a rule without partial sums"]

    def _breaks_kernel(self, region: RowRegion) -> bool:
        """Return whether channels of images are divided, but not all that is fused with the ops."""
        if not all(how.axis == 1 and len(v.shape or ()) > 3 for v, how in region.values.items()):
            return False
        divided, groups = {node.name or "" for node in region.ops}, self._division.plan.group_of
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
            if largest[0] <= self._division.fraction * self._sram:
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
        names = self._division.plan.group_names
        found: dict[str, list[ir.Node]] = {}
        for node in region.ops:
            found.setdefault(names.get(node.name or "", f"op {node.name}"), []).append(node)
        whole = {group.name: len(group.nodes) for group in self._division.plan.groups}
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
        self, node: ir.Node, need: int, region: RowRegion, bounds: Sequence[tuple[int, int]]
    ) -> None:
        from mcm_passes.parallelism.row_tiles.tile_rewriting import CutRegion, tile_regions

        division, why = self._division, ""
        if need:
            why = f"{bytes_text(need)} do not fit a chip of {bytes_text(self._sram)}: "
        division.context.report(
            Diagnostic(
                "MCM-P057",
                f"{why}{count_text(len(region.ops), 'op')} divided along {region.rows:,} rows into "
                f"{len(bounds)} tiles",
                at=f"node {quote(node.name or '')}",
            )
        )
        made = tile_regions(self._graph, [CutRegion(region, bounds)], self._constants)
        if FUSION_PLAN.present(division.model):
            FUSION_PLAN.set(division.model, plan_of_tiles(division.plan, made.tiles))
        gone = division.let_leave(made.joins)
        self._new.update(made.nodes)
        self._constants = constant_values(self._graph)
        self._kept += [new for new in made.nodes if new not in gone]


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


def _refusal(node: ir.Node, need: int, reasons: Sequence[str], sram_bytes: int) -> Diagnostic:
    return Diagnostic(
        "MCM-P058",
        f"{bytes_text(need)} do not fit a chip of {bytes_text(sram_bytes)}, and the op is not "
        "divided along rows: " + "; ".join(reasons),
        at=f"node {quote(node.name or '')} ({quote(node.op_type)})",
    )
