"""Latency and energy of a placement on a ring, and lower bounds of both.

Latency is when one inference is answered by an otherwise empty package.

Energy is what the period is made of, priced and summed up: units, copies and relays on chips, bytes
on links and host channels, and streamed weights. So all that counts loads counts joules, on a
problem whose seconds are joules and whose rates are bytes per joule.

Bounds are found without a search; each argument is a function with its proof in its docstring.
"""

from __future__ import annotations

import dataclasses
import weakref

import numpy as np

from mcm_compiler.contracts.mapping import Evaluation
from mcm_compiler.contracts.objectives import Objective
from mcm_compiler.contracts.partition import (
    Bools,
    Evaluate,
    Ints,
    Longs,
    LowerBound,
    PartitionProblem,
)
from mcm_compiler.diagnostics import quote
from mcm_compiler.placements.ring_rules import COLLECTED
from mcm_compiler.text.units import count_text, energy_text, seconds_text
from mcm_passes.families.ring.objectives import chip_play
from mcm_passes.mapping.bounds.bounds import lower_bound
from mcm_passes.mapping.machine.evaluation import evaluate
from mcm_passes.mapping.problem.resident_sizes import sram_blocks, weight_sizes
from mcm_passes.mapping.problem.rule_graph import rule_graph

NOTHING = np.empty(0, np.int32)

CRITICAL_PATH, SHARED_WORK, SHARED_HOST = "critical_path", "shared_work", "shared_host"
LEAST_ENERGY = "least_energy"

ROUNDING = 1e-12
"""Relative space for sums that are taken in another order."""


class RingLatency:
    """An `Evaluate` of one problem: seconds until one inference is answered.

    Args:
        problem: on a ring.

    Raises:
        ValueError: for a problem on another machine.
    """

    def __init__(self, problem: PartitionProblem) -> None:
        if not problem.on_ring:
            raise ValueError(f"the problem is placed on a machine of family {problem.family}")
        self._problem = problem
        self._graph = rule_graph(problem)
        self._played = chip_play.PlayedProblem.of(problem, self._graph)
        self._scratch: chip_play.PlayScratch = chip_play.play_scratch(self._played.demands)

    def __call__(self, chip_of: Ints) -> float:
        """Of one placement `[N]`; infinite where it breaks a rule."""
        evaluation = evaluate(self._problem, chip_of)
        return self.of_valid(evaluation) if evaluation.valid else float("inf")

    def of_valid(self, evaluation: Evaluation) -> float:
        """Of a placement that breaks no rule, or none but the estimate of memory."""
        problem, played = self._problem, self._played
        chip_of = evaluation.chip_of[self._graph.units]
        if not chip_of.size:
            return 0.0
        end, used = played.last_chip, int(chip_of.max()) + 1
        source, to, entering, exiting = self._ways(chip_of)
        chips = max(used, end + 1 if exiting.size else 0)
        played = played._replace(entering=entering)
        limits, scratch = problem.limits, self._scratch
        stream_s = evaluation.streamed_bytes / (limits.stream_bytes_per_s or np.inf)
        # Off-package memory sends what a chip streams behind what chips before it do.
        shared = np.cumsum(stream_s) * (limits.stream_bytes_per_s / limits.stream_root_bytes_per_s)
        streamed_s = np.where(stream_s > 0.0, np.maximum(stream_s, shared), 0.0)
        end_s, scratch.clock_s[:] = 0.0, 0.0
        for chip in range(chips):
            if chip in (0, end):
                # The host sends to either end by itself.
                scratch.arrival_s[played.demands.tensors.producer < 0] = -1.0
            leaving = np.flatnonzero((source <= chip) & (chip < to)).astype(np.int32)
            played_s = chip_play.play_chip(
                played,
                chip,
                np.flatnonzero(chip_of == chip).astype(np.int32),
                leaving,
                exiting if chip == end else NOTHING,
                float(streamed_s[chip]) if chip < used else 0.0,
                scratch,
            )
            end_s = max(end_s, played_s)
            scratch.arrival_s[leaving] = scratch.done_s[leaving]
        return end_s

    def _ways(self, chip_of: Ints) -> tuple[Longs, Longs, Bools, Ints]:
        """Where tensors get to; fills in the last chip that reads each, or that makes it.

        Returns:
            `[T]` each: the chip that makes a tensor, or that it enters at; the last chip that it
            crosses links to; and which graph inputs enter at the first chip. Then the tensors
            that cross links to leave at the last chip, ascending.
        """
        tensors, end = self._played.demands.tensors, self._played.last_chip
        made = tensors.producer >= 0
        source = np.where(made, chip_of[tensors.producer], 0).astype(np.int64)
        reader_chip = chip_of[tensors.readers.entries]
        to, last = source.copy(), self._scratch.last
        last[:] = source
        np.maximum.at(last, tensors.readers.owners, reader_chip)
        # The host sends the last chip what that reads.
        inner = made[tensors.readers.owners] | (reader_chip != end)
        np.maximum.at(to, tensors.readers.owners[inner], reader_chip[inner])
        entering = np.zeros(made.size, np.bool_)
        entering[tensors.readers.owners[inner]] = True
        collected = (tensors.kind & COLLECTED > 0) & (source > 0) & (source < end)
        to[collected] = end
        exiting = np.flatnonzero(collected).astype(np.int32)
        return source, to, entering & ~made, exiting


