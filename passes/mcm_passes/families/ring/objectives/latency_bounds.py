"""Lower bounds on when one inference is answered, without a search.

Each argument is a function with its proof in its docstring.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from mcm_compiler.contracts.objectives import Objective
from mcm_compiler.contracts.partition import Evaluate, Ints, LowerBound, PartitionProblem
from mcm_compiler.diagnostics import quote
from mcm_compiler.text.units import count_text, seconds_text
from mcm_passes.families.ring.objectives.joules import RingEnergy, host_tensors, least_energy
from mcm_passes.families.ring.objectives.latency import RingLatency
from mcm_passes.mapping.bounds.bounds import lower_bound
from mcm_passes.mapping.machine.evaluation import evaluate

CRITICAL_PATH, SHARED_WORK, SHARED_HOST = "critical_path", "shared_work", "shared_host"
ROUNDING = 1e-12
"""Relative room for sums that plays add in another order."""


def latency_bound(problem: PartitionProblem) -> LowerBound:
    """The best of all arguments, with its name as `proof`."""
    arguments = {
        CRITICAL_PATH: critical_path,
        SHARED_WORK: shared_work,
        SHARED_HOST: shared_host,
    }
    bounds = (dataclasses.replace(bound(problem), proof=name) for name, bound in arguments.items())
    best = max(bounds, key=lambda bound: bound.seconds)
    return best if best.seconds > 0.0 else LowerBound(0.0, "no unit")


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
