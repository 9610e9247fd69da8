"""A target with a small fabric whose judge is a rule, for tests of what learns from judges."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.fabrics.fabric import Fabric, MappingProblem, Mappings, bound_cycles
from mcm_compiler.contracts.fabrics.measurement import Measurements
from mcm_compiler.contracts.fabrics.target import UnitChoice
from tests.generators.random_fabrics import drawn_problem
from tests.generators.small_fabric import small_fabric


class RuleJudge:
    """A mapping takes the longer, the farther its units lie from each other."""

    name = "rule"
    physics = "rule"

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def bound_cycles(self, problem: MappingProblem, fabric: Fabric) -> float:
        return bound_cycles(problem, fabric)

    def measure(self, problem: MappingProblem, fabric: Fabric, mappings: Mappings) -> Measurements:
        switch = fabric.switch[mappings.site]
        row, col = switch // fabric.cols, switch % fabric.cols
        spread = row.std(axis=1) + col.std(axis=1)
        period = bound_cycles(problem, fabric) * (1 + spread / 10) * self.factor
        return Measurements(period, 3 * period, np.zeros(len(mappings)))


class RuleTarget:
    """Every block becomes a problem that is drawn from the seed of the choice."""

    def __init__(self, factor: float = 1.0, lowering: str = "drawn") -> None:
        self.fabric = small_fabric(6, 8)
        self.lowering_hash = lowering
        self.factor = factor

    def mapping_problem(self, model: ir.Model, choice: UnitChoice) -> MappingProblem:
        return drawn_problem(choice.seed or 0, stages=2, widest=3)

    def mapping_judge(self, most_hops: int | None = None) -> RuleJudge:
        return RuleJudge(self.factor)

    def lower_mapped(self, *_: Any) -> Any:
        raise AssertionError("nothing is lowered here")
