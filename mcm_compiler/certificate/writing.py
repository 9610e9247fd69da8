"""The certificate of a compile."""

from __future__ import annotations

from mcm_compiler.certificate.claims import Certificate, Claim, ClaimScope, Subject
from mcm_compiler.contracts.partition import Legalization, LowerBound, Partition, PartitionProblem
from mcm_compiler.contracts.proofs import DEFAULT_PROBLEM_MODEL
from mcm_compiler.contracts.replication import Replication


def certificate_of(
    problem: PartitionProblem,
    partition: Partition,
    legal: Legalization,
    replication: Replication,
    *,
    devices: int,
    pins: tuple[tuple[str, int], ...],
) -> Certificate:
    """What a compile that placed its ops can certify.

    Args:
        problem: of one pipeline.
        partition: its answer, with the bound.
        legal: what legalisation added.
        replication: pipelines side by side.
        devices: chips that the user gave for all pipelines.
        pins: the user's, as in `CompileOptions`.
    """
    return Certificate(
        problem=problem,
        placement=partition.chip_of,
        period_s=partition.period_s,
        problem_model=DEFAULT_PROBLEM_MODEL,
        cost_model=partition.cost_model,
        scope=ClaimScope(
            devices=devices,
            pipelines=replication.replicas,
            devices_each=problem.num_chips,
            any_number=replication.others is not None,
        ),
        claims=(
            _claim("pipeline", partition.bound),
            _claim("package", replication.bound(partition.bound)),
        ),
        pins=pins,
        copies=legal.clones,
        forwards=legal.relays,
        considered=replication.considered,
        learned=partition.learned,
        figures=partition.figures,
    )


def _claim(about: Subject, bound: LowerBound) -> Claim:
    return Claim(about, bound.seconds, bound.proof, bound.argument)
