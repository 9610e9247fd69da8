"""Makes a training step of a model with a loss."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler.diagnostics import Diagnostic
from mcm_compiler.graph.states import STATES, States
from mcm_compiler.pipeline.passes import AnyKey, Pass, PassContext
from mcm_compiler.text.units import count_text
from mcm_passes.differentiation.training_step import TrainingStepOptions, training_step
from mcm_passes.differentiation.variables import write_initial_values


@dataclass(frozen=True)
class Differentiate(Pass, TrainingStepOptions):
    """Adds the backward pass, clipping and the update of weights to a model with a loss.

    Attributes:
        initial: file to write the values of the first step to, `.npz` by input; empty for none.

    Raises:
        ValueError: for options out of range.
    """

    name: ClassVar[str] = "differentiate"
    summary: ClassVar[str] = "make a training step: gradients, clipping and SGD or Adam"
    looks_at_target: ClassVar[bool] = False
    provides: ClassVar[tuple[AnyKey, ...]] = (STATES,)

    initial: str = ""

    def run(self, model: ir.Model, context: PassContext) -> bool:
        """See the class, and `training_step`.

        Raises:
            CompileError: MCM-D030 to MCM-D036.
        """
        step = training_step(model, self)
        STATES.set(model, States(step.states))
        if self.initial:
            write_initial_values(step.initial_values, Path(self.initial))
        ops = (step.forward_ops, step.backward_ops, step.update_ops)
        forward, backward, update = (count_text(count, "op") for count in ops)
        context.report(
            Diagnostic(
                "MCM-D038",
                f"{count_text(len(step.states), 'state')} are trained or kept by the optimiser; "
                f"{forward} forward, {backward} backward, {update} of clipping and update",
                at=f"loss '{step.loss}'",
            )
        )
        return True
