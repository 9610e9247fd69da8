"""Checks of the bounds of rings as components, found by the kind of proof; see `bound_checks`.

For another machine, those of periods are about the ring that all its placements fit.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import partial

from mcm_compiler.contracts.objectives import Objective
from mcm_compiler.contracts.partition import PartitionProblem
from mcm_passes.families.ring.exact import packed_check
from mcm_passes.families.ring.exact.ideal_check import MOST_WINDOWS, IdealCheck
from mcm_passes.families.ring.objectives.label_check import EnergyCheck, LabelCheck, least_rules_out
from mcm_passes.mapping.bound_checks import bound_checks
from mcm_passes.mapping.bound_checks.bound_checks import MOST_UNITS, Argument
from mcm_passes.mapping.bound_checks.plain_need import host_sizes, readers_of
from mcm_passes.mapping.bound_checks.window_check import crosses_at_least, plain_windows

Check = Callable[[PartitionProblem, float], bool | None]

FEW_WINDOWS = 100_000
"""Windows that are weighed where nobody claims that order ideals show a bound."""


def on_ring(check: Check) -> Check:
    """The same check, of the ring of a problem."""

    def of_its_ring(problem: PartitionProblem, period_s: float) -> bool | None:
        return check(problem if problem.on_ring else problem.reached(), period_s)

    return of_its_ring


def _link_cuts(problem: PartitionProblem, period_s: float) -> bool:
    if problem.num_units > MOST_UNITS:
        return False
    windows = plain_windows(problem, period_s)
    if windows is None:
        return True
    room = period_s * problem.limits.link_bytes_per_s
    links = range(problem.num_chips - 1)
    return any(crosses_at_least(problem, windows, link, room) for link in links)


def no_chain_is_faster(
    problem: PartitionProblem, period_s: float, most_windows: int = MOST_WINDOWS
) -> bool | None:
    """Order ideals, weighed up to a number of windows."""
    if problem.num_units > MOST_UNITS:
        return None
    return IdealCheck(problem, most_windows).none_below(period_s)


def _as_strong_as_a_solver(problem: PartitionProblem, period_s: float) -> bool | None:
    """A solver's bound: shown only where an argument that can be followed is as strong."""
    shown = any(checker.rules_out(problem, period_s) for checker in _QUICK_FIRST)
    return shown or no_chain_is_faster(problem, period_s, FEW_WINDOWS)


WINDOWS = Argument(
    "a unit has no device left", on_ring(bound_checks.around_units), MOST_UNITS, effort=1
)
LINK_CUTS = Argument("a channel must carry too much", on_ring(_link_cuts), MOST_UNITS, effort=2)
PACKED_WINDOWS = Argument(
    "units and weights do not pack in order",
    on_ring(packed_check.units_do_not_pack_in_order),
    packed_check.MOST_UNITS,
    effort=2,
)
IDEALS = Argument(
    "no chain of order ideals is faster",
    on_ring(no_chain_is_faster),
    effort=2,
    reason="there are too many order ideals to weigh again",
)
CPSAT = Argument(
    "the dual bound of CP-SAT",
    on_ring(_as_strong_as_a_solver),
    effort=2,
    reason="it is the solver's own bound, which comes without a proof to follow",
)

_QUICK_FIRST = (
    bound_checks.TOTAL_WORK,
    bound_checks.HEAVIEST_UNIT,
    bound_checks.HOST_TRANSFERS,
    bound_checks.STREAMED_WEIGHTS,
    bound_checks.INDIVISIBLE_WORK,
    bound_checks.COPIED_WEIGHTS,
    bound_checks.OUTPUTS_PASSED_ON,
    bound_checks.LARGE_TENSORS,
    bound_checks.CHAIN,
    LINK_CUTS,
    PACKED_WINDOWS,
)


def path_rules_out(problem: PartitionProblem, latency_s: float) -> bool:
    """Return whether some way from an input to a result takes that long, wherever its units are."""
    fastest = max(problem.chip_speed.tolist(), default=1.0)
    made: list[list[int]] = [[] for _ in range(problem.num_units)]
    ready = [0.0] * problem.num_units
    for t, maker in enumerate(problem.tensor_producer.tolist()):
        if maker >= 0:
            made[maker].append(t)
            continue
        for v in readers_of(problem, t):
            ready[v] = max(ready[v], _host_s(problem, t))
    for u in range(problem.num_units):
        done_s = ready[u] + float(problem.compute_s[u]) / fastest
        leaving = [t for t in made[u] if problem.tensor_to_host[t] and not problem.clonable[u]]
        if done_s + max((_host_s(problem, t) for t in leaving), default=0.0) >= latency_s:
            return True
        for t in made[u]:
            for v in readers_of(problem, t):
                ready[v] = max(ready[v], done_s)
    return False


