"""Lower bounds on when one inference is answered, without a search.

Each argument is a function with its proof in its docstring.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit
from mcm_compiler.arrays.rows import Rows, starts
from mcm_compiler.contracts.objectives import Objective
from mcm_compiler.contracts.partition import Evaluate, Floats, Ints, LowerBound, PartitionProblem
from mcm_compiler.diagnostics import quote
from mcm_compiler.text.units import count_text, seconds_text
from mcm_passes.families.ring.analytic.fast_model import evaluate
from mcm_passes.families.ring.objectives.joules import RingEnergy, least_energy
from mcm_passes.families.ring.objectives.latency import RingLatency
from mcm_passes.mapping.bounds.bounds import lower_bound

CRITICAL_PATH, SHARED_WORK, SHARED_HOST = "critical_path", "shared_work", "shared_host"
ROUNDING = 1e-12
"""Relative room for sums that plays add in another order."""


def latency_bound(problem: PartitionProblem) -> LowerBound:
    """The best of all arguments, with its name as `proof`."""
    best = LowerBound(0.0, "no unit")
    arguments = (
        (CRITICAL_PATH, critical_path),
        (SHARED_WORK, shared_work),
        (SHARED_HOST, shared_host),
    )
    for proof, argument in arguments:
        bound = argument(problem)
        if bound.seconds > best.seconds:
            best = dataclasses.replace(bound, proof=proof)
    return best


def critical_path(problem: PartitionProblem) -> LowerBound:
    """The longest way from an input to a result.

    A unit runs once all that it reads was made, wherever that is, and takes as long as on the
    fastest chip at least. A graph input crosses a channel of the host before it is read, and a
    graph output after it was made, each in bytes over the channel's rate and with its latency, and
    the channel that all chips share.
    """
    if not problem.num_units:
        return LowerBound(0.0, "no unit")
    limits = problem.limits
    size_s = problem.tensor_bytes / limits.host_bytes_per_s + limits.host_latency_s
    size_s += problem.tensor_bytes / limits.host_root_bytes_per_s
    made = problem.tensor_producer >= 0
    leaves = made & problem.tensor_to_host
    # What clonable units give to the host travels in no placement.
    leaves[made] &= ~problem.clonable[problem.tensor_producer[made]]
    order = np.argsort(problem.tensor_producer, kind="stable")
    counts = np.bincount(problem.tensor_producer + 1, minlength=problem.num_units + 1)
    tensors = Rows(starts(counts), order.astype(np.int64))
    finish, entry = _finish_times(
        problem.compute_s / float(problem.chip_speed.max()),
        tensors,
        Rows(problem.tensor_ptr, problem.tensor_consumers.astype(np.int64)),
        np.where(made, 0.0, size_s),
        np.where(leaves, size_s, 0.0),
    )
    last = int(finish.argmax())
    names = quote(problem.names[entry[last]]), quote(problem.names[last])
    text = f"critical path from {names[0]} to {names[1]}"
    seconds = float(finish[last]) * (1.0 - ROUNDING)
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
    read = np.diff(problem.placed_readers.ptr) > 0
    made = problem.tensor_producer >= 0
    leaves = made & problem.tensor_to_host
    leaves[made] &= ~problem.clonable[problem.tensor_producer[made]]
    best = LowerBound(0.0, "no channel that all chips share")
    for chosen, word in ((~made & read, "from"), (leaves, "to")):
        sizes = problem.tensor_bytes[chosen]
        if not sizes.size or not limits.host_total_bytes_per_s:
            continue
        seconds = int(sizes.sum()) / limits.host_root_bytes_per_s + limits.host_latency_s
        seconds += int(sizes.min()) / limits.host_bytes_per_s
        if seconds > best.seconds:
            text = f"all that comes {word} the host over one channel ({seconds_text(seconds)})"
            best = LowerBound(seconds * (1.0 - ROUNDING), text)
    return best


@entry_njit
def _finish_times(
    work_s: Floats, tensors: Rows, readers: Rows, enter_s: Floats, leave_s: Floats
) -> tuple[Floats, Ints]:
    """`[N]` each: when a unit and what it gives to the host is done, and where its way begins.

    Args:
        work_s: `[N]`.
        tensors: `[N + 1]` rows of the tensors of the host, then of those of each unit.
        readers: `[T]` rows.
        enter_s: `[T]`, seconds from the host.
        leave_s: `[T]`, seconds to the host.
    """
    units = work_s.size
    ready, done = np.zeros(units), np.zeros(units)
    entry = np.arange(units).astype(np.int32)
    for maker in range(units + 1):
        end_s = 0.0
        if maker > 0:
            end_s = ready[maker - 1] + work_s[maker - 1]
            done[maker - 1] = end_s
        for e in range(tensors.ptr[maker], tensors.ptr[maker + 1]):
            t = tensors.entries[e]
            if maker > 0:
                done[maker - 1] = max(done[maker - 1], end_s + leave_s[t])
            for r in range(readers.ptr[t], readers.ptr[t + 1]):
                v = readers.entries[r]
                if end_s + enter_s[t] > ready[v]:
                    ready[v] = end_s + enter_s[t]
                    entry[v] = entry[maker - 1] if maker > 0 else v
    return done, entry


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
