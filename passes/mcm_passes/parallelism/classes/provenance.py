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
from mcm_passes.parallelism.rules.rule_templates import Block

_MOST_NAMED = 8
"""Tensors that an explanation names before it only counts."""


def render(steps: Sequence[PropagationStep]) -> str:
    """A way as text, one step a line."""
    return "\n".join(f"{'' if number == 0 else '-> '}{step}" for number, step in enumerate(steps))


def why(classes: DimensionClasses, tensor: str, dim: int) -> list[PropagationStep]:
    """The shortest way from a dimension to the op because of which it cannot be divided.

    Returns:
        The steps; empty if no op forbids it.

    Raises:
        KeyError: if no tensor has that name.
        IndexError: if it has no such dimension; `dim` may be negative.
    """
    graph = FactorGraph(classes)
    start = graph.start(tensor, dim)
    index = int(classes.class_of[start])
    if index < 0:
        return [graph.step(start), graph.of_size_one(start)]
    block = Block(int(classes.block[index]))
    if block is Block.NONE:
        return []
    if block is Block.ITSELF:
        return graph.to_itself(start, int(classes.met_at[index]))
    if block is Block.RUNS:
        return graph.to_other_runs(start, int(classes.met_at[index]))
    return graph.way(start, graph.is_stuck, graph.stuck_step)


def why_small(
    classes: DimensionClasses, tensor: str, dim: int, degree: int
) -> list[PropagationStep]:
    """The shortest way from a dimension to one that has fewer units than there are devices.

    Returns:
        The steps; empty if there are enough of them.

    Raises:
        KeyError, IndexError: as `why`.
    """
    graph = FactorGraph(classes)
    start = graph.start(tensor, dim)
    if classes.class_of[start] < 0 or classes.size[classes.class_of[start]] >= degree:
        return []
    steps = graph.way(start, lambda d: graph.units(d) < degree, None)
    # Where no member is too small by itself, units of several do not fall together.
    return steps or [graph.step(start)]


def why_linked(
    classes: DimensionClasses, one: tuple[str, int], other: tuple[str, int]
) -> list[PropagationStep]:
    """The shortest way from one dimension to another that is divided with it.

    Returns:
        The steps; empty if they are of different classes.

    Raises:
        KeyError, IndexError: as `why`.
    """
    graph = FactorGraph(classes)
    start, end = graph.start(*one), graph.start(*other)
    if classes.class_of[start] != classes.class_of[end] or classes.class_of[start] < 0:
        return []
    return graph.way(start, lambda dim: dim == end, None)


def why_conflict(
    classes: DimensionClasses, one: tuple[str, int], other: tuple[str, int]
) -> list[PropagationStep]:
    """The way from one dimension to an op where it meets another, and on to that one.

    Returns:
        The steps; empty if both can be divided.

    Raises:
        KeyError, IndexError: as `why`.
    """
    graph = FactorGraph(classes)
    start, end = graph.start(*one), graph.start(*other)
    first, second = int(classes.class_of[start]), int(classes.class_of[end])
    if first < 0 or second < 0:
        return []
    if first == second:
        return graph.way(start, lambda dim: dim == end, None)
    meeting = {
        dim: (node, partner)
        for node, dims, partners in graph.meetings(first, second)
        for partner in partners[:1]
        for dim in dims
    }
    if not meeting:
        return []
    there = graph.way(start, lambda dim: dim in meeting, None)
    if not there:
        return []
    last = graph.start(there[-1].tensor, there[-1].dim)
    node, partner = meeting[last]
    there.append(graph.step(partner, node, "cannot divide both of these dimensions"))
    back = graph.way(partner, lambda dim: dim == end, None)
    return there + back[1:]


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
    forbidding = why(classes, tensor, dim)
    if forbidding:
        return f"{place} cannot be divided:\n{render(forbidding)}"
    size = int(classes.size[index])
    if size < degree:
        units = f"it has {size} units, fewer than {degree} devices"
        way = why_small(classes, tensor, dim, degree)
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
        against = why_conflict(classes, (tensor, dim), (name, at))
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
