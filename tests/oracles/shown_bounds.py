"""Bounds on the period, re-proved by the checkers that `mcmc check` asks."""

from __future__ import annotations

from mcm_compiler.certificate.bound_check import MARGIN, all_proof_checkers, known_checker
from mcm_compiler.contracts.partition import LowerBound, PartitionProblem
from mcm_compiler.registry import PROOF_CHECKERS


def verify_bound(problem: PartitionProblem, bound: LowerBound) -> bool:
    """Whether a bound is shown; one without a kind of proof, by any checker.

    Args:
        problem: the placed units.
        bound: the claim; only its seconds and the name of its proof count.
    """
    if bound.seconds <= 0.0:
        return True
    named = known_checker(PROOF_CHECKERS, bound.proof)
    checkers = all_proof_checkers() if named is None else [named]
    period_s = bound.seconds * (1.0 - MARGIN)
    return any(checker.rules_out(problem, period_s) for checker in checkers)
