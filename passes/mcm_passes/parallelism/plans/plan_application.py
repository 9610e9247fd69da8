"""From a plan to classes and back: what of a model a plan divides, checked."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from mcm_compiler.contracts.sharding.parallel_plan import REPLICATED, ParallelPlan
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.source import SOURCE
from mcm_compiler.ir.shapes.inference import infer_shapes
from mcm_passes.parallelism.classes.dimension_classes import DimensionClasses, dimension_classes
from mcm_passes.parallelism.classes.provenance import render, why, why_conflict
from mcm_passes.parallelism.rules.graph_rules import rules_of
from mcm_passes.rewriting.simplification.constant_folding import fold_constants, fold_static_shapes
from mcm_passes.rewriting.simplification.dead_code import remove_dead_code

MOST_NAMED = 20
"""Faults that are told at most."""


def planned_classes(
    model: ir.Model, plan: ParallelPlan, source: str | None = None
) -> tuple[DimensionClasses, NDArray[np.bool_]]:
    """The dimension classes of a model, and which of them a plan divides over `operator` devices.

    Args:
        model: that the plan is for; see `check_plan`.
        plan: what to divide.
        source: where the plan comes from, for messages.

    Raises:
        CompileError: MCM-S061 for a dimension that cannot be divided, MCM-S062 for two that cannot
            be divided both.
    """
    classes = dimension_classes(model, rules_of(model))
    found = np.zeros(len(classes.size), dtype=bool)
    if plan.degrees.operator < 2:
        return classes, found
    by: dict[int, tuple[str, int]] = {}
    faults: list[Diagnostic] = []
    for name, dim in plan.variables.items():
        if dim == REPLICATED:
            continue
        of = int(classes.of(classes.value_by_name[name])[dim])
        if of < 0 or classes.block[of] or classes.size[of] < plan.degrees.operator:
            reason = _obstacle(classes, name, dim, of, plan.degrees.operator)
            message = f"dim {dim} of {quote(name)} cannot be divided: {reason}"
            faults.append(Diagnostic("MCM-S061", message, at=source))
        else:
            found[of] = True
            by.setdefault(of, (name, dim))
    faults += _conflicts(classes, by, source)
    if faults:
        raise CompileError(faults[:MOST_NAMED])
    return classes, found


def _obstacle(classes: DimensionClasses, name: str, dim: int, of: int, degree: int) -> str:
    if of < 0:
        return "its extent is 1"
    if classes.block[of]:
        return render(why(classes, name, dim))
    return f"it has {classes.size[of]} units for {degree} devices"


def _conflicts(
    classes: DimensionClasses, by: dict[int, tuple[str, int]], source: str | None
) -> list[Diagnostic]:
    """Dimensions that meet in an op, so that not both can be divided."""
    chosen = np.array(list(by), dtype=np.int32)
    meet = classes.conflicts(chosen)
    faults: list[Diagnostic] = []
    for i, j in combinations(range(len(chosen)), 2):
        if not meet[i, j]:
            continue
        one, other = by[int(chosen[i])], by[int(chosen[j])]
        way = render(why_conflict(classes, one, other))
        message = (
            f"dim {one[1]} of {quote(one[0])} and dim {other[1]} of {quote(other[0])} cannot both "
            f"be divided: {way}"
        )
        faults.append(Diagnostic("MCM-S062", message, at=source))
        if len(faults) == MOST_NAMED:
            break
    return faults


MAX_BYTES = 4096
"""Of constants that are computed: shapes and the like, and no weights worth dividing."""

MAX_ROUNDS = 8


def make_plannable(model: ir.Model) -> None:
    """Folds what exporters compute about shapes, in place; weights are not merged or changed.

    Without that, an op that asks for a shape would need its operand whole.
    """
    if not any(node.op_type in {"Shape", "Size"} for node in model.graph):
        return
    source = SOURCE.find(model)
    shape_only = source is not None and source.shape_only
    for _ in range(MAX_ROUNDS):
        changes = fold_static_shapes(model.graph)
        changes += fold_constants(model, MAX_BYTES, keep_placeholders=shape_only)
        changes += remove_dead_code(model.graph)
        if not changes:
            break
    infer_shapes(model)
