"""Problem of the searches for operator partitioning and data parallelism, as arrays.

A decision gives every dimension class a bit: partitioned or replicated. It is feasible if no
partitioned class is blocked and no two partitioned classes conflict. A tensor is partitioned if
one of its dims is of a partitioned class; two of its dims never are, since their classes conflict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from mcm_passes.parallelism.classes.dimension_classes import (
    DimensionClasses,
    Linkage,
    dimension_classes,
    linkage_groups,
)
from mcm_passes.parallelism.classes.variables import float_bytes, trainable_variables
from mcm_passes.parallelism.rules.graph_rules import rules_of
from mcm_passes.parallelism.rules.rule_templates import Block


@dataclass(frozen=True, eq=False)
class DecisionProblem:
    """Problem of OPP or ADP, as arrays; V tensors with D dims in all, of K classes.

    Attributes:
        tensors: names of the V tensors that are decided about (trainable variables, or inputs),
            in graph order.
        dim_ptr: `[V + 1]` int32, dims of tensor v are `dim_ptr[v]:dim_ptr[v + 1]`.
        dim_class: `[D]` int32, class of each dim; -1 for one that can never be divided (size 1).
        blocked: `[K]` bool, classes that cannot be partitioned: an op needs them whole, or they
            are too small for the degree.
        conflicts: `[K, K]` bool, classes that cannot both be partitioned because they meet in one
            tensor or op. Symmetric; no class conflicts with itself (one that meets itself is
            blocked).
        size: `[K]` int64 extent, the smallest number of units that any member divides into.
        dim_bytes: `[D]` int64 bytes of the tensor the dim belongs to (for the largest-first order).
    """

    tensors: tuple[str, ...]
    dim_ptr: NDArray[np.int32]
    dim_class: NDArray[np.int32]
    blocked: NDArray[np.bool_]
    conflicts: NDArray[np.bool_]
    size: NDArray[np.int64]
    dim_bytes: NDArray[np.int64]

    @property
    def num_classes(self) -> int:
        """How many classes are decided about."""
        return len(self.blocked)

    def partitioned_dims(self, partitioned: NDArray[np.bool_]) -> dict[str, int]:
        """Of each tensor the dim that a decision divides, or -1 if it stays whole.

        Args:
            partitioned: `[K]` bool, feasible.
        """
        plan: dict[str, int] = {}
        divided = np.flatnonzero(partitioned)
        for tensor, name in enumerate(self.tensors):
            classes = self.dim_class[self.dim_ptr[tensor] : self.dim_ptr[tensor + 1]]
            cut = np.flatnonzero(np.isin(classes, divided))
            plan[name] = int(cut[0]) if len(cut) else -1
        return plan

    def decision_of(self, dims: Mapping[str, int]) -> NDArray[np.bool_]:
        """`[K]` bool, the decision that divides these dims of tensors; -1 for one that stays whole.

        The inverse of `partitioned_dims`.
        """
        found = np.zeros(self.num_classes, dtype=bool)
        for tensor, name in enumerate(self.tensors):
            if (dim := dims.get(name, -1)) >= 0:
                found[self.dim_class[self.dim_ptr[tensor] + dim]] = True
        return found

    def is_feasible(self, partitioned: NDArray[np.bool_]) -> bool:
        """Return whether no partitioned class is blocked or conflicts with another one."""
        meet = self.conflicts[np.ix_(partitioned, partitioned)]
        return not bool(np.any(partitioned & self.blocked) or np.any(meet))


@dataclass(frozen=True, eq=False)
class DecisionObjective:
    """A sum over partitioned classes, and over terms that count once; more is better.

    Two classes that add `w` together, besides their own, are a term of both that adds `-w`, and
    `w` more for each of them.

    Attributes:
        name: of the objective, for reports.
        linear: `[K]` float64, what each class adds.
        term_gain: `[T]` float64, what each term adds if any of its classes is partitioned.
        members: `[T, K]` bool, the classes of each term.

    Raises:
        ValueError: if the arrays do not fit each other.
    """

    name: str
    linear: NDArray[np.float64]
    term_gain: NDArray[np.float64]
    members: NDArray[np.bool_]

    def __post_init__(self) -> None:
        if self.members.shape != (len(self.term_gain), len(self.linear)):
            raise ValueError(f"members {self.members.shape} of {len(self.term_gain)} terms")

    def value(self, partitioned: NDArray[np.bool_]) -> float:
        """Value of a decision `[K]`."""
        paid = (self.members & partitioned).any(axis=1)
        return float(self.linear[partitioned].sum() + self.term_gain[paid].sum())


def count_objective(problem: DecisionProblem) -> DecisionObjective:
    """`paper-count`: tensors that have a partitioned dim (Wang et al. 2020, section 3.2).

    The paper's reward is 0.4 for each partitioned dim and 0.1 for each replicated one. It adds up
    to a tenth of all dims plus 0.3 for each partitioned dim, of which a tensor has at most one.
    """
    tensor = np.repeat(np.arange(len(problem.tensors)), np.diff(problem.dim_ptr))
    known = problem.dim_class >= 0
    pairs = np.unique(np.stack([tensor[known], problem.dim_class[known]]), axis=1)
    count = np.bincount(pairs[1], minlength=problem.num_classes)
    no_terms = np.zeros((0, problem.num_classes), dtype=bool)
    return DecisionObjective("paper-count", count.astype(np.float64), np.zeros(0), no_terms)


def components(linked: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """Connected parts of a graph, each in order, by first member.

    Args:
        linked: `[K, K]` bool, symmetric.
    """
    left = np.ones(len(linked), dtype=bool)
    parts: list[NDArray[np.int64]] = []
    for first in range(len(linked)):
        if not left[first]:
            continue
        part = np.zeros(len(linked), dtype=bool)
        part[first] = True
        front = part
        while front.any():
            front = linked[front].any(axis=0) & ~part
            part = part | front
        left &= ~part
        parts.append(np.flatnonzero(part))
    return parts


def opp_problem(
    model: ir.Model, degree: int, classes: DimensionClasses | None = None
) -> DecisionProblem:
    """Which dimensions of the trainable variables to divide over `degree` devices.

    Args:
        model: with shapes, as the importer gives it.
        degree: devices, at least 2.
        classes: those of the model, if they are known.
    """
    known = classes or dimension_classes(model, rules_of(model))
    groups = linkage_groups(known, trainable_variables(model))
    return _problem(known, groups, degree, np.zeros(len(groups.class_of_group), dtype=bool))


def adp_problem(
    model: ir.Model, degree: int, classes: DimensionClasses | None = None
) -> DecisionProblem:
    """Which dimensions of the graph's inputs are batch dimensions over `degree` devices.

    A class with a dimension of a trainable variable is blocked: dividing it would be operator
    partitioning (Auto-MAP's filter of constants and trainables).

    Args:
        model: with shapes, as the importer gives it.
        degree: devices, at least 2.
        classes: those of the model, if they are known.
    """
    known = classes or dimension_classes(model, rules_of(model))
    groups = linkage_groups(known, [v for v in model.graph.inputs if not v.is_initializer()])
    of_variables = linkage_groups(known, trainable_variables(model)).class_of_group
    return _problem(known, groups, degree, np.isin(groups.class_of_group, of_variables))


def _problem(
    classes: DimensionClasses, groups: Linkage, degree: int, filtered: np.ndarray
) -> DecisionProblem:
    if degree < 2:
        raise ValueError(f"degree={degree} divides nothing")
    chosen = groups.class_of_group
    size = classes.size[chosen]
    tensor_bytes = np.array([float_bytes(value) for value in groups.tensors], dtype=np.int64)
    return DecisionProblem(
        tensors=tuple(value.name or "" for value in groups.tensors),
        dim_ptr=groups.dim_ptr,
        dim_class=groups.group_of,
        blocked=(classes.block[chosen] != Block.NONE) | (size < degree) | filtered,
        conflicts=classes.conflicts(chosen),
        size=size,
        dim_bytes=np.repeat(tensor_bytes, np.diff(groups.dim_ptr)),
    )
