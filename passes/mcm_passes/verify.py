"""The pass `verify`: the emitted chips against the source model in onnxruntime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler.artifact.equality import verify_folder
from mcm_compiler.chips import CHIP_MODELS, WIRES
from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity, quote
from mcm_compiler.ir.source import SOURCE
from mcm_compiler.passes import AnyKey, Pass, PassContext
from mcm_compiler.verification import EMITTED, VERIFICATION


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
            CompileError: MCM-V020, one diagnostic per graph output that differs.
        """
        options = context.options
        verification = verify_folder(
            context.staging.path,
            [chip.chip for chip in CHIP_MODELS.get(model)],
            WIRES.get(model),
            range(options.seed, options.seed + options.verify_seeds),
            SOURCE.get(model).shape_only,
        )
        different = [o for o in verification.outputs if not o.holds]
        if different:
            raise CompileError(
                [
                    Diagnostic(
                        "MCM-V020",
                        f"the chips' result differs by up to {o.max_abs_error:g}, "
                        f"{o.tolerance:g} is allowed",
                        at=f"output {quote(o.output)}",
                        hint="this is a fault of the compiler; please report the model",
                    )
                    for o in different
                ]
            )
        if verification.skipped is not None:
            context.report(
                Diagnostic(
                    "MCM-V021",
                    f"equality was not checked: {verification.skipped}",
                    severity=Severity.NOTE,
                )
            )
        VERIFICATION.set(model, verification)
