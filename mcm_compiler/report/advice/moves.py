"""Moves of ops to other chips that make a placement faster under the model it was searched with.

A move takes one unit of a placement (an op, or ops that stay together) to another chip, alone or
with what the direction of the ring asks to go along. It is found where the problem model, with all
rules and the numbers of one of the pipelines, says that the changed placement is faster.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from mcm_compiler.arrays.rows import Rows, distinct_rows, starts
from mcm_compiler.arrays.types import Bools, Ints, Longs
from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.placements.ring_rules import dependency_edges
from mcm_compiler.registry import PROBLEM_MODELS

if TYPE_CHECKING:
    from mcm_compiler.certificate.claims import Certificate
    from mcm_compiler.contracts.proofs import ProblemModel

EVALUATED = 256
"""Moves that are evaluated; where there are more, those that load both chips least."""

EVALUATED_UNITS = 400_000
"""Units of all placements that are evaluated together; eight moves at least."""

NOTEWORTHY = 1e-6
"""Share of the period from which a shorter one is faster."""


@dataclass(frozen=True)
class Move:
    """A unit on another chip.

    Attributes:
        unit: index of the unit in the problem.
        units: that one and those that have to go along, ascending.
        from_chip: where the unit is.
        to_chip: where it would be, and all that goes along.
        period_s: between inferences of the package with it there, under the problem model.
        gain: by what share that is shorter than with the placement as it is.
    """

    unit: int
    units: tuple[int, ...]
    from_chip: int
    to_chip: int
    period_s: float
    gain: float


@dataclass(frozen=True)
class Moves:
    """What moving an op can bring.

    Attributes:
        helpful: moves that make the package faster, the fastest first.
        pinned: moves that would, were it not for a pin; likewise.
        optimal: whether the placement reaches the proven bound, so that nothing is faster.
        complete: whether every move of a single unit was looked at.
        elsewhere: whether there is another chip to go to.
    """

    helpful: tuple[Move, ...]
    pinned: tuple[Move, ...]
    optimal: bool
    complete: bool
    elsewhere: bool


class _Candidate(NamedTuple):
    """A move to look at: the named unit, all that go, and where to."""

    unit: int
    units: tuple[int, ...]
    to_chip: int


def find_moves(certificate: Certificate) -> Moves:
    """The moves that make the placement of a certificate faster.

    Looked at are all units, each alone on each chip that the order of dataflow leaves it, and the
    units of the busiest chip with what has to go along to the chips beside it.

    Raises:
        CompileError: MCM-U003 for a problem model that is not installed.
    """
    problem, placement = certificate.problem, certificate.placement
    model = cast("ProblemModel", PROBLEM_MODELS.get(certificate.problem_model))
    now_s, claim = certificate.period_s, certificate.claim("pipeline")
    optimal = claim is not None and now_s <= claim.seconds * (1.0 + NOTEWORTHY)
    elsewhere = problem.num_chips > 1
    if optimal or not elsewhere or not math.isfinite(now_s) or now_s <= 0.0:
        return Moves((), (), optimal, True, elsewhere)
    # Pins of copied units stay: a move of their readers must not take the copy along.
    pins = np.where(problem.clonable, problem.pinned_chip, -1).astype(np.int32)
    free = replace(problem, pinned_chip=pins)
    candidates, complete = _promising(problem, placement, now_s)
    found: list[Move] = []
    for one in candidates:
        changed = np.array(placement, np.int32)
        changed[list(one.units)] = one.to_chip
        period_s = model.period_s(free, changed)
        if period_s < now_s * (1.0 - NOTEWORTHY):
            package_s, gain = period_s / certificate.scope.pipelines, 1.0 - period_s / now_s
            start = int(placement[one.unit])
            found.append(Move(one.unit, one.units, start, one.to_chip, package_s, gain))
    found.sort(key=lambda move: (move.period_s, len(move.units), move.unit, move.to_chip))
    held = problem.pinned_chip >= 0
    bound = [bool(held[list(move.units)].any()) for move in found]
    return Moves(
        tuple(move for move, pinned in zip(found, bound, strict=True) if not pinned),
        tuple(move for move, pinned in zip(found, bound, strict=True) if pinned),
        optimal,
        complete,
        elsewhere,
    )


def pin_of(certificate: Certificate, unit: int) -> str | None:
    """The user's pin that binds a unit, as `PATTERN=CHIP`; None where none does."""
    chip = int(certificate.problem.pinned_chip[unit])
    if chip < 0:
        return None
    names = (certificate.problem.names[unit], *certificate.problem.members[unit])
    for exact in (True, False):
        for pattern, wanted in certificate.pins:
            hit = pattern in names if exact else any(fnmatchcase(n, pattern) for n in names)
            if wanted == chip and hit:
                return f"{pattern}={chip}"
    return None


