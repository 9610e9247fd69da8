"""A planner: the largest matrices of weights are divided, and nothing else.

It runs as it is with `--plugin largest.py --planner acme_largest`, or installed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler import CompileError, Diagnostic, register
from mcm_compiler.contracts.planning import PlanAnswer, Planner, PlanRequest, planner_of
from mcm_compiler.contracts.sharding.parallel_plan import Degrees, ParallelPlan, model_digest


@register("planner")
@dataclass(frozen=True)
class Largest:
    """Divides the largest matrices along one dimension, over as many devices as are asked for.

    Attributes:
        count: matrices that are divided, at least 1.
        dim: the dimension, 0 or 1.
        devices: over which they are divided where `--operator` says nothing.
    """

    name: ClassVar[str] = "acme_largest"
    summary: ClassVar[str] = "divides the largest matrices, and nothing else"

    count: int = 1
    dim: int = 1
    devices: int = 2

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"count is {self.count}, not at least 1")
        if self.dim not in (0, 1):
            raise ValueError(f"dim is {self.dim}, not 0 or 1")

    def prepare(self, model: ir.Model) -> None:
        """As the planner of the compiler, whose plans speak of the same tensors."""
        _auto_map().prepare(model)

    def plan(self, request: PlanRequest) -> PlanAnswer:
        """The plan; nothing is searched.

        Raises:
            CompileError: ACME-003 for training.
        """
        model, options = request.model, request.options
        if options.training:
            raise CompileError(Diagnostic("ACME-003", "acme_largest plans no training"))
        request.progress("sizes of matrices")
        weights = model.graph.initializers.values()
        matrices = [w for w in weights if w.shape is not None and len(w.shape) == 2]
        matrices.sort(key=lambda w: (-int(w.shape.numpy()[0] * w.shape.numpy()[1]), w.name))
        divided = {w.name: self.dim for w in matrices[: self.count]}
        degrees = Degrees(options.data or 1, options.operator or self.devices, 1)
        plan = ParallelPlan(
            request.name, model_digest(model), request.target.name, options.objective,
            degrees=degrees, variables=divided,
        )  # fmt: skip
        return PlanAnswer(plan, "the largest matrices", 1)

    def why(
        self, model: ir.Model, tensor: str, dim: int, degree: int, plan: ParallelPlan | None
    ) -> str:
        """What forces or forbids a division is no matter of who plans."""
        return _auto_map().why(model, tensor, dim, degree, plan)

    def annotated(self, model: ir.Model, plan: ParallelPlan) -> ir.Model:
        """As the planner of the compiler."""
        return _auto_map().annotated(model, plan)

    def sharded(self, model: ir.Model, plan: ParallelPlan) -> ir.Model:
        """As the planner of the compiler."""
        return _auto_map().sharded(model, plan)


def _auto_map() -> Planner:
    return planner_of("auto-map")
