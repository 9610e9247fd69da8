"""Constraints of users on a plan: `--shard '/decoder/*/wi=1'`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_passes.parallelism.classes import provenance
from mcm_passes.parallelism.classes.dimension_classes import DimensionClasses
from mcm_passes.parallelism.classes.factor_graph import FactorGraph
from mcm_passes.parallelism.decisions.decision_problem import DecisionProblem

KEPT_WHOLE = -1

_MAX_TEXT = 1000
_MAX_DIM = 1000
_MAX_PART = 200
"""Characters that are compared: the time goes with the square of them."""


@dataclass(frozen=True)
class ShardConstraint:
    """One `--shard` option.

    Attributes:
        pattern: of names or paths of variables, or of modules that hold them.
        dim: what to divide, or `KEPT_WHOLE`.
    """

    pattern: str
    dim: int

    def __str__(self) -> str:
        return f"{self.pattern}={self.dim}"


@dataclass(frozen=True, eq=False)
class ConstrainedProblem:
    """A problem with what is decided already.

    Attributes:
        problem: the problem, in which classes that must stay whole, and those that conflict with
            a forced one, are blocked.
        forced: `[K]` bool, classes that must be partitioned.
    """

    problem: DecisionProblem
    forced: NDArray[np.bool_]


@dataclass(frozen=True)
class _Demand:
    """A dimension that an option divides or keeps whole."""

    option: ShardConstraint
    tensor: str
    dim: int


def parse_constraint(text: str) -> ShardConstraint:
    """Reads `PATTERN=DIM`.

    Raises:
        CompileError: MCM-S023.
    """
    pattern, equals, number = text.rpartition("=")
    digits = number.strip()
    if pattern and equals and len(text) <= _MAX_TEXT and digits.removeprefix("-").isdecimal():
        dim = int(digits) if len(digits) < 6 else _MAX_DIM + 1
        if KEPT_WHOLE <= dim <= _MAX_DIM:
            return ShardConstraint(pattern.strip(), dim)
    raise CompileError.of(
        "MCM-S023",
        f"{quote(text)} is not of the form PATTERN=DIM, with a dimension from 0 on, or -1",
        at="--shard",
    )


def constrained(
    problem: DecisionProblem, classes: DimensionClasses, constraints: Sequence[ShardConstraint]
) -> ConstrainedProblem:
    """The problem that is left when users have decided a part of it.

    Raises:
        CompileError: MCM-S024 for options that match nothing, MCM-S025 for a dimension that cannot
            be divided, MCM-S026 for options that contradict each other.
    """
    faults: list[Diagnostic] = []
    divided: dict[int, _Demand] = {}
    whole: dict[int, _Demand] = {}
    for option in constraints:
        demands = _demands(problem, option)
        if not demands:
            faults.append(_unmatched(problem, option))
        for demand in demands:
            tensor = problem.tensors.index(demand.tensor)
            of_dims = problem.dim_class[problem.dim_ptr[tensor] : problem.dim_ptr[tensor + 1]]
            if option.dim == KEPT_WHOLE:
                for dim, index in enumerate(of_dims.tolist()):
                    if index >= 0:
                        whole.setdefault(index, _Demand(option, demand.tensor, dim))
                continue
            index = int(of_dims[demand.dim])
            if index < 0 or problem.blocked[index]:
                faults.append(_forbidden(problem, classes, demand, index))
            else:
                divided.setdefault(index, demand)
    faults += _contradictions(problem, classes, divided, whole)
    CompileError.raise_any(faults)
    forced = np.zeros(problem.num_classes, dtype=bool)
    forced[list(divided)] = True
    blocked = problem.blocked.copy()
    blocked[list(whole)] = True
    for index in divided:
        blocked |= problem.conflicts[index]
    return ConstrainedProblem(replace(problem, blocked=blocked), forced)


def require_devices(constraints: Sequence[ShardConstraint], degree: int) -> None:
    """Makes sure that there are devices over which to divide what has to be.

    Args:
        constraints: what users have decided.
        degree: devices that ops are divided over.

    Raises:
        CompileError: MCM-S025 if something is to be divided over one.
    """
    asked = [option for option in constraints if option.dim != KEPT_WHOLE]
    if degree > 1 or not asked:
        return
    raise CompileError(
        [
            Diagnostic(
                "MCM-S025",
                f"dim {option.dim} of {quote(option.pattern)} cannot be divided: ops are divided "
                "over one device",
                at=f"--shard {quote(str(option))}",
                hint="say over how many with --operator, from 2 on",
            )
            for option in asked
        ]
    )


def require_divisible(problem: DecisionProblem, degree: int) -> None:
    """Makes sure that there is something to decide.

    Raises:
        CompileError: MCM-S027 if no class can be divided over `degree` devices.
    """
    if not problem.blocked.all():
        return
    fitting = int(np.max(problem.size, initial=0))
    free = problem.size[problem.size < degree]
    if fitting >= degree or not len(free):
        reason = "ops need all of its dimensions whole, or they are too small"
    else:
        reason = f"none has more than {fitting} units"
    raise CompileError.of(
        "MCM-S027", f"nothing of the model can be divided over {degree} devices: {reason}"
    )


def _demands(problem: DecisionProblem, option: ShardConstraint) -> list[_Demand]:
    found: list[_Demand] = []
    for tensor, name in enumerate(problem.tensors):
        rank = int(problem.dim_ptr[tensor + 1] - problem.dim_ptr[tensor])
        if option.dim < rank and _matches(option.pattern, name):
            found.append(_Demand(option, name, option.dim))
    return found


def _matches(pattern: str, name: str) -> bool:
    path = "/" + name.replace(".", "/").lstrip("/")
    module = path.rpartition("/")[0]
    return any(fnmatchcase(text, pattern) for text in (name, path, module) if text)


def _unmatched(problem: DecisionProblem, option: ShardConstraint) -> Diagnostic:
    at_all = [name for name in problem.tensors if _matches(option.pattern, name)]
    if at_all:
        message = f"no variable that matches {quote(option.pattern)} has a dim {option.dim}"
        near = at_all[:3]
    else:
        message = f"no variable matches {quote(option.pattern)}"
        near = _nearest(problem.tensors, option.pattern)
    hint = "the nearest: " + ", ".join(quote(name) for name in near) if near else None
    return Diagnostic("MCM-S024", message, at=f"--shard {quote(str(option))}", hint=hint)


def _nearest(names: Sequence[str], pattern: str) -> list[str]:
    """Names with a part that resembles the last part of a pattern, or those that resemble it."""
    parts = [part for part in re.split(r"[/.*?\[\]]+", pattern) if part]
    of_names = {name: set(_parts(name)) for name in names}
    known = sorted({part for found in of_names.values() for part in found})
    near = difflib.get_close_matches(parts[-1][:_MAX_PART], known, n=1) if parts else []
    holding = [name for name, found in of_names.items() if near and near[0] in found]
    most = ".".join(parts)[:_MAX_PART]
    return difflib.get_close_matches(most, holding or names, n=3, cutoff=0.0)


def _parts(name: str) -> list[str]:
    return [part[:_MAX_PART] for part in re.split(r"[/.]+", name) if part]


def _forbidden(
    problem: DecisionProblem, classes: DimensionClasses, demand: _Demand, index: int
) -> Diagnostic:
    place = f"{quote(demand.tensor)} dim {demand.dim}"
    graph = FactorGraph(classes)
    reason = provenance.render(graph.why(demand.tensor, demand.dim))
    if not reason and index >= 0:
        size = int(problem.size[index])
        small = graph.why_small(demand.tensor, demand.dim, size + 1)
        reason = f"it has {size} units, fewer than devices\n{provenance.render(small)}"
    return Diagnostic(
        "MCM-S025",
        f"{place} cannot be divided:\n{reason}",
        at=f"--shard {quote(str(demand.option))}",
    )


def _contradictions(
    problem: DecisionProblem,
    classes: DimensionClasses,
    divided: dict[int, _Demand],
    whole: dict[int, _Demand],
) -> list[Diagnostic]:
    faults: list[Diagnostic] = []
    for index, demand in divided.items():
        one = (demand.tensor, demand.dim)
        kept = whole.get(index)
        if kept is not None:
            way = provenance.render(FactorGraph(classes).why_linked(one, (kept.tensor, kept.dim)))
            faults.append(_contradiction(demand, kept, "divided together", way))
        for rival, other in divided.items():
            if rival > index and problem.conflicts[index, rival]:
                way = provenance.render(
                    FactorGraph(classes).why_conflict(one, (other.tensor, other.dim))
                )
                faults.append(_contradiction(demand, other, "never divided both", way))
    return faults


def _contradiction(one: _Demand, other: _Demand, what: str, way: str) -> Diagnostic:
    return Diagnostic(
        "MCM-S026",
        f"{quote(one.tensor)} dim {one.dim} and {quote(other.tensor)} dim {other.dim} are {what}:"
        f"\n{way}",
        at=f"--shard {quote(str(one.option))} and --shard {quote(str(other.option))}",
    )