def latency_bound(problem: PartitionProblem) -> LowerBound:
    """The best of all arguments, with its name as `proof`."""
    bounds = (
        dataclasses.replace(critical_path(problem), proof=CRITICAL_PATH),
        dataclasses.replace(shared_work(problem), proof=SHARED_WORK),
        dataclasses.replace(shared_host(problem), proof=SHARED_HOST),
    )
    best = max(bounds, key=lambda bound: bound.seconds)
    return best if best.seconds > 0.0 else LowerBound(0.0, "no unit")


def critical_path(problem: PartitionProblem) -> LowerBound:
    """The longest way from an input to a result.

    A unit runs once all that it reads was made, wherever that is, and takes as long as on the
    fastest chip at least. A graph input crosses a channel of the host before it is read, and a
    graph output after it was made: in bytes over the channel's rate and with its latency. Both
    cross the channel that all chips share, too.
    """
    if not problem.num_units:
        return LowerBound(0.0, "no unit")
    limits = problem.limits
    size_s = problem.tensor_bytes / limits.host_bytes_per_s + limits.host_latency_s
    size_s += problem.tensor_bytes / limits.host_root_bytes_per_s
    work_s = problem.compute_s / float(problem.chip_speed.max())
    _, leaves = host_tensors(problem)
    ready_s, leave_s = np.zeros(problem.num_units), np.zeros(problem.num_units)
    entry = np.arange(problem.num_units)
    # The host's tensors first, then those of each unit, which comes after all that it reads.
    for t in np.argsort(problem.tensor_producer, kind="stable").tolist():
        u = int(problem.tensor_producer[t])
        end_s = ready_s[u] + work_s[u] if u >= 0 else size_s[t]
        if leaves[t]:
            leave_s[u] = max(leave_s[u], size_s[t])
        for v in problem.tensor_consumers[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]]:
            if end_s > ready_s[v]:
                ready_s[v], entry[v] = end_s, entry[u] if u >= 0 else v
    finish_s = ready_s + work_s + leave_s
    last = int(finish_s.argmax())
    names = quote(problem.names[entry[last]]), quote(problem.names[last])
    text = f"critical path from {names[0]} to {names[1]}"
    seconds = float(finish_s[last]) * (1.0 - ROUNDING)
    return LowerBound(seconds, f"{text} ({seconds_text(seconds)})")


def shared_work(problem: PartitionProblem) -> LowerBound:
    """Every unit runs at least once, and no chip runs two at a time.

    At most as many chips as there are units that are not clonable run something, the first ones of
    the ring, and each does as much work per second as its speed says.
    """
    fixed = int((~problem.clonable).sum())
    if not fixed:
        return LowerBound(0.0, "no unit")
    chips = min(problem.num_chips, fixed)
    work = float(problem.compute_s.sum())
    seconds = work / float(problem.chip_speed[:chips].sum()) * (1.0 - ROUNDING)
    return LowerBound(
        seconds, f"work of {seconds_text(work)} shared by {count_text(chips, 'chip')}"
    )


def shared_host(problem: PartitionProblem) -> LowerBound:
    """All that one inference exchanges with the host crosses the channel that all chips share.

    One tensor after the other, at least once each. The last input crosses a channel of its chip
    behind it, and the first output one before it, each at least as long as its smallest takes.
    """
    limits = problem.limits
    best = LowerBound(0.0, "no channel that all chips share")
    for chosen, word in zip(host_tensors(problem), ("from", "to"), strict=True):
        sizes = problem.tensor_bytes[chosen]
        if not sizes.size or not limits.host_total_bytes_per_s:
            continue
        seconds = int(sizes.sum()) / limits.host_root_bytes_per_s + limits.host_latency_s
        seconds += int(sizes.min()) / limits.host_bytes_per_s
        if seconds > best.seconds:
            text = f"all that comes {word} the host over one channel ({seconds_text(seconds)})"
            best = LowerBound(seconds * (1.0 - ROUNDING), text)
    return best


_priced: weakref.WeakKeyDictionary[PartitionProblem, PartitionProblem] = weakref.WeakKeyDictionary()


