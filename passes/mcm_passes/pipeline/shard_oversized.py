"""Splits operators with more weights than a chip can hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import onnx_ir as ir

from mcm_compiler.contracts.cost import NODE_COST
from mcm_compiler.contracts.fusion import FUSION_PLAN, FusionPlan
from mcm_compiler.contracts.sharding import sharding
from mcm_compiler.contracts.target import PackageLimits, Target
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.states import STATES
from mcm_compiler.pipeline.passes import AnyKey, Pass, PassContext
from mcm_compiler.text.option_fields import at_least, checked, from_to
from mcm_compiler.text.units import bytes_text, count_text, percent_text
from mcm_passes.parallelism.oversized import oversized
from mcm_passes.parallelism.oversized.model_division import ModelDivision
from mcm_passes.parallelism.row_tiles.row_tiling import RowTiler

MIB = 1 << 20

SMALL_IMAGE = 0.25
"""Share of a chip's SRAM up to which images stay whole where weights are streamed: each tile of
rows reads them again."""

_Divided = tuple[sharding.OperatorSharding, oversized.Oversized]


@dataclass(frozen=True)
@checked(
    fraction=from_to(0.01, 1),
    tile_rows=at_least(0),
    sram_mib=from_to(0, 2**20),
    grain=at_least(0),
    caches=at_least(1),
)
class ShardOversized(Pass):
    """Replaces each operator whose weights do not fit a chip by operators with a slice each.

    The result is bit-identical. Weights are sliced when they are written, not here.

    Attributes:
        fraction: part of a chip's SRAM that the weights of one operator and its buffers may take.
        tile_rows: rows of the largest tile of any op that can be divided along rows, or twice as
            many rows of an image where that fills the MAC array. At 0 only ops that no chip has
            memory for are divided, into as few tiles as fit.
        sram_mib: SRAM of the chips that ops are divided for, if less than the target's; 0 for the
            target's.
        grain: kernels that take more than this times the work of the model for each chip are cut,
            each along the loop that costs least; 0 cuts none.
        caches: pieces of the cache of each layer, by heads; more where no chip holds one.

    Raises:
        ValueError: for options out of range.
    """

    name: ClassVar[str] = "shard_oversized"
    summary: ClassVar[str] = "split operators with more weights than a chip can hold"
    provides: ClassVar[tuple[AnyKey, ...]] = (sharding.SHARDING_PLAN, sharding.OUTPUT_PARTS)
    preserves: ClassVar[tuple[AnyKey, ...]] = (NODE_COST, FUSION_PLAN)

    fraction: float = 0.95
    tile_rows: int = 0
    sram_mib: float = 0.0
    grain: float = 0.0
    caches: int = 1

    def for_chips_of(self, _chips: int, sram_bytes: int) -> Self:
        """See `Pass`."""
        least = min(filter(None, (sram_bytes / MIB, self.sram_mib)), default=0.0)
        return replace(self, sram_mib=least)

    def _limits(self, target: Target) -> PackageLimits:
        """Limits of the chips that ops are divided for."""
        limits = target.limits
        most = int(self.sram_mib * MIB) or max(limits.sram_bytes)
        return replace(limits, sram_bytes=tuple(min(one, most) for one in limits.sram_bytes))

    def run(self, model: ir.Model, context: PassContext) -> bool:
        """See the class.

        Raises:
            CompileError: MCM-P003 for each operator that fits no chip and cannot be split,
                MCM-P004 if the package has less memory than the model has weights.
        """
        limits = self._limits(context.target)
        division = ModelDivision(
            model,
            context,
            limits,
            context.target.cost_model(),
            self.fraction,
            NODE_COST.present(model),
            dict(sharding.OUTPUT_PARTS.find(model) or {}),
        )
        in_pieces = STATES.present(model) and self._cut_caches(division)
        taken = self._cut_kernels(division, for_memory=True)
        # Tiles of rows read a streamed weight each, so that they are made of whole ops.
        rows_first = bool(self.tile_rows) and limits.stream_bytes_per_s > 0.0
        if rows_first:
            self._cut_sums(division)
        tiled = rows_first and self._divide_all_rows(division, taken)
        tiles = () if rows_first else taken
        demands = oversized.WeightDemands(
            model.graph, division.cost_model, limits, tiles, states=STATES.present(model)
        )
        demand = demands.above(self.fraction)
        CompileError.raise_any(_faults(demand, context.target, limits))
        self._slice_weights(division, demand)
        if not rows_first:
            tiled = self._divide_all_rows(division, taken)
        sharding.OUTPUT_PARTS.set(model, division.parts)
        return bool(demand.oversized) or tiled or in_pieces

    def _cut_caches(self, division: ModelDivision) -> bool:
        """Divides caches by heads, as `caches` or the size of a chip says."""
        from mcm_passes.parallelism.row_tiles import cache_cuts

        if (pieces := max(self.caches, cache_cuts.least_pieces(division))) < 2:
            return False
        cuts = cache_cuts.cache_cuts(division.model, pieces)
        division.context.report(cache_cuts.cache_note(division.model, cuts))
        if cuts:
            cache_cuts.cut_caches(division, cuts)
        return bool(cuts)

    def _cut_sums(self, division: ModelDivision) -> None:
        from mcm_passes.parallelism.row_tiles import inner_sums

        graph = division.model.graph
        for node, parts in inner_sums.long_products(graph, division.cost_model, division.limits):
            division.unfuse([node])
            division.context.report(
                Diagnostic(
                    "MCM-P011",
                    f"few columns of its weight fit a chip of {bytes_text(division.sram_bytes)} "
                    f"at once: its sum is split into {parts} parts, which are added up",
                    at=f"node {quote(node.name or '')} ({quote(node.op_type)})",
                )
            )
            division.price(inner_sums.cut_sum(graph, node, parts))

    def _slice_weights(self, division: ModelDivision, demand: oversized.WeightDemand) -> None:
        """Divides ops by their weights."""
        model, limits = division.model, division.limits
        earlier = sharding.SHARDING_PLAN.find(model)
        records = list(earlier.operators) if earlier is not None else []
        if self.tile_rows and limits.stream_bytes_per_s > 0.0:
            demand = replace(demand, oversized=self._slice_kernels(division, records, demand))
        division.unfuse([found.node for found in demand.oversized])
        sharder, divided = oversized.OperatorSharder(model.graph), list[_Divided]()
        for found in demand.oversized:
            stored_bytes = division.cost_model.storage_bytes(found.weight)
            record, nodes = sharder.shard(found)
            records.append(replace(record, weight_bytes=stored_bytes))
            division.price(nodes)
            divided.append((record, found))
            division.let_leave(nodes[-1:])
        _note_slices(division, divided, demand.full)
        sharding.SHARDING_PLAN.set(model, sharding.ShardingPlan(tuple(records)))

    def _slice_kernels(
        self,
        division: ModelDivision,
        records: list[sharding.OperatorSharding],
        demand: oversized.WeightDemand,
    ) -> tuple[oversized.Oversized, ...]:
        """Divides ops with those that run with them, whose results their readers put together.

        Returns:
            Those that are not divided so.
        """
        from mcm_passes.parallelism.row_tiles import kernel_cuts, tile_rewriting

        model, plan, cost_model = division.model, division.plan, division.cost_model
        kernels = kernel_cuts.KernelCuts(model, cost_model, plan)
        rest: list[oversized.Oversized] = []
        divided: list[_Divided] = []
        cuts: list[tile_rewriting.CutRegion] = []
        groups = {group.name: group for group in plan.groups}
        for found in demand.oversized:
            cut, name = found.cut, found.node.name or ""
            region = None if cut is None else kernels.along(found.node, cut.output_axis, plan)
            if cut is None or region is None or region.rows != found.pieces[-1][1]:
                rest.append(found)
                continue
            cuts.append(tile_rewriting.CutRegion(region, found.pieces))
            names = [node.name or "" for node in region.ops]
            if (group := plan.group_of.get(name)) is not None:
                groups.pop(group.name, None)
                groups[names[-1]] = replace(group, name=names[-1], nodes=tuple(names))
            record = sharding.OperatorSharding(
                name,
                found.weight.name or "",
                cost_model.storage_bytes(found.weight),
                cut.axis,
                tuple(f"{name}/tile_{piece}" for piece in range(len(found.pieces))),
            )
            records.append(record)
            divided.append((record, found))
        _note_slices(division, divided, demand.full)
        if cuts:
            plan = FusionPlan(tuple(group for group in groups.values() if len(group.nodes) > 1))
            FUSION_PLAN.set(model, plan)
            division.price(kernel_cuts.cut_kernels(division, cuts).nodes)
        return tuple(rest)

    def _divide_all_rows(self, division: ModelDivision, taken: set[ir.Node]) -> bool:
        """Divides kernels that take long, and then what no chip can hold; `taken` are new ops."""
        taken |= self._cut_kernels(division, for_memory=False)
        rows = 0 if division.limits.stream_bytes_per_s > 0.0 else self.tile_rows
        return RowTiler(division, rows, taken).run() or bool(taken)

    def _cut_kernels(self, division: ModelDivision, *, for_memory: bool) -> set[ir.Node]:
        """Divides kernels of windows for `tile_rows`, or what takes long; the new ops."""
        if not (self.tile_rows if for_memory else self.grain):
            return set()
        # Most models are compiled without: they load no rules.
        from mcm_passes.parallelism.row_tiles import kernel_cuts

        limits = division.limits
        kernels = kernel_cuts.KernelCuts(division.model, division.cost_model, division.plan)
        if for_memory and limits.stream_bytes_per_s > 0.0:
            small = SMALL_IMAGE * division.sram_bytes
            found = kernels.cut_for_memory(self.tile_rows, math.inf, small)
        elif for_memory:
            found = kernels.cut_for_memory(self.tile_rows, self.fraction * division.sram_bytes)
        else:
            share_s = kernels.work_s / limits.num_chips
            found = kernels.cut_above(self.grain * share_s, share_s)
        for note in kernel_cuts.cut_notes(found, kernels.whole, self.tile_rows * for_memory):
            division.context.report(note)
        if not found:
            return set()
        done = kernel_cuts.cut_kernels(division, [one.cut for one in found])
        nodes = set(done.nodes) - division.let_leave(done.joins)
        division.price([node for node in done.nodes if node in nodes])
        return nodes


def _faults(
    demand: oversized.WeightDemand, target: Target, divided_for: PackageLimits
) -> list[Diagnostic]:
    limits, largest = target.limits, max(divided_for.sram_bytes)
    smaller = "" if largest == max(limits.sram_bytes) else " by `sram_mib`"
    faults = [
        Diagnostic(
            "MCM-P003",
            f"node {quote(found.node.name or '')} needs {bytes_text(found.weight_bytes)} of "
            f"weights, a chip of {quote(target.name)} has {bytes_text(largest)}{smaller}",
            at=f"node {quote(found.node.name or '')} ({quote(found.node.op_type)}, weight "
            f"{quote(found.weight.name or '')})",
        )
        for found in demand.oversized
        if found.cut is None
    ]
    if limits.stream_bytes_per_s == 0.0 and demand.total_bytes > sum(limits.sram_bytes):
        faults.append(
            Diagnostic(
                "MCM-P004",
                f"the weights take {bytes_text(demand.total_bytes)}, the {limits.num_chips} "
                f"chips of {quote(target.name)} have {bytes_text(sum(limits.sram_bytes))}",
                at="all weights of the graph",
            )
        )
    return faults


def _note_slices(division: ModelDivision, divided: Sequence[_Divided], full: float) -> None:
    """A note for each reason, about the first op that was divided for it."""
    largest = division.sram_bytes
    reasons: dict[str, list[_Divided]] = {}
    for record, found in divided:
        why = f"do not fit a chip of {bytes_text(largest)}"
        if full and found.weight_bytes < largest:
            why = f"leave gaps in a package that is filled to {percent_text(full)} by weights"
        elif found.weight_bytes < largest:
            why = f"leave too little of a chip of {bytes_text(largest)} at "
            why += f"`fraction={division.fraction:g}`"
        reasons.setdefault(why, []).append((record, found))
    for why, ((record, found), *others) in reasons.items():
        more = f" ({count_text(len(others), 'more op')} likewise)" if others else ""
        division.context.report(
            Diagnostic(
                "MCM-P011",
                f"{bytes_text(found.weight_bytes)} of weights {why}: split into "
                f"{len(record.pieces)} pieces along axis {record.axis} of "
                f"{quote(record.weight)}{more}",
                at=f"node {quote(record.node)} ({quote(found.node.op_type)})",
            )
        )
