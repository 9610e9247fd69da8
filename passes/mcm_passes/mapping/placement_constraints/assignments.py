"""A user's own cut: from rows of names and chips to a partition, or to what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, cast

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.fusion import FusionPlan
from mcm_compiler.contracts.mapping import Nearest, Violation
from mcm_compiler.contracts.partition import (
    Budget,
    Evaluate,
    Ints,
    Outcome,
    PartitionProblem,
    PartitionStrategy,
)
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.source import SOURCE
from mcm_compiler.options import CompileOptions
from mcm_compiler.placements.assignment_file import AssignedName, read_assignment
from mcm_compiler.text.units import count_text
from mcm_passes.mapping.models import evaluate, mapping_of
from mcm_passes.mapping.placement_constraints.pins import (
    KnownNames,
    compiled,
    is_pattern,
    known_names,
    match_pins,
    refuse_contradictions,
)


@dataclass(frozen=True, eq=False)
class RequestedPlacement:
    """The pins and the assignment of one compile.

    Attributes:
        pins: chip of each pinned op or group, for `build_problem`.
        rows: the assignment, or None.
        names: of ops and groups.
    """

    pins: dict[str, int]
    rows: tuple[AssignedName, ...] | None
    names: KnownNames

    @classmethod
    def of(cls, model: ir.Model, plan: FusionPlan, options: CompileOptions) -> RequestedPlacement:
        """Reads what `options` request; MCM-F010 to MCM-F012."""
        rows = None
        if options.assignment is not None:
            rows = read_assignment(Path(options.assignment))
        if rows is None and not options.pins:
            return cls({}, None, KnownNames(()))
        names = known_names(model, plan)
        return cls(match_pins(options.pins, names), rows, names)

    def strategy(
        self, problem: PartitionProblem, model: ir.Model, options: CompileOptions
    ) -> tuple[PartitionStrategy | None, list[Diagnostic]]:
        """The strategy that an assignment stands for, or None without one, and what to report.

        Raises:
            CompileError: MCM-F011 to MCM-F014.
        """
        if self.pins:
            refuse_contradictions(problem, self.pins)
        if self.rows is None:
            return None, []
        source = SOURCE.find(model)
        gone = [] if source is None else [node.name or "" for node in source.original.graph]
        assigned = assign(problem, self.rows, self.names, gone)
        chip_of, notes = refuse_invalid(
            problem,
            assigned.chip_of,
            str(options.assignment),
            repair=options.repair_assignment,
            seed=options.seed,
        )
        if assigned.ignored:
            message = (
                f"{count_text(len(assigned.ignored), 'row')} of the assignment, such as that of "
                f"{quote(assigned.ignored[0])}, are for ops that are no more: folded, merged or "
                "split"
            )
            at = str(options.assignment)
            notes.append(Diagnostic("MCM-F016", message, at=at))
        return cast("PartitionStrategy", Manual(tuple(chip_of.tolist()))), notes


@dataclass(frozen=True)
class Manual:
    """No search: the partition is given.

    Attributes:
        chips: chip of each unit, in the order of the problem; `--assignment` fills it from a file.
    """

    name: ClassVar[str] = "manual"
    any_machine: ClassVar[bool] = True
    summary: ClassVar[str] = "the user's own assignment (--assignment FILE), taken as it is"

    chips: tuple[int, ...] = ()

    def solve(
        self,
        problem: PartitionProblem,
        evaluate: Evaluate,
        rng: np.random.Generator,
        budget: Budget,
    ) -> Outcome:
        """Gives the chips back if they are a valid partition."""
        del rng
        if not self.chips:
            return Outcome(None, 0, "no assignment is given; --assignment FILE takes one")
        if len(self.chips) != problem.num_units:
            reason = f"it has {len(self.chips)} chips for {problem.num_units} units"
            return Outcome(None, 0, reason)
        chip_of = np.array(self.chips, np.int32)
        period_s = evaluate(chip_of)
        if not np.isfinite(period_s):
            return Outcome(None, 1, "the assignment breaks a rule")
        budget.monitor.best(chip_of, period_s)
        return Outcome(chip_of, 1)


MAX_FAULTS = 10
"""Faults of one kind that are spelled out."""

MAX_MOVES = 4
"""Moves that a hint spells out."""


@dataclass(frozen=True, eq=False)
class Assigned:
    """An assignment that was understood.

    Attributes:
        chip_of: `[N]`; entries of clonable units mean nothing.
        ignored: names of the model as given that are no ops any more.
    """

    chip_of: Ints
    ignored: tuple[str, ...]


def assign(
    problem: PartitionProblem, rows: Sequence[AssignedName], names: KnownNames, gone: Iterable[str]
) -> Assigned:
    """The chip that an assignment gives to each unit.

    A name wins over a pattern, and an earlier pattern over a later one. Units that are copied to
    each chip that reads them need no row, and their rows are not looked at.

    Args:
        problem: what is to be placed.
        rows: the assignment.
        names: of ops and groups.
        gone: names of the model as given, whose ops may have been folded, merged or split.

    Raises:
        CompileError: MCM-F011 for names that are not there, MCM-F012 for ops of one unit on two
            chips, MCM-F013 for ops without a chip.
    """
    exact = {row.name: row for row in rows if row.name in names}
    patterns = [row for row in rows if row.name not in exact and is_pattern(row.name)]
    others = [row for row in rows if row.name not in exact and not is_pattern(row.name)]
    known_before = set(gone) if others else set[str]()
    ignored = tuple(row.name for row in others if row.name in known_before)
    faults = [
        Diagnostic(
            "MCM-F011",
            f"{quote(row.name)} is assigned to chip {row.chip}, and no op or group has that name",
            at=row.place,
            hint=names.hint(row.name),
        )
        for row in others
        if row.name not in known_before
    ][:MAX_FAULTS]
    matchers = [(compiled(row.name).match, row) for row in patterns]
    used: set[str] = set()
    chip_of = np.full(problem.num_units, -1, np.int32)
    missing: list[str] = []
    for u, (unit, members) in enumerate(zip(problem.names, problem.members, strict=True)):
        found = [exact[name] for name in dict.fromkeys((unit, *members)) if name in exact]
        if not found:
            found = [row for matches, row in matchers if any(map(matches, members))][:1]
            used.update(row.name for row in found)
        chips = {row.chip: row for row in found}
        if len(chips) > 1 and not problem.clonable[u]:
            first, second = list(chips.values())[:2]
            message = (
                f"{quote(first.name)} is assigned to chip {first.chip} and {quote(second.name)} to "
                f"chip {second.chip}, but they stay together in {quote(unit)}"
            )
            hint = "give both one chip, or compile without `fuse` (--passes)"
            faults.append(Diagnostic("MCM-F012", message, at=second.place, hint=hint))
        elif found:
            chip_of[u] = found[0].chip
        elif problem.clonable[u]:
            chip_of[u] = 0
        else:
            missing.append(unit)
    for row in patterns:
        if row.name not in used and not names.matching(row.name):
            message = f"the pattern {quote(row.name)} matches no op and no group"
            hint = names.hint(row.name)
            faults.append(Diagnostic("MCM-F011", message, at=row.place, hint=hint))
    if missing:
        shown = ", ".join(quote(name) for name in missing[:3])
        more = f" and {len(missing) - 3:,} more" if len(missing) > 3 else ""
        message = f"the assignment gives no chip to {shown}{more}"
        faults.append(Diagnostic("MCM-F013", message, at=rows[0].place))
    if faults:
        raise CompileError(faults[: 3 * MAX_FAULTS])
    return Assigned(chip_of, ignored)


def refuse_invalid(
    problem: PartitionProblem, chip_of: Ints, source: str, *, repair: bool, seed: int
) -> tuple[Ints, list[Diagnostic]]:
    """The assignment if it is valid; the nearest valid one if it is not and may be repaired.

    Args:
        problem: what is to be placed.
        chip_of: `[N]`, the assignment.
        source: name of its file.
        repair: take the nearest valid one.
        seed: of the search for that.

    Returns:
        The partition, and a warning where it is a repaired one.

    Raises:
        CompileError: MCM-F014, one diagnostic per broken rule, with the nearest valid assignment in
            the hint where one is found.
    """
    # Whether an assignment that any memory plan may fit does fit is for the planner to say.
    violations = evaluate(problem.at_need(), chip_of).violations
    if not violations:
        return chip_of, []
    nearest = _nearest_with_room(problem, chip_of, seed)
    if nearest.chip_of is not None and repair:
        message = (
            f"the assignment breaks {count_text(len(violations), 'rule')} "
            f"({violations[0].message}); {_moves(problem, chip_of, nearest)}"
        )
        note = Diagnostic("MCM-F015", message, at=source)
        return nearest.chip_of, [note]
    if nearest.chip_of is None and nearest.proven:
        hint = "no assignment of this model is valid, by proof; choose another package or rule"
    elif nearest.chip_of is None and not nearest.sought:
        hint = "change the assignment, or leave it out to let the compiler choose"
    elif nearest.chip_of is None:
        hint = "no valid assignment was found near it; leave it out to let the compiler choose"
    else:
        hint = f"{_moves(problem, chip_of, nearest)}; --repair-assignment takes that one"
    raise CompileError(_broken_rules(violations, source, hint))


def _broken_rules(violations: Sequence[Violation], source: str, hint: str) -> list[Diagnostic]:
    return [
        Diagnostic(
            "MCM-F014",
            f"the assignment breaks the rule '{violation.rule}': {violation.message}",
            at=source,
            hint=hint if k == 0 else None,
        )
        for k, violation in enumerate(violations[:MAX_FAULTS])
    ]


def _nearest_with_room(problem: PartitionProblem, chip_of: Ints, seed: int) -> Nearest:
    """The nearest assignment, one with space for the gaps of memory plans where there is one.

    What is proven holds for what every memory plan needs at least. Not every family seeks one.
    """
    mapping = mapping_of(problem)
    needed = mapping.nearest(problem.at_need(), chip_of, np.random.default_rng(seed))
    if needed.chip_of is None or evaluate(problem, needed.chip_of).valid:
        return needed
    roomy = mapping.nearest(problem, chip_of, np.random.default_rng(seed))
    return needed if roomy.chip_of is None else replace(roomy, proven=False)


def _moves(problem: PartitionProblem, chip_of: Ints, nearest: Nearest) -> str:
    assert nearest.chip_of is not None
    moved = np.flatnonzero((chip_of != nearest.chip_of) & ~problem.clonable).tolist()
    shown = [f"{quote(problem.names[u])} to chip {nearest.chip_of[u]}" for u in moved[:MAX_MOVES]]
    more = f" and {len(moved) - MAX_MOVES:,} more" if len(moved) > MAX_MOVES else ""
    units = f"{count_text(len(moved), 'unit')} of {problem.num_units:,}"
    how = f"moves {units}, proven nearest" if nearest.proven else f"moves at most {units}"
    return f"the nearest valid assignment {how}: {', '.join(shown)}{more}"
