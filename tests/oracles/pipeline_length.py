"""The length of pipelines of `mcm_models.pipelines.kernels`, for arrays, many at once."""

from __future__ import annotations

from typing import Any, NamedTuple

from mcm_models.pipelines.problem import PipelineTables


class StageTimes(NamedTuple):
    """Stages and transfers of pipelines; leading axes are those of the pipelines.

    Attributes:
        forward: `[..., S]`, seconds of a micro-batch forward.
        backward: `[..., S]`, seconds backward.
        reduction: `[..., S]`, seconds of the reduction of gradients.
        transfer: `[..., S - 1]`, seconds of a micro-batch from each stage to the next.
        memory: `[..., S]`, bytes on the fullest device.
        with_weights: `[..., S]`, whether the stage has any.
    """

    forward: Any
    backward: Any
    reduction: Any
    transfer: Any
    memory: Any
    with_weights: Any


def stage_times(tables: PipelineTables, cuts: Any, devices: Any, xp: Any) -> StageTimes:
    """Times and memory of all stages.

    Args:
        tables: of the problem, as arrays of `xp`.
        cuts: `[..., S - 1]` integers, first part of each stage but the first; ascending.
        devices: `[..., S - 1]` integers, first device of each stage but the first; ascending.
        xp: `numpy` or `jax.numpy`.
    """
    ends = tables.cut.shape[-1] - 1, tables.speed.shape[-1] - 1
    lead, stages = cuts.shape[:-1], cuts.shape[-1] + 1
    zero, one = (xp.zeros((*lead, 1), cuts.dtype), xp.ones((*lead, 1), cuts.dtype))
    part = xp.concatenate([zero, cuts, one * ends[0]], axis=-1)
    place = xp.concatenate([zero, devices, one * ends[1]], axis=-1)
    i, j = part[..., :-1], part[..., 1:]
    a, b = place[..., :-1], place[..., 1:]
    speed, largest = tables.speed[a, b], tables.share[a, b]
    weights = tables.weights[j] - tables.weights[i]

    width = xp.minimum((b - a)[..., :-1], (b - a)[..., 1:])
    same = tables.servers[a[..., :-1], b[..., 1:]] == 1
    share = transfer_share(tables, a, b, xp)
    per_byte = xp.where(same, tables.network.intra / width, tables.network.inter * share)
    latency = xp.where(same, tables.network.intra_latency, tables.network.inter_latency)

    later = xp.arange(stages, 0, -1)
    in_flight = xp.where(
        tables.gpipe > 0, tables.micro_batches, xp.minimum(later, tables.micro_batches)
    )
    in_flight = xp.where(tables.both_ways > 0, in_flight, 1.0)
    kept = tables.kept[j] - tables.kept[i]
    activations = xp.where(tables.recompute > 0, in_flight * tables.cut[i] + kept, in_flight * kept)
    return StageTimes(
        forward=(tables.forward[j] - tables.forward[i]) / speed,
        backward=(tables.backward[j] - tables.backward[i]) / speed,
        reduction=xp.where(
            weights > 0, weights * tables.reduce[a, b] + tables.reduce_start[a, b], 0.0
        ),
        transfer=tables.cut[part[..., 1:-1]] * per_byte + latency,
        memory=tables.state[j] - tables.state[i] + activations * largest,
        with_weights=weights > 0,
    )


def transfer_share(tables: PipelineTables, a: Any, b: Any, xp: Any) -> Any:
    """`[..., S - 1]`, the share of a transfer that the busiest link to the network carries.

    Every server that a stage is on sends, or receives, what its devices have of the micro-batch.
    Nothing is saved where sender and receiver are in one server by chance: an exchange between
    stages on several servers goes over the network as a whole.

    Args:
        tables: of the problem.
        a: `[..., S]`, first devices of the stages.
        b: `[..., S]`, devices behind the last ones.
        xp: `numpy` or `jax.numpy`.
    """
    busiest = tables.busiest[a, b]
    return xp.maximum(busiest[..., :-1], busiest[..., 1:])


def lengths_of(tables: PipelineTables, times: StageTimes, xp: Any) -> Any:
    """`[...]`, seconds of one iteration of stages whose times are known."""
    back = times.transfer * tables.both_ways
    both = times.forward + times.backward
    total = both.sum(-1) + (times.transfer + back).sum(-1)
    slots = [
        xp.concatenate(pair, axis=-1)
        for pair in ((times.forward, times.transfer), (times.backward, back))
    ]
    steady = xp.where(
        tables.gpipe > 0, slots[0].max(-1) + slots[1].max(-1), (slots[0] + slots[1]).max(-1)
    )
    drained = xp.cumsum(times.backward[..., :-1] + back, axis=-1)
    before = xp.concatenate([xp.zeros_like(both[..., :1]), drained], axis=-1)
    ending = (times.reduction - before).max(-1)
    return total + (tables.micro_batches - 1.0) * steady + ending
