"""The decisions of operator partitioning (OPP) and of data parallelism (ADP) about a model."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from mcm_passes.parallelism.classes.dimension_classes import (
    DimensionClasses,
    Linkage,
    dimension_classes,
    linkage_groups,
)
from mcm_passes.parallelism.classes.variables import float_bytes, trainable_variables
from mcm_passes.parallelism.decisions.decision_problem import DecisionProblem
from mcm_passes.parallelism.rules.graph_rules import rules_of
from mcm_passes.parallelism.rules.rule_templates import Block


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