def joule_problem(problem: PartitionProblem) -> PartitionProblem:
    """The same problem in joules: what takes a second there takes a joule here.

    Speeds and channels that chips share count for nothing.

    Raises:
        ValueError: where the problem has no `energy`.
    """
    known = _priced.get(problem)
    if known is not None:
        return known
    energy = problem.energy
    if energy is None:
        raise ValueError("the problem says nothing of energy")
    limits = dataclasses.replace(
        problem.limits,
        chip_speed=(),
        link_bytes_per_s=_bytes_per_joule(energy.link_byte_j),
        host_bytes_per_s=_bytes_per_joule(energy.host_byte_j),
        stream_bytes_per_s=_bytes_per_joule(energy.memory_byte_j) if problem.streams else 0.0,
        host_total_bytes_per_s=0.0,
        stream_total_bytes_per_s=0.0,
    )
    found = dataclasses.replace(
        problem,
        compute_s=energy.unit_j,
        relay_s=energy.relay_j,
        limits=limits,
        energy=None,
        # The energy of a copy is not counted; the report does not count it either.
        copies=None,
    )
    _priced[problem] = found
    return found


def _bytes_per_joule(byte_j: float) -> float:
    return 1.0 / byte_j if byte_j > 0.0 else float("inf")


class RingEnergy:
    """An `Evaluate` of one problem: joules of one inference.

    Args:
        problem: on a ring, with its `energy`.
    """

    def __init__(self, problem: PartitionProblem) -> None:
        self._joules = joule_problem(problem)

    def __call__(self, chip_of: Ints) -> float:
        """Of one placement `[N]`; infinite where it breaks a rule."""
        evaluation = evaluate(self._joules, chip_of)
        return _total_j(self._joules, evaluation) if evaluation.valid else float("inf")


def _total_j(problem: PartitionProblem, evaluation: Evaluation) -> float:
    """Joules of a placement of a problem in joules; links behind its chips count as one."""
    channel_j = evaluation.channel_busy_s
    behind = channel_j[problem.num_chips : problem.limits.last_chip]
    return float(evaluation.chip_busy_s.sum() + channel_j.sum() - behind.sum())


def energy_of(problem: PartitionProblem, chip_of: Ints) -> float:
    """The energy of one inference, whatever memory is estimated; infinite without `energy`."""
    if problem.energy is None:
        return float("inf")
    priced = joule_problem(problem)
    return _total_j(priced, evaluate(priced, chip_of))


def host_tensors(problem: PartitionProblem) -> tuple[Bools, Bools]:
    """`[T]` each: the tensors that every placement gets from the host, and gives to it."""
    made = problem.tensor_producer >= 0
    leaves = made & problem.tensor_to_host
    # What clonable units give to the host travels in no placement.
    leaves[made] &= ~problem.clonable[problem.tensor_producer[made]]
    return ~made & (np.diff(problem.placed_readers.ptr) > 0), leaves


def least_energy(problem: PartitionProblem) -> LowerBound:
    """Least energy of every placement, in joules.

    Every unit runs at least once, a copied one where something reads it; each graph input that is
    read comes from the host once at least, and each graph output goes there once. Weights that all
    chips together have no space for are streamed.
    """
    priced = joule_problem(problem.at_need())
    runs = np.diff(priced.clone_closure.ptr) > 0
    enters, leaves = host_tensors(priced)
    host_bytes = int(priced.tensor_bytes[enters | leaves].sum())
    joules = float(priced.compute_s[runs].sum()) + host_bytes / priced.limits.host_bytes_per_s
    text = f"every unit and all traffic of the host once ({energy_text(joules)})"
    if priced.streams:
        used = np.diff(priced.placed_weight_users.ptr) > 0
        room = int(sram_blocks(priced).sum()) * priced.limits.buffer_alignment_bytes
        over = int(weight_sizes(priced)[used].sum()) - room
        if over > 0:
            joules += over / priced.limits.stream_bytes_per_s
            text += f", and {over:,} bytes of weights that fit no chip"
    joules *= 1.0 - ROUNDING
    return LowerBound(joules, text, LEAST_ENERGY)


def objective_values(problem: PartitionProblem, objective: Objective) -> Evaluate:
    """As `mcm_compiler.contracts.mapping.KnowsObjectives.objective_values`."""
    if objective.aim == "energy":
        return RingEnergy(problem)
    latency = RingLatency(problem)
    if objective.aim == "latency":
        return latency
    most_s = objective.latency_limit_s

    def within(chip_of: Ints) -> float:
        evaluation = evaluate(problem, chip_of)
        if not evaluation.valid or latency.of_valid(evaluation) > most_s:
            return float("inf")
        return evaluation.period_s

    return within


def latency_of(problem: PartitionProblem, chip_of: Ints) -> float:
    """When one inference is answered, whatever memory is estimated."""
    return RingLatency(problem).of_valid(evaluate(problem, chip_of))


def objective_bound(problem: PartitionProblem, objective: Objective) -> LowerBound:
    """As `mcm_compiler.contracts.mapping.KnowsObjectives.objective_bound`."""
    if objective.aim == "energy":
        return least_energy(problem)
    return latency_bound(problem) if objective.aim == "latency" else lower_bound(problem)
