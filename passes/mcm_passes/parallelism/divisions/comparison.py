"""The comparison of divided models with the model as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf

from mcm_compiler.contracts.levels import load_level
from mcm_compiler.contracts.replication import Division
from mcm_compiler.diagnostics import Diagnostic
from mcm_compiler.text.units import seconds_text
from mcm_passes.mapping.bounds.bounds import total_work
from mcm_passes.parallelism.copies import copied_rounds
from mcm_passes.parallelism.divisions.candidate import Candidate, Periods, periods_of, soonest
from mcm_passes.parallelism.replicas import replicas

NEAR_WORK = 1.01
"""Times the work of each chip up to which a period is good enough, so that nothing is searched."""

NEAR_ENOUGH = 1.05
"""The same where the level searches no partitions."""

LEAST_GAIN = 0.01
"""Share by which a division has to shorten the period as found."""

MOST_SEARCHED = 0.06
"""Share by which longer searches shortened periods of first partitions at most: what gains less is
not worth a search of the whole."""

PROVEN = 0.001
"""Share by which a partition of the whole may be faster for no search of it to be worth it."""

FOR_IMAGES = tuple(Division(tile_rows=rows, grain=grain) for rows, grain in (
    (0, 0.2), (14, 0.0), (0, 0.5), (14, 0.25), (0, 0.12),
))  # fmt: skip
"""Divisions that are compared for the least latency of models with convolutions."""

FOR_SEQUENCES = (
    Division(fraction=0.3, tile_rows=1024), *(Division(grain=grain) for grain in (0.2, 0.5, 0.12))
)  # fmt: skip
"""The same of other models: two tiles of each op answer sooner than more."""

FOR_MEMORY = Division(fraction=0.125, tile_rows=4)
"""Division that is tried first where no partition is found: few rows at a time need little memory
for activations."""

FOR_STREAMS = tuple(Division(share, rows) for share, rows in ((0.145, 8), (0.13, 14), (0.13, 4)))
"""Divisions that are compared where each chip streams the weights that it has no memory for."""

STREAMED_ROUNDS = (4, 8)
"""Rounds that are tried there: classes read the weights of the last kernels once."""

Build = Callable[[Division], Candidate | None]
"""Builds a model that is divided; None where the division is refused."""


def faster(
    whole: Candidate,
    build: Build,
    promising: Callable[[], Sequence[tuple[float, Division]]],
    searched_s: Callable[[], float],
    most: int,
) -> Candidate | None:
    """The best of the divisions that shorten the period; None where none does.

    A division is taken if no partition of the whole is faster, which its bound proves to within
    `PROVEN`, or if the level's search of the whole finds none that is. Where nothing is known to
    fit, the first division that does is taken.

    Args:
        whole: the model as it is compiled without a search.
        build: builds a candidate.
        promising: divisions that may be better, the best first, with estimates of their seconds.
        searched_s: seconds per inference of the whole once the level has searched its partitions.
        most: how many may be built.
    """
    if whole.problem.num_units > replicas.MAX_BOUND_UNITS:
        return None
    level, periods = load_level(whole.context.options.level), whole.periods
    least_s = total_work(whole.problem).seconds
    if whole.fastest is not None:
        least_s = copied_rounds.least_s(whole.problem)
    near = NEAR_WORK if level.further else NEAR_ENOUGH
    if periods.analytic_s <= near * least_s:
        return None
    divisions = [*promising()[:most]]
    if periods.seconds == inf and most > 1:
        divisions.insert(0, (0.0, FOR_MEMORY))
    best, below_s = None, gained_s(periods, searches=level.further > 0)
    for estimate_s, division in divisions[:most]:
        # Transfers are left out of estimates: what is slower by one is slower. Finer grains have
        # more of them, so that they have to gain more.
        finer = best is not None and 0.0 < division.grain < best.division.grain
        most_s = below_s * (1.0 - LEAST_GAIN) if finer else below_s
        if estimate_s >= most_s or (built := build(division)) is None:
            continue
        built.below_s = below_s
        found_s = built.periods.seconds
        if found_s < inf and found_s <= below_s:
            best, below_s = built, found_s
            if division == FOR_MEMORY:
                break
    # By the analytic model alone, a round is no reason for a division.
    if best is None or (best.fastest is not None and best.round is None):
        return None
    proven = periods_of(whole.compared).least_s >= below_s * (1.0 - PROVEN)
    if not proven and periods.seconds < inf and searched_s() <= below_s:
        return None
    best.notes.append(_gain_note(best.step, below_s, periods.seconds, "a period"))
    return best


def streamed(
    whole: Candidate, build: Callable[[Division, int], Candidate | None]
) -> Candidate | None:
    """The best division and round with a replica on each chip; None where none is faster.

    Args:
        whole: the model as it is compiled without a search.
        build: builds a candidate for rounds of a length.
    """
    whole_s = whole.periods.seconds
    built = [one for division in FOR_STREAMS if (one := build(division, 1)) is not None]
    best = min(built, key=lambda one: one.periods.seconds, default=None)
    if best is None or best.periods.seconds == inf:
        return None
    classes, least_s = 1, best.periods.seconds
    for longer in STREAMED_ROUNDS:
        one = build(best.division, longer)
        found_s = inf if one is None else one.periods.seconds / longer
        if one is None or found_s > least_s * (1.0 - LEAST_GAIN):
            break
        best, classes, least_s = one, longer, found_s
    if least_s > whole_s * (1.0 - LEAST_GAIN):
        return None
    step = f"{best.step}` with `--replicas {best.wanted} --round {classes}"
    best.notes.append(_gain_note(step, least_s, whole_s, "a period"))
    return best


def sooner(
    whole: Candidate, build: Build, searched_s: Callable[[], float], most: int
) -> Candidate | None:
    """The best of the divisions that shorten the latency of a ring; None where none does.

    Under a limit it is the first that keeps it, if the level's search of the whole does not.
    Arguments are those of `faster`.
    """
    if whole.problem.num_units > replicas.MAX_BOUND_UNITS:
        return None
    if not whole.problem.on_ring or whole.problem.routing == "strict":
        return None
    before, limit_s = soonest(whole)[0], whole.context.options.goal.max_latency_s
    if limit_s is not None and (
        before.seconds <= limit_s or (before.least_s <= limit_s and searched_s() < inf)
    ):
        return None
    best, least = None, before
    images = any("Conv" in node.op_type for node in whole.model.graph)
    for division in (FOR_IMAGES if images else FOR_SEQUENCES)[:most]:
        if (built := build(division)) is None:
            continue
        found, placed = soonest(built)
        if limit_s is not None:
            if found.seconds <= limit_s:
                best, least = built, found
                break
        elif found.seconds <= gained_s(before, searches=True) and found < least:
            best, least = replace(built, placed=placed), found
    if best is not None:
        best.notes.append(_gain_note(best.step, least.seconds, before.seconds, "a latency"))
    return best


def gained_s(whole: Periods, *, searches: bool) -> float:
    """Seconds up to which a division may be better than what a search finds for the whole.

    Args:
        whole: the model as it is compiled without a division.
        searches: whether partitions are searched for that may be better than the first.
    """
    least_s = whole.seconds
    if searches and least_s < inf:
        least_s = max(whole.least_s, least_s * (1.0 - MOST_SEARCHED))
    return least_s * (1.0 - LEAST_GAIN)


def _gain_note(step: str, divided_s: float, whole_s: float, figure: str) -> Diagnostic:
    """MCM-P071: the level divides more than what fits no chip."""
    before = f", {1 - divided_s / whole_s:.1%} less than undivided" if whole_s < inf else ""
    return Diagnostic(
        "MCM-P071",
        f"`{step}` was found, with {figure} of {seconds_text(divided_s)} by a first partition"
        f"{before}",
        at="pass 'parallelize'",
    )
