"""A cost model: the target's own, corrected by factors that a file gives for each type of op."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler.components.cost_choice import CostBasis, CostModelMaker
from mcm_compiler.contracts.cost import CostModel, NodeCost, OpCosts
from mcm_compiler.diagnostics import CompileError, Diagnostic


@dataclass(frozen=True)
class CalibratedTimes:
    """Times of one chip.

    Attributes:
        own: the target's own model.
        factors: on its times, by the type of the op that a kernel spends most of its time on.
        name: printed with every number that comes from it.
    """

    own: CostModel
    factors: Mapping[str, float]
    name: str = "acme_calibrated"

    def node_cost(self, node: ir.Node) -> NodeCost:
        """Time of an op on its own."""
        cost = self.own.node_cost(node)
        return replace(cost, seconds=cost.seconds * self.factors.get(node.op_type, 1.0))

    def group_cost(self, nodes: Sequence[ir.Node]) -> NodeCost:
        """Time of ops that run as one kernel."""
        heaviest = max(nodes, key=lambda node: self.own.node_cost(node).flops)
        cost = self.own.group_cost(nodes)
        return replace(cost, seconds=cost.seconds * self.factors.get(heaviest.op_type, 1.0))


@dataclass(frozen=True)
class Calibrated(CostModelMaker):
    """Factors on the target's own times.

    Attributes:
        file: a JSON object with a factor for each type of op, such as `{"Conv": 1.2}`.
    """

    name: ClassVar[str] = "acme_calibrated"
    summary: ClassVar[str] = "the target's own times, corrected by type of op"
    files: ClassVar[tuple[str, ...]] = ("file",)

    file: str

    def make(self, basis: CostBasis) -> OpCosts:
        """The corrected model; search and simulator get the same factors.

        Raises:
            CompileError: ACME-010 if the file is no JSON object with positive numbers.
        """
        try:
            factors = {str(k): float(v) for k, v in json.loads(basis.files["file"]).items()}
        except (ValueError, TypeError, AttributeError) as error:
            raise _refused(
                basis.paths["file"], f"it is no JSON object of numbers: {error}"
            ) from None
        for op_type, factor in factors.items():
            if not 0 < factor < math.inf:
                raise _refused(basis.paths["file"], f"the factor of {op_type} is {factor}")
        return CalibratedTimes(basis.own, factors)


def _refused(path: str, reason: str) -> CompileError:
    return CompileError(Diagnostic("ACME-010", f"factors cannot be used: {reason}", at=path))
