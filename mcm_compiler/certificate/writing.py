"""The certificate of a compile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcm_compiler.certificate.claims import Certificate, Claim, Scope, Subject
from mcm_compiler.partition import LEGALIZATION, Legalization, LowerBound
from mcm_compiler.proofs import DEFAULT_PROBLEM_MODEL
from mcm_compiler.replication import Replication

if TYPE_CHECKING:
    from mcm_compiler.api import CompileResult


def certificate_of(result: CompileResult) -> Certificate | None:
    """What a compile can certify; None where nothing was placed."""
    problem, partition = result.problem, result.partition
    if problem is None or partition is None or result.chips is None:
        return None
    devices = result.options.chips or result.target.limits.num_chips
    replication = result.replication or Replication(1, problem.num_chips)
    legal = LEGALIZATION.find(result.model) or Legalization()
    return Certificate(
        problem=problem,
        placement=partition.chip_of,
        period_s=partition.period_s,
        problem_model=DEFAULT_PROBLEM_MODEL,
        cost_model=partition.cost_model,
        scope=Scope(
            devices=devices,
            pipelines=replication.replicas,
            devices_each=problem.num_chips,
            any_number=replication.others is not None,
        ),
        claims=(
            _claim("pipeline", partition.bound),
            _claim("package", replication.bound(partition.bound)),
        ),
        pins=result.options.pins,
        copies=legal.clones,
        forwards=legal.relays,
        considered=replication.considered,
        learned=partition.learned,
    )


def _claim(about: Subject, bound: LowerBound) -> Claim:
    return Claim(about, bound.seconds, bound.proof, bound.argument)
