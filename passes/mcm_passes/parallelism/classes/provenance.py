"""Why a dimension can be divided or not: the ops that tie it to others, on the shortest way.

All unions and blocks come from ops, and a graph's rules are still there when someone asks. Nothing
has to be recorded while classes are found. A breadth-first search over dimensions and the factors
of ops that join them answers the question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mcm_compiler.diagnostics import quote
from mcm_passes.parallelism.classes.dimension_classes import DimensionClasses
from mcm_passes.parallelism.classes.factor_graph import FactorGraph, PropagationStep

_MOST_NAMED = 8
"""Tensors that an explanation names before it only counts."""


def render(steps: Sequence[PropagationStep]) -> str:
    """A way as text, one step a line."""
    return "\n".join(f"{'' if number == 0 else '-> '}{step}" for number, step in enumerate(steps))


def explain(
    classes: DimensionClasses,
    tensor: str,
    dim: int,
    *,
    degree: int = 2,
    plan: Mapping[str, int] | None = None,
    tensors: Sequence[str] = (),
) -> str:
    """Reason that forces or forbids that a dimension is divided, as text.

    Args:
        classes: of the model.
        tensor: name of a tensor.
        dim: its dimension; may be negative.
        degree: devices.
        plan: of each variable the dimension that a plan divides, or -1.
        tensors: names of the tensors that are decided about; those of `plan` if there are none.

    Raises:
        KeyError, IndexError: as `why`.
    """
    index = _class(classes, tensor, dim)
    rank = len(classes.of(classes.value_by_name[tensor]))
    place = f"{quote(tensor)} dim {dim % rank}"
    graph = FactorGraph(classes)
    forbidding = graph.why(tensor, dim)
    if forbidding:
        return f"{place} cannot be divided:\n{render(forbidding)}"
    size = int(classes.size[index])
    if size < degree:
        units = f"it has {size} units, fewer than {degree} devices"
        way = graph.why_small(tensor, dim, degree)
        return f"{place} cannot be divided: {units}\n{render(way)}"
    others = [name for name in tensors or (plan or {}) if name in classes.value_by_name]
    runs = classes.runs_of(classes.value_by_name[tensor], dim % rank)
    apart = f", each {runs} runs of consecutive elements" if runs > 1 else ""
    lines = [f"{place} can be divided, into up to {size} parts{apart}"]
    linked = [
        f"{quote(name)} dim {at}"
        for name in others
        for at in np.flatnonzero(classes.of(classes.value_by_name[name]) == index)
        if (name, at) != (tensor, dim)
    ]
    if linked:
        lines.append(f"divided with it: {_listed(linked)}")
    for name, at in (plan or {}).items():
        if at < 0 or name not in classes.value_by_name:
            continue
        if _class(classes, name, at) == index:
            return "\n".join([*lines, "the plan divides it"])
        against = graph.why_conflict((tensor, dim), (name, at))
        if against:
            reason = f"the plan divides {quote(name)} dim {at}, which excludes it:"
            return "\n".join([*lines, reason, render(against)])
    if plan is not None:
        lines.append("the plan keeps it whole, though nothing that it divides excludes it")
    return "\n".join(lines)


def _class(classes: DimensionClasses, tensor: str, dim: int) -> int:
    of_dims = classes.of(classes.value_by_name[tensor])
    if not -len(of_dims) <= dim < len(of_dims):
        raise IndexError(f"{quote(tensor)} has {len(of_dims)} dimensions")
    return int(of_dims[dim])


def _listed(names: list[str]) -> str:
    rest = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")