def work_rules_out(problem: PartitionProblem, latency_s: float) -> bool:
    """Return whether the chips that units can be on cannot do all work in less."""
    chips = min(problem.num_chips, problem.clonable.tolist().count(False))
    speed = math.fsum(problem.chip_speed.tolist()[:chips])
    return chips > 0 and math.fsum(problem.compute_s.tolist()) / speed >= latency_s


def host_rules_out(problem: PartitionProblem, latency_s: float) -> bool:
    """Return whether all inputs, or all outputs, take that long on the channel of all chips."""
    limits, rate = problem.limits, problem.limits.host_total_bytes_per_s
    return rate > 0.0 and any(
        sum(sizes) / rate + min(sizes) / limits.host_bytes_per_s + limits.host_latency_s
        >= latency_s
        for sizes in host_sizes(problem)
        if sizes
    )


def _host_s(problem: PartitionProblem, t: int) -> float:
    """Seconds of a tensor between the host and a chip."""
    limits, size = problem.limits, int(problem.tensor_bytes[t])
    shared_s = size / (limits.host_total_bytes_per_s or math.inf)
    return size / limits.host_bytes_per_s + limits.host_latency_s + shared_s


def _of_latency(
    check: Callable[[PartitionProblem, float], bool],
) -> Callable[[PartitionProblem, Objective, float], bool | None]:
    """A check of latencies as one of objectives: nothing answers within the limit, or earlier."""

    def rules_out(problem: PartitionProblem, objective: Objective, value: float) -> bool | None:
        if objective.aim == "latency":
            return check(problem, value)
        if objective.aim == "energy":
            return None
        return check(problem, objective.latency_limit_s * (1.0 + 1e-9)) or None

    return rules_out


def no_chain_in_time(
    problem: PartitionProblem,
    objective: Objective,
    value: float,
    most_windows: int = MOST_WINDOWS,
    *,
    merges: bool = False,
) -> bool | None:
    """Order ideals with labels, weighed and played again up to a number of windows.

    With `merges`, all chains up to an ideal have the best times of each.
    """
    if objective.aim == "energy":
        return None
    limit_s = objective.latency_limit_s
    sought_s = value if objective.aim == "latency" else limit_s * (1.0 + 1e-9)
    quick = () if merges else (path_rules_out, work_rules_out, host_rules_out)
    if any(one(problem, sought_s) for one in quick):
        return True
    if problem.num_units > MOST_UNITS:
        return None
    if merges and objective.aim == "latency":
        # Copies of views prolong periods alone, and windows are left out by their periods.
        problem = dataclasses.replace(problem, copies=None)
    check = LabelCheck(problem, most_windows, merges=merges)
    if merges and not check.alike:
        return None
    if objective.aim == "latency":
        shown = check.none_within(value, float("inf"), strictly=True)
    else:
        shown = check.none_within(sought_s if merges else limit_s, value, strictly=False)
    # Streamed weights delay what is played here without them: no chain is none with them.
    return None if problem.streams and not shown and not merges else shown


def _least_energy(problem: PartitionProblem, objective: Objective, value: float) -> bool | None:
    return least_rules_out(problem.at_need(), value) if objective.aim == "energy" else None


def no_chain_takes_less(
    problem: PartitionProblem, objective: Objective, value: float, most_windows: int = MOST_WINDOWS
) -> bool | None:
    """Order ideals with joules, weighed again up to a number of windows."""
    needed = problem.at_need()
    if objective.aim != "energy" or needed.energy is None:
        return None
    if least_rules_out(needed, value):
        return True
    if needed.num_units > MOST_UNITS:
        return None
    return EnergyCheck(needed, needed.energy, most_windows).none_takes_less(value)


_OF_LATENCIES = "it is about latencies alone"

CRITICAL_PATH = Argument(
    "units wait for each other", _of_latency(path_rules_out), reason=_OF_LATENCIES
)
SHARED_WORK = Argument(
    "no chip runs two units at a time", _of_latency(work_rules_out), reason=_OF_LATENCIES
)
SHARED_HOST = Argument(
    "all chips share a channel to the host", _of_latency(host_rules_out), reason=_OF_LATENCIES
)
LABEL_CHAINS = Argument(
    "no chain of order ideals is below the value, or answers in time",
    no_chain_in_time,
    reason="there are too many order ideals to weigh again, or weights are streamed",
)
MERGED_CHAINS = Argument(
    "no chain of order ideals is below the value, whatever way led to each ideal",
    partial(no_chain_in_time, merges=True),
    reason="there are too many order ideals to play again, chips differ, or one is pinned",
)
LEAST_ENERGY = Argument(
    "every unit runs, and the host's traffic crosses its links",
    _least_energy,
    reason="it is about energy alone",
)
ENERGY_CHAINS = Argument(
    "no chain of order ideals takes less",
    no_chain_takes_less,
    reason="there are too many order ideals to weigh again, or it is not about energy",
)
