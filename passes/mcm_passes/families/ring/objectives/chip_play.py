"""One inference on one chip of an otherwise empty package: when it is done, and hands over.

`docs/explanation/objectives.md` defines latency; this is that text as compiled code.
A chip that is given some nodes does, in this order:

1. The host sends it the graph inputs that it wants, one after another as its nodes need them.
   Where the host reaches only the ends of the package, the first chip gets those of all chips but
   the last, in the order of tensors.
2. Its engine passes on what arrives over the link before and other chips read, in the order of
   tensors; what goes to the host or comes from it goes on without the engine.
3. Its engine runs the nodes in their order, each with the copies of clonable units that no node
   before it on this chip has needed.
4. The link behind it carries what was passed on, in the order of tensors, then what the chip made,
   in the order in which it was made. The host's channel likewise takes what goes to the host. The
   channels that all chips share carry what they get from chip after chip in these orders.

Nothing starts before what it reads has arrived. With these fixed orders every time is a maximum of
sums of others, so that nothing ends earlier where something arrives later: a label of a search that
is later everywhere is of no use.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import lean_inner_njit, lean_njit
from mcm_compiler.arrays.rows import Rows, distinct_rows
from mcm_compiler.contracts.partition import Bools, Floats, Ints, Longs, PartitionProblem
from mcm_compiler.placements.ring_rules import COLLECTED, FORWARDED, FROM_HOST, TO_HOST
from mcm_passes.mapping.loads.chip_demands import (
    CROSSED,
    ENTERED,
    EXITED,
    ChipDemands,
    chip_demands,
)
from mcm_passes.mapping.problem.rule_graph import RuleGraph


class PlayedProblem(NamedTuple):
    """A problem as plays take it.

    Attributes:
        demands: of its n nodes and T tensors.
        reads: `[n]` rows of the tensors that each node reads.
        entering: `[T]`, graph inputs that enter at the first chip for it and others.
        speed: `[C]`, of chips.
        link_bytes_per_s: of each link.
        link_latency_s: `[L + 1]`, from when a tensor has left a chip until it is on the next; the
            last entry is of a chip without a link.
        cuts: whether a tensor that no engine passes on goes on once its head is there.
        host_bytes_per_s: of each channel of the host.
        host_latency_s: of each of these channels.
        host_root_bytes_per_s: of the channel that these share; infinite where there is none.
        last_chip: where the host reaches only the ends, the last chip of the package, else -1.
    """

    demands: ChipDemands
    reads: Rows
    entering: Bools
    speed: Floats
    link_bytes_per_s: float
    link_latency_s: Floats
    cuts: bool
    host_bytes_per_s: float
    host_latency_s: float
    host_root_bytes_per_s: float
    last_chip: int

    @classmethod
    def of(cls, problem: PartitionProblem, graph: RuleGraph) -> PlayedProblem:
        """The problem whose rule graph is `graph`."""
        demands, limits = chip_demands(problem, graph.units), problem.limits
        tensors = demands.tensors
        return cls(
            demands=demands,
            reads=distinct_rows(tensors.readers.entries, tensors.readers.owners, graph.num_nodes),
            entering=tensors.kind & FROM_HOST > 0,
            speed=problem.chip_speed,
            link_bytes_per_s=limits.link_bytes_per_s,
            link_latency_s=np.array([*limits.latencies_s, 0.0]),
            cuts=limits.cut_through,
            host_bytes_per_s=limits.host_bytes_per_s,
            host_latency_s=limits.host_latency_s,
            host_root_bytes_per_s=limits.host_root_bytes_per_s,
            last_chip=limits.last_chip if limits.at_ends else -1,
        )


class PlayScratch(NamedTuple):
    """Scratch space for playing one chip after the other, of n nodes, I items and T tensors.

    Attributes:
        arrival_s: `[T]`, when each tensor is on the chip: from before for those that arrive, and
            filled in for those that the chip gets from the host, negative before, or makes.
        done_s: `[T]`, filled: when each tensor that leaves is on the next chip.
        clock_s: `[7]`, when engine, link and the host's channels are free, the last output, and
            when the channels are free that all chips share.
        item_mark: `[I]`, the last play that needed each item.
        node_mark: `[n]`, the last play that ran each node.
        leaves: `[T]`, the last play that had each tensor leave; negative where to the host.
        last: `[T]`, the last chip that reads each tensor; beyond all chips where unknown, as each
            tensor that leaves is then read on a later chip.
        plays: `[1]`, plays so far.
    """

    arrival_s: Floats
    done_s: Floats
    clock_s: Floats
    item_mark: Longs
    node_mark: Longs
    leaves: Longs
    last: Longs
    plays: Longs


_ENGINE, _LINK, _IN, _OUT, _LAST, ROOT_IN, ROOT_OUT = range(7)
"""Entries of `PlayScratch.clock_s`."""

NO_CHIP = 1 << 30
"""Beyond all chips."""


def play_scratch(d: ChipDemands) -> PlayScratch:
    """For these demands."""
    tensors = d.tensors.producer.size
    return PlayScratch(
        np.zeros(tensors),
        np.zeros(tensors),
        np.zeros(7),
        np.zeros(d.items.busy_s.size, np.int64),
        np.zeros(d.nodes.work_s.size, np.int64),
        np.zeros(tensors, np.int64),
        np.full(tensors, NO_CHIP),
        np.zeros(1, np.int64),
    )


@lean_njit
def play_chip(
    played: PlayedProblem,
    chip: int,
    nodes: Ints,
    leaving: Ints,
    exiting: Ints,
    streamed_s: float,
    scratch: PlayScratch,
) -> float:
    """Plays one inference on one chip.

    Args:
        played: the problem.
        chip: which chip.
        nodes: its nodes, ascending.
        leaving: tensors that cross the link behind it, ascending.
        exiting: of the last chip, where the host reaches only the ends, the tensors of other chips
            that the host wants, ascending; else empty.
        streamed_s: seconds for which off-package memory sends it weights, from the start on.
        scratch: `clock_s` has when channels are free that all chips share. `arrival_s` of all that
            crosses the link before the chip is read; `done_s` of all that crosses the link behind
            it is filled, as the time at which it is on the next chip.

    Returns:
        When the engine is done and all that this chip gives to the host is there, in seconds from
        when the inference may enter the package.
    """
    scratch.plays[0] += 1
    mark = scratch.plays[0]
    scratch.clock_s[:ROOT_IN] = 0.0
    if chip == 0 and played.last_chip > 0:
        _enter(played, scratch)
    for v in nodes:
        scratch.node_mark[v] = mark
    for t in leaving:
        scratch.leaves[t] = mark
    for t in exiting:
        scratch.leaves[t] = -mark
    _pass_on(played, chip, leaving, scratch)
    _pass_on(played, chip, exiting, scratch)
    for k in range(nodes.size):
        v = nodes[k]
        not_before_s = streamed_s if k == nodes.size - 1 else 0.0
        _run(played, chip, v, not_before_s, scratch)
        _hand_on(played, chip, v, scratch)
    return float(max(scratch.clock_s[_ENGINE], scratch.clock_s[_LAST]))


@lean_inner_njit
def _from_host(played: PlayedProblem, size: float, scratch: PlayScratch) -> float:
    """When the next N bytes from the host are on the chip."""
    clock_s = scratch.clock_s
    clock_s[ROOT_IN] += size / played.host_root_bytes_per_s
    clock_s[_IN] = max(clock_s[_IN], clock_s[ROOT_IN]) + size / played.host_bytes_per_s
    return float(clock_s[_IN] + played.host_latency_s)


@lean_inner_njit
def _to_host(played: PlayedProblem, size: float, ready_s: float, scratch: PlayScratch) -> None:
    """The next N bytes go to the host once they are ready."""
    clock_s = scratch.clock_s
    clock_s[_OUT] = max(clock_s[_OUT], ready_s) + size / played.host_bytes_per_s
    there_s = clock_s[_OUT] + played.host_latency_s
    if played.host_root_bytes_per_s < np.inf:
        there_s = max(clock_s[ROOT_OUT], there_s) + size / played.host_root_bytes_per_s
        clock_s[ROOT_OUT] = there_s
    clock_s[_LAST] = max(clock_s[_LAST], there_s)


@lean_inner_njit
def _over_link(
    played: PlayedProblem, chip: int, tensor: int, ready_s: float, scratch: PlayScratch
) -> None:
    """The next tensor goes to the next chip once it is ready."""
    link_s = max(scratch.clock_s[_LINK], ready_s)
    link_s += played.demands.tensors.amount[tensor, CROSSED] / played.link_bytes_per_s
    scratch.clock_s[_LINK] = link_s
    scratch.done_s[tensor] = link_s + played.link_latency_s[chip]


@lean_inner_njit
def _enter(played: PlayedProblem, scratch: PlayScratch) -> None:
    """When graph inputs are on the first chip, where the host reaches only the ends."""
    tensors = played.demands.tensors
    for t in range(tensors.producer.size):
        if played.entering[t]:
            size = float(tensors.amount[t, ENTERED])
            scratch.arrival_s[t] = _from_host(played, size, scratch)


@lean_inner_njit
def _pass_on(played: PlayedProblem, chip: int, tensors: Ints, scratch: PlayScratch) -> None:
    """Passes on those of some tensors that the chip does not make, to where they go."""
    d = played.demands
    mark = scratch.plays[0]
    for t in tensors:
        maker = d.tensors.producer[t]
        if maker >= 0 and scratch.node_mark[maker] == mark:
            continue
        ready_s = float(scratch.arrival_s[t])
        if d.tensors.kind[t] & FORWARDED and chip < scratch.last[t]:
            ready_s = float(max(ready_s, scratch.clock_s[_ENGINE]))
            ready_s += float(d.tensors.passed_s[t] / played.speed[chip])
            scratch.clock_s[_ENGINE] = ready_s
        elif played.cuts and chip > 0 and scratch.leaves[t] == mark:
            ready_s -= float(d.tensors.amount[t, CROSSED] / played.link_bytes_per_s)
        if scratch.leaves[t] == mark:
            _over_link(played, chip, t, ready_s, scratch)
        else:
            _to_host(played, float(d.tensors.amount[t, EXITED]), ready_s, scratch)


@lean_inner_njit
def _run(
    played: PlayedProblem, chip: int, node: int, not_before_s: float, scratch: PlayScratch
) -> None:
    """The engine runs a node with the copies that it is the first to need."""
    d, reads = played.demands, played.reads
    mark = scratch.plays[0]
    busy_s, ready_s = d.nodes.work_s[node], max(scratch.clock_s[_ENGINE], not_before_s)
    for e in range(d.nodes.items.ptr[node], d.nodes.items.ptr[node + 1]):
        item = d.nodes.items.entries[e]
        if scratch.item_mark[item] == mark:
            continue
        scratch.item_mark[item] = mark
        busy_s += d.items.busy_s[item]
        if d.items.enters[item]:
            ready_s = max(ready_s, _from_host(played, float(d.items.in_bytes[item]), scratch))
    for e in range(reads.ptr[node], reads.ptr[node + 1]):
        t = reads.entries[e]
        if d.tensors.producer[t] < 0 and scratch.arrival_s[t] < 0.0:
            size = float(d.tensors.amount[t, ENTERED])
            scratch.arrival_s[t] = _from_host(played, size, scratch)
        ready_s = max(ready_s, scratch.arrival_s[t])
    scratch.clock_s[_ENGINE] = ready_s + busy_s / played.speed[chip]


@lean_inner_njit
def _hand_on(played: PlayedProblem, chip: int, node: int, scratch: PlayScratch) -> None:
    """Hand a node's tensors to their readers."""
    d = played.demands
    mark, ready_s = scratch.plays[0], float(scratch.clock_s[_ENGINE])
    at_end = chip in (0, played.last_chip)
    for e in range(d.nodes.made.ptr[node], d.nodes.made.ptr[node + 1]):
        t = d.nodes.made.entries[e]
        scratch.arrival_s[t] = ready_s
        if d.tensors.kind[t] & TO_HOST and (at_end or not d.tensors.kind[t] & COLLECTED):
            _to_host(played, float(d.tensors.amount[t, EXITED]), ready_s, scratch)
        if scratch.leaves[t] == mark:
            _over_link(played, chip, t, ready_s, scratch)
