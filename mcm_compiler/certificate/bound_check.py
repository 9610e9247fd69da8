"""Check whether the bounds that a certificate claims hold: their proofs, followed once more."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mcm_compiler.certificate.claims import Certificate, Claim
from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.contracts.target import PackageLimits
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.machines.machine_builder import equal_shares
from mcm_compiler.registry import PROOF_CHECKERS, Registry
from mcm_compiler.text.units import count_text, seconds_text

MARGIN = 1e-8
"""Relative space between a claim and what is checked, for sums taken in another order."""

LINEAR, QUADRATIC = 0, 1
"""Effort of a checker: what is tried on every number of replicas is at most quadratic."""


def check_bound(certificate: Certificate, limits: PackageLimits) -> tuple[str, Diagnostic | None]:
    """Proves the bounds of a certificate again.

    Args:
        certificate: its problem has to be that of the models, which `check_certificate` proves.
        limits: of the package.

    Returns:
        A summary, and MCM-V072 where something could not be re-proved.

    Raises:
        CompileError: MCM-V071 for a bound that does not hold or that its proof does not show,
            MCM-X007 for a checker that fails.
    """
    _check_claims(certificate)
    pipeline = certificate.claim("pipeline")
    package = certificate.claim("package")
    if pipeline is None or package is None:
        return "no bound is claimed", None
    reasons = [_about_pipeline(certificate.problem, pipeline)]
    reasons += _about_considered(certificate, limits)
    if certificate.scope.any_number:
        reasons += _about_other_numbers(certificate, package, limits)
    missing = [reason for reason in reasons if reason]
    if not missing:
        met = certificate.period_s / certificate.scope.pipelines == package.seconds
        optimal = ", which the placement meets" if met else ""
        return f"{seconds_text(package.seconds)} re-proved ({package.proof}){optimal}", None
    warning = not_re_proved(missing[0], f"the bound of {seconds_text(package.seconds)}")
    return warning.message, warning


def not_re_proved(
    reason: str,
    what: str = "the bound",
    hint: str | None = None,
    at: str = "claims in certificate.json",
) -> Diagnostic:
    """MCM-V072: nothing contradicts a bound, and nothing shows it.

    Args:
        reason: why.
        what: the bound in words.
        hint: what to do about it.
        at: place of the claim.
    """
    return Diagnostic("MCM-V072", f"{what} is not re-proved: {reason}", at=at, hint=hint)


def _check_claims(certificate: Certificate) -> None:
    """Check that the claims do not contradict each other."""
    scope = certificate.scope
    pipeline, package = certificate.claim("pipeline"), certificate.claim("package")
    if (pipeline is None) != (package is None):
        raise _not_shown("it claims a bound of the package or of a pipeline alone")
    if pipeline is None or package is None:
        return
    if pipeline.seconds > certificate.period_s:
        raise _not_shown(
            f"no pipeline is said to be faster than {pipeline.seconds!r} s, and its placement "
            f"takes {certificate.period_s!r} s"
        )
    own_s = pipeline.seconds / (scope.pipelines * scope.round)
    if package.seconds > own_s or (package.seconds < own_s and not scope.any_number):
        raise _not_shown(
            f"{scope.pipelines} pipelines of at least {pipeline.seconds!r} s each are said to take "
            f"at least {package.seconds!r} s together"
        )
    if package.seconds == own_s and package.proof != pipeline.proof and not scope.any_number:
        raise _not_shown("its two claims name different proofs of the same bound")


def _about_pipeline(problem: PartitionProblem, claim: Claim) -> str:
    """Why the bound of a pipeline is not re-proved; empty where it is."""
    if claim.seconds <= 0.0:
        return ""
    checker = known_checker(PROOF_CHECKERS, claim.proof)
    if checker is None:
        return f"no checker for proofs of the kind {quote(claim.proof)} is installed"
    shown = checker.rules_out(problem, claim.seconds * (1.0 - MARGIN))
    if shown is not None and not shown:
        raise _not_shown(
            f"its proof {quote(claim.proof)} does not rule out a pipeline faster than "
            f"{claim.seconds!r} s"
        )
    return "" if shown else checker.undecided


def _about_considered(certificate: Certificate, limits: PackageLimits) -> list[str]:
    """Why the bounds of numbers of pipelines that were looked at are not re-proved."""
    reasons: list[str] = []
    for one in certificate.considered:
        if one.bound is None:
            continue
        claim = Claim("pipeline", one.bound.seconds, one.bound.proof, one.bound.argument)
        problem = on_share(certificate.problem, limits, one.replicas, one.chips_each)
        if reason := _about_pipeline(problem, claim):
            reasons.append(f"for {share_text(one.replicas, one.chips_each)}, {reason}")
    return reasons


def _about_other_numbers(
    certificate: Certificate, package: Claim, limits: PackageLimits
) -> list[str]:
    """Why the bound is not re-proved for some other number of replicas."""
    if package.seconds <= 0.0:
        return []
    scope = certificate.scope
    first = known_checker(PROOF_CHECKERS, package.proof)
    others = [checker for checker in all_proof_checkers() if checker.effort <= QUADRATIC]
    others.sort(key=lambda checker: checker.effort)
    linear = [c for c in others if c.effort == LINEAR]
    tried = [*linear, *([first] if first is not None else []), *others]
    reasons: list[str] = []
    for count, each in equal_shares(scope.devices, certificate.problem.machine):
        if count == scope.pipelines:
            continue
        problem = on_share(certificate.problem, limits, count, each)
        period_s = package.seconds * count * scope.round * (1.0 - MARGIN)
        verdicts: list[tuple[bool | None, NamedChecker]] = []
        for checker in dict.fromkeys(tried):
            verdicts.append((checker.rules_out(problem, period_s), checker))
            if verdicts[-1][0]:
                break
        else:
            words = share_text(count, each)
            undecided = next((c.undecided for shown, c in verdicts if shown is None), None)
            if undecided is None:
                raise _not_shown(
                    f"no argument rules out that {words} take less than {package.seconds!r} s"
                )
            reasons.append(f"for {words}, {undecided}")
    return reasons


def on_share(
    problem: PartitionProblem, limits: PackageLimits, pipelines: int, devices_each: int
) -> PartitionProblem:
    """The problem of one of equal pipelines on a package with these limits."""
    return dataclasses.replace(problem, limits=limits.first(devices_each, pipelines))


def share_text(pipelines: int, devices_each: int) -> str:
    """Equal pipelines in words."""
    return f"{count_text(pipelines, 'pipeline')} of {count_text(devices_each, 'device')}"


def _not_shown(what: str) -> CompileError:
    return CompileError.of(
        "MCM-V071",
        f"the bound does not hold as it is claimed: {what}",
        at="claims in certificate.json",
    )


@dataclass(frozen=True)
class NamedChecker:
    """A registered `ProofChecker` or `ObjectiveChecker`.

    Attributes:
        registry: that knows it.
        name: of the kind of proof.
        checker: the component, of which nothing is known.
    """

    registry: Registry[Any] = field(compare=False)
    name: str
    checker: Any = field(compare=False)

    @property
    def undecided(self) -> str:
        """Why `rules_out` may say nothing; MCM-X007 for what fails."""
        with self.registry.at_work(self.name):
            return str(self.checker.undecided)

    @property
    def effort(self) -> int:
        """As `ProofChecker.effort`; MCM-X007 for what fails or is no number."""
        with self.registry.at_work(self.name):
            return int(self.checker.effort)

    def rules_out(self, *question: Any) -> bool | None:
        """The checker's verdict.

        Raises:
            CompileError: MCM-X007 where it fails, or answers otherwise than by yes, no and nothing:
                whatever else Python takes for true would be a proof.
        """
        with self.registry.at_work(self.name):
            shown = self.checker.rules_out(*question)
            if shown is None or isinstance(shown, bool | np.bool_):
                return None if shown is None else bool(shown)
            raise TypeError(f"it answers with a {type(shown).__name__}, not with True or False")


def known_checker(registry: Registry[Any], name: str) -> NamedChecker | None:
    """The checker of a kind of proof; None where there is none.

    Raises:
        CompileError: MCM-X003 for one that cannot be imported.
    """
    return NamedChecker(registry, name, registry.get(name)) if name in registry else None


def all_proof_checkers() -> list[NamedChecker]:
    """All checkers of bounds on the period, by name.

    Raises:
        CompileError: MCM-X003 for one that cannot be imported.
    """
    names = [registration.name for registration in PROOF_CHECKERS.registrations()]
    return [NamedChecker(PROOF_CHECKERS, name, PROOF_CHECKERS.get(name)) for name in names]
