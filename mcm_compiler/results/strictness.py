"""Unproven results of a compile or a check, as data: the reasons for which `--strict` fails.

Each reason is one line. Whoever proves something new, or finds that something is open, adds a
function here that names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mcm_compiler.diagnostics import Diagnostic, Severity, quote
from mcm_compiler.text.units import count_text

if TYPE_CHECKING:
    from mcm_compiler.certificate.claims import Certificate
    from mcm_compiler.contracts.target import PackageLimits
    from mcm_compiler.contracts.verification import StructureProof, Verification

UNPROVEN_CODE = "MCM-U051"

UNPROVEN_EXIT = 3
"""Exit code where nothing is wrong, but something is not proven, and `--strict` is given."""

LOST_STATES = frozenset({"MCM-P051", "MCM-P052", "MCM-P081"})
"""Codes of the warnings that a state crosses the host's link."""

MAX_NAMED = 5
"""Outputs that a reason names."""


def reasons_of_verification(found: Verification | None) -> Iterator[str]:
    """Reasons that structure and the comparison in onnxruntime leave; None: nothing was run."""
    if found is None:
        yield "nothing was verified: the pipeline has no pass 'verify'"
        return
    yield from reasons_of_structure(found.structure)
    if found.skipped is not None:
        yield f"equality was not checked: {found.skipped}"
        return
    if found.stock_died:
        yield f"nothing was compared under stock session options: {found.stock_skipped}"
    if found.structure is not None and found.structure.whole:
        return  # what random numbers decide is the model's, op by op
    if not found.outputs:
        yield "equality was not checked: every output depends on random numbers"
    elif found.random_outputs:
        count = count_text(len(found.random_outputs), "output")
        yield f"{count} not compared, random numbers decide: {_named(found.random_outputs)}"


def reasons_of_structure(proof: StructureProof | None) -> Iterator[str]:
    """Ops and outputs that only runs vouch for; None where no proof by structure was tried."""
    if proof is None or proof.whole:
        return
    if proof.unproven:
        yield f"{len(proof.unproven)} of {count_text(proof.ops, 'op')} unproven by structure"
    if proof.outputs:
        count = count_text(len(proof.outputs), "output")
        yield f"{count} unproven by structure: {_named(proof.outputs)}"


def reasons_of_claims(certificate: Certificate | None, limits: PackageLimits) -> Iterator[str]:
    """Bounds of a certificate without a proof of their own; None where nothing was placed."""
    if certificate is None:
        return
    from mcm_compiler.certificate.bound_check import check_bound

    _, missing = check_bound(certificate, limits)
    if missing is not None:
        yield missing.message
    if certificate.figures is not None:
        from mcm_compiler.certificate.objective_check import check_objective

        _, missing = check_objective(certificate, certificate.figures, limits)
        if missing is not None:
            yield missing.message


def unproven(reasons: Iterable[str], at: str) -> tuple[Diagnostic, ...]:
    """MCM-U051 for each reason.

    Args:
        reasons: one line each.
        at: the model or the folder.
    """
    return tuple(Diagnostic(UNPROVEN_CODE, f"not proven: {reason}", at) for reason in reasons)


def refused_states(diagnostics: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """The same diagnostics, warnings of lost states as errors."""
    for one in diagnostics:
        lost = one.code in LOST_STATES and one.severity is Severity.WARNING
        yield replace(one, severity=Severity.ERROR) if lost else one


@dataclass(frozen=True)
class CheckStep:
    """One step of a check.

    Attributes:
        name: of the step.
        holds: whether it passed.
        skipped: whether it could not be done, though nothing is wrong with the folder.
        detail: what it found, or its first fault.
    """

    name: str
    holds: bool
    skipped: bool
    detail: str


def _named(outputs: Sequence[str]) -> str:
    more = ", ..." if len(outputs) > MAX_NAMED else ""
    return ", ".join(map(quote, outputs[:MAX_NAMED])) + more
