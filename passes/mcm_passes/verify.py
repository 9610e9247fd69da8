"""The pass `verify`: the emitted chips against the source model in onnxruntime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler.artifact.equality import differences, verify_folder
from mcm_compiler.chips import CHIP_MODELS, WIRES
from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity, quote
from mcm_compiler.ir.limits import check_run_size
from mcm_compiler.ir.random_ops import random_outputs
from mcm_compiler.ir.source import SOURCE
from mcm_compiler.passes import AnyKey, Pass, PassContext
from mcm_compiler.units import count_text
from mcm_compiler.verification import EMITTED, VERIFICATION

MAX_NAMED = 5
"""Random ops that a diagnostic names."""


@dataclass(frozen=True)
class Verify(Pass):
    """Compares the chain of chips with the source model on seeded random inputs."""

    name: ClassVar[str] = "verify"
    summary: ClassVar[str] = "prove the chips equal to the model in onnxruntime"
    requires: ClassVar[tuple[AnyKey, ...]] = (SOURCE, CHIP_MODELS, WIRES, EMITTED)
    provides: ClassVar[tuple[AnyKey, ...]] = (VERIFICATION,)

    def run(self, model: ir.Model, context: PassContext) -> None:
        """Sets `VERIFICATION`.

        Raises:
            CompileError: MCM-V020, one diagnostic per graph output that differs; MCM-V004 if
                the runs would take too much memory.
        """
        options = context.options
        if not SOURCE.get(model).shape_only:
            check_run_size(SOURCE.get(model).original, options.verify_seeds)
        verification = verify_folder(
            context.staging.path,
            [chip.chip for chip in CHIP_MODELS.get(model)],
            WIRES.get(model),
            range(options.seed, options.seed + options.verify_seeds),
            SOURCE.get(model).shape_only,
        )
        faults = differences(
            verification, hint="this is a fault of the compiler; please report the model"
        )
        if faults:
            raise CompileError(faults)
        source = SOURCE.get(model)
        if verification.skipped is not None:
            context.report(
                Diagnostic(
                    "MCM-V021",
                    f"equality was not checked: {verification.skipped}",
                    hint=None
                    if source.shape_only
                    else "check with your own data: mcmc check FOLDER --input x.npz",
                    severity=Severity.NOTE if source.shape_only else Severity.WARNING,
                )
            )
        if verification.random_outputs:
            _, nodes = random_outputs(source.original)
            named = ", ".join(f"{quote(n.name or '')} ({n.op_type})" for n in nodes[:MAX_NAMED])
            context.report(
                Diagnostic(
                    "MCM-V023",
                    f"{count_text(len(verification.random_outputs), 'output')} cannot be compared, "
                    "because they differ in every run",
                    at=f"random ops: {named}{', ...' if len(nodes) > MAX_NAMED else ''}",
                    hint="give the ops a seed, or export the model in inference mode",
                    severity=Severity.NOTE,
                )
            )
        VERIFICATION.set(model, verification)
