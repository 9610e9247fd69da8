"""Ops that another chip would run better, and what each move would bring."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import onnx_ir as ir

from mcm_compiler.arrays.rows import Rows, distinct_rows, starts
from mcm_compiler.arrays.types import Bools, Ints, Longs
from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.contracts.program import Buffer, ChipProgram, LoweredProgram, SimulationResult
from mcm_compiler.contracts.target import PackageLimits
from mcm_compiler.graph.constants import consumed_values
from mcm_compiler.placements.ring_rules import dependency_edges
from mcm_compiler.registry import PROBLEM_MODELS
from mcm_compiler.report.records.activity import MoveRow, PinnedMoveRow
from mcm_compiler.text.json_text import row_of

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
    """Gains that moving an op can bring.

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

    Candidates are all units, each alone on each chip that the order of dataflow leaves it. Further
    ones are the units of the busiest chip with what has to go along to the chips next to it.

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
    helpful, pinned = (
        tuple(move for move in found if held[list(move.units)].any() == bound)
        for bound in (False, True)
    )
    return Moves(helpful, pinned, optimal, complete, elsewhere)


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
    seconds, speed = problem.seconds_on(placement), problem.chip_speed
    on_kind_s, kind_of = problem.unit_seconds, problem.kind_of
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
        loads[chips] + on_kind_s[kind_of[chips], units] / speed[chips],
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
        if loads[one.to_chip]
        + on_kind_s[kind_of[one.to_chip], list(one.units)].sum() / speed[one.to_chip]
        < less_s
    ]
    return found + along[:most], order.size <= most


def _single(
    problem: PartitionProblem, placement: Ints, movable: Bools, edges: tuple[Ints, Ints]
) -> tuple[Longs, Longs]:
    """Units and the chips that each can go to alone: on a ring between what it reads and feeds."""
    source, target = edges
    low = np.zeros(problem.num_units, np.int64)
    high = np.full(problem.num_units, problem.num_chips - 1, np.int64)
    if problem.on_ring:
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
    machine = problem.machine
    beside = machine.next_devices(chip) if step > 0 else machine.previous_devices(chip)
    return [other for other in beside if other < problem.num_chips]


def _reached(start: int, linked: Rows) -> tuple[int, ...]:
    found, waiting = {start}, [start]
    while waiting:
        for other in linked.row(waiting.pop()).tolist():
            if other not in found:
                found.add(other)
                waiting.append(other)
    return tuple(sorted(found))


_SLOT = re.compile(r"\[\d+\]$")


def move_row(
    move: Move,
    certificate: Certificate,
    program: LoweredProgram,
    simulation: SimulationResult,
    limits: PackageLimits,
    graphs: Mapping[int, ir.Graph],
) -> MoveRow:
    """A move as the report has it.

    Args:
        move: from `find_moves`.
        certificate: that it was found for.
        program: the programs of all chips of one pipeline.
        simulation: gives the busy times.
        limits: gives memory and speed of the chips.
        graphs: the chips' models by chip.
    """
    problem = certificate.problem
    programs = {chip.chip: chip for chip in program.chips}
    busy_s = {activity.chip: activity.busy_s for activity in simulation.chips}
    speeds = limits.chip_speed or (1.0,) * limits.num_chips
    own, there = programs.get(move.from_chip), programs.get(move.to_chip)
    names = {name for unit in move.units for name in problem.members[unit]}
    kernels = [k for k in own.kernels if names.intersection(k.nodes)] if own else []
    seconds = sum(kernel.duration_s for kernel in kernels)
    graph = graphs.get(move.from_chip)
    moving = [node for node in graph or () if (node.name or "") in names]
    taken = there.high_water_bytes if there is not None else 0
    here_s, there_s = (
        float(problem.unit_seconds[problem.kind_of[chip], list(move.units)].sum())
        for chip in (move.from_chip, move.to_chip)
    )
    ratio = speeds[move.from_chip] / speeds[move.to_chip]
    ratio *= there_s / here_s if here_s > 0.0 else 1.0
    return row_of(
        MoveRow,
        move,
        **_named(move, problem),
        need_bytes=_need_bytes(moving, own, there, limits.channel_slots) if own else 0,
        free_bytes=limits.sram_bytes[move.to_chip] - taken,
        busy_without_s=busy_s.get(move.from_chip, 0.0) - seconds,
        busy_there_s=busy_s.get(move.to_chip, 0.0) + seconds * ratio,
    )


def pinned_row(move: Move, certificate: Certificate) -> PinnedMoveRow:
    """A move that a pin is in the way of, as the report has it."""
    problem = certificate.problem
    held = next(unit for unit in move.units if problem.pinned_chip[unit] >= 0)
    pinned = {"pinned": problem.names[held], "pin": pin_of(certificate, held)}
    return row_of(PinnedMoveRow, move, **_named(move, problem), **pinned)


def _named(move: Move, problem: PartitionProblem) -> dict[str, Any]:
    """Name and number of the ops that move."""
    return {
        "name": problem.names[move.unit],
        "ops": len(problem.members[move.unit]),
        "along": len(move.units) - 1,
    }


def _need_bytes(
    moving: Sequence[ir.Node], chip: ChipProgram, there: ChipProgram | None, slots: int
) -> int:
    """See `Move.need_bytes`; sizes are those of the buffers on the chip that they leave."""
    sizes = _sizes(chip.buffers)
    held = _sizes(there.buffers) if there is not None else {}
    made = {value: None for node in moving for value in node.outputs}
    inside = set(moving)
    need = 0
    for value in made:
        leaves = value.is_graph_output() or any(n not in inside for n in value.consumers())
        need += sizes.get(value.name or "", 0) * (slots if leaves else 1)
    weights = {b.name for b in chip.buffers if b.kind in ("weight", "stream", "state")}
    read: dict[str, None] = {}
    for node in moving:
        for value in consumed_values(node):
            if value not in made:
                read.update(dict.fromkeys(_stored(value, sizes)))
    for name in read:
        if name not in held:
            need += sizes[name] * (1 if name in weights else slots)
    return need


def _stored(value: ir.Value, sizes: Mapping[str, int]) -> list[str]:
    """The buffers that hold what a kernel reads: a view shares that of its operand."""
    found: list[str] = []
    waiting, seen = [value], {value}
    while waiting:
        value = waiting.pop()
        if (value.name or "") in sizes:
            found.append(value.name or "")
        elif (maker := value.producer()) is not None:
            further = [v for v in consumed_values(maker) if v not in seen]
            seen.update(further)
            waiting += further
    return found


def _sizes(buffers: Iterable[Buffer]) -> dict[str, int]:
    """Bytes of one buffer by tensor."""
    return {
        _SLOT.sub("", b.name) if b.kind in ("receive", "send") else b.name: b.size_bytes
        for b in buffers
    }
