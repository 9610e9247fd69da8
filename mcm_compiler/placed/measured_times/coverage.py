"""Whether measured times speak of the step that is placed, and of how many of its ops."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from mcm_compiler.components.cost_choice import ChosenCosts
from mcm_compiler.components.cost_files import CostCoverage, measured_costs
from mcm_compiler.components.device_costs import TakesDeviceCosts
from mcm_compiler.contracts.boxes.box import BoxTarget, StepProblem
from mcm_compiler.contracts.cost import CostModel, ModelNames
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.source import SOURCE
from mcm_compiler.placed.measured_times.profile_tables import OpSeconds, foreign_profile
from mcm_compiler.placed.placed_model import runs_of
from mcm_compiler.text.units import percent_text


def measured_notes(
    target: BoxTarget, problem: StepProblem, model: ir.Model, times: Mapping[str, OpSeconds]
) -> list[Diagnostic]:
    """MCM-D079 for each kind of device with measured times: of how many ops they are.

    Args:
        target: the box, with its cost models.
        problem: the step, in this box.
        model: that the step was made from.
        times: of profiles, by kind.

    Raises:
        CompileError: MCM-C006 and MCM-C005 as `MeasuredCosts.name_faults`, MCM-D078 for a profile
            none of whose ops such devices run.
    """
    notes: list[Diagnostic] = []
    if not isinstance(target, TakesDeviceCosts):
        return notes
    ops = frozenset(node.name or "" for node in model.graph)
    source = SOURCE.find(model)
    given = source.original.graph if source is not None else ()
    names = ModelNames(ops, frozenset(node.name or "" for node in given) - ops, {})
    nodes = {node.name: node for node in model.graph}
    for k, kind in enumerate(target.box.kinds):
        costs = target.device_costs(kind)
        measured = measured_costs(costs)
        if measured is None:
            continue
        CompileError.raise_any(measured.name_faults(names))
        column = problem.time_s[:, k]
        run = np.flatnonzero(np.isfinite(column) & runs_of(problem)).tolist()
        asked = [(op, node) for op in run if (node := nodes.get(problem.names[op])) is not None]
        measured_ops = [op for op, node in asked if _measured_ops(costs, node)]
        known = len(measured_ops)
        if not known and kind in times:
            raise foreign_profile(kind, times[kind])
        others = int(((column > 0) & np.isfinite(column)).sum()) - known
        found = CostCoverage(
            len(run), known, float(column[run].sum()), float(column[measured_ops].sum())
        )
        usual = "a profile names every op where graph optimisations were off"
        notes.append(
            Diagnostic(
                "MCM-D079",
                f"{known:,} ops have times that were measured on {quote(kind)}, "
                f"{percent_text(found.share)} of its seconds; what is computed or takes no time "
                f"are {max(others, 0):,} others",
                at=f"cost model of {quote(kind)}",
                hint=found.hint
                or (usual if known else "no row is about an op that such devices run"),
                severity=found.severity,
            )
        )
    return notes


def _measured_ops(costs: CostModel, node: ir.Node) -> int:
    """Without asking again for what the times of the step came from."""
    if isinstance(costs, ChosenCosts):
        return costs.measured_ops(node)
    return costs.node_cost(node).measured_ops
