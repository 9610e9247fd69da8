"""Which division of a model a level builds: candidates, ranked by estimates of their periods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import inf

import onnx_ir as ir

from mcm_compiler.contracts.cost import CostModel
from mcm_compiler.contracts.fusion import FUSION_PLAN, FusionPlan
from mcm_compiler.contracts.replication import Division
from mcm_compiler.contracts.sharding.sharding import ShardingPlan
from mcm_compiler.contracts.target import PackageLimits
from mcm_compiler.graph.constants import constant_values
from mcm_passes.parallelism.divisions.candidate import Candidate
from mcm_passes.parallelism.divisions.division_estimate import PeriodEstimate, Pieces
from mcm_passes.parallelism.oversized import output_pieces
from mcm_passes.parallelism.oversized.graph_edits import fixed_shape
from mcm_passes.parallelism.oversized.output_pieces import gather_bytes, output_behind
from mcm_passes.parallelism.oversized.oversized import WeightDemands
from mcm_passes.parallelism.row_tiles.cache_cuts import cache_cuts
from mcm_passes.parallelism.row_tiles.kernel_cuts import KernelCuts

CACHE_SHARES = (0.5, 0.25)
"""Parts of a chip's SRAM that a piece of a cache may take, of all sequences in flight."""

LEAST_GAIN = 0.01
"""Share by which a division has to shorten the period, as estimated."""

ALIKE = 0.01
"""Share by which estimates may differ and count as equal."""

FRACTIONS = (Division().fraction, 0.7, 0.5, 0.4, 0.3, 0.2, 0.15, 0.1, 0.05)
GRAINS = (0.0, 0.8, 0.4, 0.2, 0.1, 0.05)

COARSE_GRAINS = GRAINS[:4]
"""Those of a level that searches no partitions, whose passes take time for each piece."""


def promising(
    model: ir.Model,
    whole: Candidate,
    done: ShardingPlan,
    cost_model: CostModel,
    limits: PackageLimits,
    grains: Sequence[float],
) -> list[tuple[float, Division]]:
    """Divisions that may shorten the period by `LEAST_GAIN`, with estimates of it in seconds.

    The best are first.

    Args:
        model: undivided; it is left as it is.
        whole: the model as it is compiled without a search; it is left as it is, too.
        done: what was divided for that.
        cost_model: of the target.
        limits: of the chips that ops are divided for.
        grains: that may be.
    """
    kernels = KernelCuts(whole.model, cost_model, FUSION_PLAN.find(whole.model) or FusionPlan(()))
    unit_of = {name: unit for unit, names in enumerate(whole.problem.members) for name in names}
    parts = {
        record.node: [unit_of[name] for name in record.pieces if name in unit_of]
        for record in done.operators
    }
    most = whole.rounds, whole.flight
    estimate = PeriodEstimate(whole.problem, kernels.launch_s, whole.numbers, parts.values(), *most)
    constants = constant_values(model.graph)
    group_of = (FUSION_PLAN.find(model) or FusionPlan(())).group_of
    ops = {node.name or "": node for node in model.graph}

    demands = WeightDemands(model.graph, cost_model, limits, states=whole.states > 0)

    def sliced(fraction: float) -> dict[int, Pieces]:
        pieces: dict[int, Pieces] = {}
        for op in demands.above(fraction).oversized:
            name, value = op.node.name or "", op.node.outputs[0]
            own = unit_of.get(name)
            # An op, or each of its pieces, may be in tiles: these stay as they are.
            units = parts.get(name) or ([] if own is None else [own])
            if not units or op.cut is None:
                continue
            room = fraction * max(limits.sram_bytes)
            taken = gather_bytes([cost_model.storage_bytes(value)], limits.channel_slots)
            joined = taken <= room or output_behind(model.graph, value, constants) is None
            if not joined and (concat := unit_of.get(f"{name}/concat")) is not None:
                pieces[concat] = Pieces(0, 0.0)
            if not joined or len(op.pieces) > len(units):
                count, behind_s = len(op.pieces), 0.0
                if joined and name not in parts:
                    group = group_of.get(name)
                    rest = [ops[one] for one in group.nodes if one != name] if group else []
                    last = group is not None and group.name == name
                    behind_s = _joining_s(op.node, rest, count, cost_model, last=last)
                op_s = cost_model.node_cost(op.node).seconds
                pieces |= estimate.sliced(units, count, op_s, joined=joined, behind_s=behind_s)
        return pieces

    slices = {fraction: sliced(fraction) for fraction in FRACTIONS}
    share_s = kernels.work_s / limits.num_chips
    stored = constant_values(whole.model.graph)

    def cut(grain: float) -> dict[int, Pieces]:
        pieces: dict[int, Pieces] = {}
        for kernel in kernels.cut_above(grain * share_s, share_s) if grain else ():
            region = kernel.cut.region
            unit = next((unit_of[node.name] for node in region.ops if node.name in unit_of), None)
            if unit is not None:
                weights = any(value in stored for value in region.values)
                count = len(kernel.cut.bounds)
                pieces[unit] = estimate.cut(unit, count, kernel.total_s / count, sliced=weights)
        return pieces

    cuts = {grain: cut(grain) for grain in grains}
    today_s = estimate.reachable_s({})
    found: list[tuple[float, int, Division]] = []
    known: set[tuple[tuple[int, int], ...]] = {()}
    caches = _cut_caches(model, whole, estimate, unit_of)
    ways = [*product(FRACTIONS, grains, [1]), *product(FRACTIONS, [0.0], caches)]
    for fraction, grain, count in ways:
        pieces = cuts[grain] | slices[fraction] | caches.get(count, {})
        key = tuple(sorted((unit, one.count) for unit, one in pieces.items()))
        if key in known:
            continue
        known.add(key)
        period_s = estimate.reachable_s(pieces)
        if period_s < inf and period_s <= today_s * (1.0 - LEAST_GAIN):
            made = sum(cut.count for cut in pieces.values())
            found.append((period_s, made, Division(fraction, 0, grain, count)))
    chosen: list[tuple[float, Division]] = []
    found.sort(key=lambda one: one[:2])
    while found:
        # Of divisions that are about as good as the best, that with fewest pieces is built.
        alike = [one for one in found if one[0] <= found[0][0] * (1.0 + ALIKE)]
        seconds, _, division = min(alike, key=lambda one: one[1])
        chosen.append((seconds, division))
        found = found[len(alike) :]
    return chosen


