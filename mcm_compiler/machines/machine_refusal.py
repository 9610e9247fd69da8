"""What is wrong with a machine that a plug-in made, as diagnostics."""

from __future__ import annotations

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.machines.machine import MachineError


def refusal(error: MachineError, target: str) -> CompileError:
    """The refusal of a target whose machine cannot be.

    Args:
        error: what is wrong.
        target: its name.

    Returns:
        MCM-T014 where routes wait for each other in a circle, MCM-T015 for each other fault.
    """
    if error.circular:
        code = "MCM-T014"
        hint = (
            "set virtual_channels = 2 in the table [topology], or let routes take channels in one "
            "order, such as first along rows and then along columns"
        )
    else:
        code = "MCM-T015"
        hint = "ask whoever wrote the family of the target; its machine is at fault"
    return CompileError(
        [Diagnostic(code, fault, at=f"target {quote(target)}", hint=hint) for fault in error.faults]
    )