def _promising(
    problem: PartitionProblem, placement: Ints, now_s: float
) -> tuple[list[_Candidate], bool]:
    """Moves that may help, those that load both chips least first; and whether they are all.

    Relays and copies come on top of the time of a chip's units, so that a move which leaves a chip
    with units for the whole period cannot help.
    """
    fixed = ~problem.clonable
    seconds, speed = problem.compute_s, problem.chip_speed
    loads = np.bincount(placement[fixed], seconds[fixed], problem.num_chips) / speed
    less_s = now_s * (1.0 - NOTEWORTHY)
    full = np.flatnonzero(loads >= less_s)
    if full.size > 1:
        return [], True
    source, target = dependency_edges(problem)
    kept = fixed[source] & fixed[target]
    edges = source[kept], target[kept]
    movable = fixed if full.size == 0 else fixed & (placement == full[0])
    units, chips = _single(problem, placement, movable, edges)
    after = np.maximum(
        loads[placement[units]] - seconds[units] / speed[placement[units]],
        loads[chips] + seconds[units] / speed[chips],
    )
    hopeful = np.flatnonzero(after < less_s)
    order = hopeful[np.argsort(after[hopeful], kind="stable")]
    most = max(min(EVALUATED, EVALUATED_UNITS // problem.num_units), 8)
    found = [
        _Candidate(unit, (unit,), chip)
        for unit, chip in zip(
            units[order[:most]].tolist(), chips[order[:most]].tolist(), strict=True
        )
    ]
    busiest = int(loads.argmax())
    along = [
        one
        for one in _along(problem, placement, busiest, edges)
        if loads[one.to_chip] + seconds[list(one.units)].sum() / speed[one.to_chip] < less_s
    ]
    return found + along[:most], order.size <= most


def _single(
    problem: PartitionProblem, placement: Ints, movable: Bools, edges: tuple[Ints, Ints]
) -> tuple[Longs, Longs]:
    """Units and the chips that each can go to alone: on a ring between what it reads and feeds."""
    source, target = edges
    low = np.zeros(problem.num_units, np.int64)
    high = np.full(problem.num_units, problem.num_chips - 1, np.int64)
    if problem.machine is None:
        np.maximum.at(low, target, placement[source])
        np.minimum.at(high, source, placement[target])
    one = np.flatnonzero(movable & (high > low))
    counts = (high - low + 1)[one]
    units = np.repeat(one, counts)
    chips = np.arange(units.size) - np.repeat(starts(counts)[:-1] - low[one], counts)
    other = chips != placement[units]
    return units[other], chips[other]


def _along(
    problem: PartitionProblem, placement: Ints, busiest: int, edges: tuple[Ints, Ints]
) -> list[_Candidate]:
    """Units of a chip with all on it that they lead to, to the next; or that leads to them."""
    on = np.flatnonzero((placement == busiest) & ~problem.clonable)
    if on.size > EVALUATED:
        return []
    source, target = edges
    inside = (placement[source] == busiest) & (placement[target] == busiest)
    source, target = source[inside], target[inside]
    found: list[_Candidate] = []
    for step, linked in (
        (1, distinct_rows(source, target, problem.num_units)),
        (-1, distinct_rows(target, source, problem.num_units)),
    ):
        chips = _beside(problem, busiest, step)
        for unit in on.tolist():
            units = _reached(unit, linked)
            if 1 < len(units) < on.size:
                found += [_Candidate(unit, units, chip) for chip in chips]
    return sorted(found, key=lambda one: len(one.units))


def _beside(problem: PartitionProblem, chip: int, step: int) -> Sequence[int]:
    if problem.machine is None:
        beside: Sequence[int] = (chip + step,)
    elif step > 0:
        beside = problem.machine.next_devices(chip)
    else:
        beside = problem.machine.previous_devices(chip)
    return [other for other in beside if 0 <= other < problem.num_chips]


def _reached(start: int, linked: Rows) -> tuple[int, ...]:
    found, waiting = {start}, [start]
    while waiting:
        for other in linked.row(waiting.pop()).tolist():
            if other not in found:
                found.add(other)
                waiting.append(other)
    return tuple(sorted(found))