def _cut_caches(
    model: ir.Model, whole: Candidate, estimate: PeriodEstimate, unit_of: Mapping[str, int]
) -> dict[int, dict[int, Pieces]]:
    """Pieces of units with caches, by how many there are; none where a chip holds many caches."""
    flight, problem = whole.flight, whole.problem
    taken = 0 if flight is None else flight.most_bytes(problem)
    room = min(problem.limits.sram_bytes)
    if taken <= max(CACHE_SHARES) * room or not (cuts := cache_cuts(model, 2)):
        return {}
    regions = [one.cut.region for one in cuts]
    heads = max(region.rows for region in regions)
    equal = [count for count in range(2, heads + 1) if heads % count == 0]
    least = [taken / (share * room) for share in CACHE_SHARES]
    counts = {next((count for count in equal if count >= few), heads) for few in least}
    names = {op.name or "" for region in regions for op in region.ops}
    units = sorted({unit_of[name] for name in names & unit_of.keys()})
    return {count: estimate.in_heads(units, count) for count in sorted(counts)}


def _joining_s(
    node: ir.Node, rest: Sequence[ir.Node], count: int, cost_model: CostModel, *, last: bool
) -> float:
    """Seconds of the Concat behind the pieces of an op, and of what was fused with the op.

    Args:
        node: the op.
        rest: what was fused with it.
        count: of pieces.
        cost_model: of the target.
        last: whether the op is the last of them, so that they are given up.
    """
    value, parts = node.outputs[0], list[ir.Value]()
    *outer, extent = fixed_shape(value)
    for start, stop in output_pieces.piece_bounds(extent, count):
        shape = ir.Shape([*outer, stop - start])
        parts.append(ir.Value(name=f"part_{start}", type=value.type, shape=shape))
    axis = [ir.AttrInt64("axis", len(outer))]
    joined = ir.Value(name="joined", type=value.type, shape=ir.Shape([*outer, extent]))
    concat = ir.Node("", "Concat", parts, axis, outputs=[joined], name="concat")
    seconds = cost_model.node_cost(concat).seconds
    reads = any(one is not None and one.producer() in rest for one in node.inputs)
    if last or reads:
        return seconds + sum(cost_model.node_cost(one).seconds for one in rest)
    return seconds + (cost_model.group_cost(rest).seconds if rest else 0.0)
