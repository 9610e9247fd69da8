"""Capabilities of a target besides its numbers, asked for in one place.

Lowering, simulation and evaluation in batches are protocols of their own in
`mcm_compiler.contracts.target`, so that a family may lack them. Who needs one asks here; where it
is missing, a diagnostic says which targets have it and what works without.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mcm_compiler.contracts.program import LoweredProgram, Simulator
from mcm_compiler.contracts.target import (
    ChipModel,
    EvaluatesBatches,
    Lowers,
    LowersMapped,
    Simulates,
    Target,
    Wire,
)
from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity, quote
from mcm_compiler.processes.interruption import ends_the_command
from mcm_compiler.registry import TARGETS

Capability = Literal["lowers", "simulates", "evaluates_batches"]
"""Capability that a target may need: the protocol of that name."""


@dataclass(frozen=True)
class _Lack:
    code: str
    protocol: Any
    message: str
    instead: str


_LACKS: dict[Capability, _Lack] = {
    "lowers": _Lack(
        "MCM-T020",
        (Lowers, LowersMapped),
        "lowers no models to programs",
        "`mcmc parallelize MODEL` plans for it, and `mcmc opt MODEL` with the passes up to "
        "partition places its ops",
    ),
    "simulates": _Lack(
        "MCM-T021",
        Simulates,
        "has no simulator",
        "`mcmc report FOLDER` shows the figures of the analytic model",
    ),
    "evaluates_batches": _Lack(
        "MCM-T022",
        EvaluatesBatches,
        "simulates no placements during a search",
        "`mcmc strategies` lists strategies that need the analytic model alone",
    ),
}


def lowering_of(target: Target) -> Lowers:
    """The target as one that lowers.

    Raises:
        CompileError: MCM-T020 if it does not.
    """
    if isinstance(target, Lowers):
        return target
    raise CompileError(lacking(target, "lowers"))


def simulator_of(target: Target) -> Simulator:
    """The simulator of the target.

    Raises:
        CompileError: MCM-T021 if it has none.
    """
    if isinstance(target, Simulates):
        return target.simulator()
    raise CompileError(lacking(target, "simulates"))


def batch_evaluation_of(target: Target) -> EvaluatesBatches | None:
    """The target as one that evaluates placements in batches; None if it does not."""
    return target if isinstance(target, EvaluatesBatches) else None


def required_batch_evaluation_of(target: Target) -> EvaluatesBatches:
    """The same for who cannot do without.

    Raises:
        CompileError: MCM-T022 if it does not.
    """
    found = batch_evaluation_of(target)
    if found is None:
        raise CompileError(lacking(target, "evaluates_batches"))
    return found


def lacking(
    target: Target,
    capability: Capability,
    *,
    needed_by: str = "",
    instead: str = "",
    severity: Severity = Severity.ERROR,
) -> Diagnostic:
    """MCM-T020 to MCM-T022: the target cannot do what is needed, and which ones can.

    Args:
        target: lacks it.
        capability: what is needed.
        needed_by: who needs it, such as `pass 'lower'`; empty where the place says so.
        instead: what works without; empty for what always does.
        severity: of the diagnostic.
    """
    lack = _LACKS[capability]
    able = ", ".join(targets_with(capability)) or "none that is installed"
    return Diagnostic(
        lack.code,
        f"target {quote(target.name)} {lack.message}"
        f"{f', which {needed_by} needs' if needed_by else ''}",
        at=f"target {quote(target.name)}",
        hint=f"{instead or lack.instead}; targets that can: {able}",
        severity=severity,
    )


def missing_of(target: Target) -> list[Capability]:
    """Capabilities that the target lacks."""
    return [name for name, lack in _LACKS.items() if not isinstance(target, lack.protocol)]


def targets_with(capability: Capability) -> list[str]:
    """Names of the registered targets that have a capability; one that does not load has none."""
    found: list[str] = []
    for registration in TARGETS.registrations():
        try:
            target = registration.load()()
        except BaseException as error:  # a plug-in's code may raise anything, and others are asked
            if ends_the_command(error):
                raise
            continue
        if isinstance(target, _LACKS[capability].protocol):
            found.append(registration.name)
    return found


def lowered(
    target: Target, chips: Sequence[ChipModel], wires: Sequence[Wire], mapped: Sequence[Any] | None
) -> LoweredProgram:
    """The program of the chips.

    Args:
        target: the package.
        chips: one model per used chip, ascending.
        wires: tensors between chips and the host.
        mapped: the mapping of each chip, where chips are fabrics.

    Raises:
        CompileError: MCM-T020 where the target does not lower, MCM-M021 for a fabric without a
            mapping.
    """
    if not isinstance(target, LowersMapped):
        return lowering_of(target).lower(chips, wires)
    known = {one.chip for one in mapped or ()}
    if missing := [chip.chip for chip in chips if chip.chip not in known]:
        raise CompileError.of(
            "MCM-M021",
            f"the chips of {quote(target.name)} are fabrics, and chip {missing[0]} is not mapped",
            at=f"chip {missing[0]}",
        )
    return target.lower_mapped(chips, wires, mapped or ())
