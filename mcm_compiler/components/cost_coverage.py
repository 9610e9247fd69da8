"""How much of a model was measured: ops, and the share of their seconds."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from mcm_compiler.components.cost_choice import ChosenCosts
from mcm_compiler.contracts.chips import kernels_of
from mcm_compiler.contracts.cost import CostModel, MeasuredCosts
from mcm_compiler.diagnostics import Severity
from mcm_compiler.graph.constants import placeable_nodes

ENOUGH = 0.5
"""Share of the seconds that is to be measured; below, users are warned."""

FEW_HINT = "period and bound hold for these times alone; measure the longest kernels first"


@dataclass(frozen=True)
class CostCoverage:
    """What measured times account for.

    Attributes:
        ops: ops that chips run.
        measured_ops: those of them whose time was measured, alone or with their kernel.
        seconds: of all kernels, one after another on one chip of speed 1.
        measured_s: the part of `seconds` that was measured.
    """

    ops: int
    measured_ops: int
    seconds: float
    measured_s: float

    @property
    def share(self) -> float:
        """Measured seconds as a share of all; 0 where nothing takes time."""
        return self.measured_s / self.seconds if self.seconds > 0 else 0.0

    @property
    def severity(self) -> Severity:
        """A warning where most of the seconds are computed ones."""
        return Severity.WARNING if self.share < ENOUGH else Severity.NOTE

    @property
    def hint(self) -> str | None:
        """What to do about a small share."""
        return FEW_HINT if self.measured_ops and self.share < ENOUGH else None


def measured_costs(model: CostModel) -> MeasuredCosts | None:
    """The model as one that was measured in part; None where all of it is computed."""
    if isinstance(model, ChosenCosts) and not model.measures:
        return None
    return model if isinstance(model, MeasuredCosts) else None


def coverage(model: CostModel, kernels: Iterable[Sequence[ir.Node]]) -> CostCoverage:
    """What `model` measured of kernels; each is one op, or ops that run as one."""
    ops = measured = 0
    seconds: list[float] = []
    measured_s: list[float] = []
    for nodes in kernels:
        cost = model.group_cost(nodes)
        ops += len(nodes)
        measured += cost.measured_ops
        seconds.append(cost.seconds)
        measured_s.append(cost.measured_s)
    return CostCoverage(ops, measured, math.fsum(seconds), math.fsum(measured_s))


def kernels_of_graphs(
    graphs: Iterable[ir.Graph], added: Collection[str]
) -> list[tuple[ir.Node, ...]]:
    """Kernels of the chips' graphs, without ops that were added so that a placement can run.

    Args:
        graphs: of all chips, in order; ops that run as one carry `mcm.group`.
        added: names of copies and of ops that only pass a tensor on.
    """
    return [
        tuple(nodes)
        for graph in graphs
        for nodes in kernels_of(n for n in placeable_nodes(graph) if (n.name or "") not in added)
    ]
