"""Content of a certificate: a problem, a placement, and bounds on any placement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from mcm_compiler.certificate.stored_problem import SCHEMA_VERSION
from mcm_compiler.contracts.objectives import ObjectiveFigures
from mcm_compiler.contracts.partition import (
    Ints,
    LearnedGain,
    Legalization,
    LowerBound,
    Partition,
    PartitionProblem,
)
from mcm_compiler.contracts.proofs import DEFAULT_PROBLEM_MODEL
from mcm_compiler.contracts.replication import PipelineCount, Replication
from mcm_compiler.contracts.sharding.divisions import DivisionBound
from mcm_compiler.machines.choices import MOST_CLASSES
from mcm_compiler.text.json_text import Amount, Count

Subject = Literal["pipeline", "package"]
"""Subject of a bound: one of the pipelines, or all that the devices do per inference."""


@dataclass(frozen=True)
class Claim:
    """A lower bound that a certificate claims.

    Attributes:
        about: see `Subject`.
        seconds: no valid placement takes less per inference.
        proof: kind of argument; empty where there is none.
        argument: the argument in words.
    """

    about: Subject
    seconds: Amount
    proof: str
    argument: str


@dataclass(frozen=True)
class ClaimScope:
    """Over what a claim about the package ranges.

    Attributes:
        devices: of the package, as many as may be used.
        pipelines: equal pipelines side by side.
        devices_each: that each of them may use.
        any_number: whether the bound holds for all numbers of pipelines, and not only for
            `pipelines`.
        round: inferences that each pipeline computes together.
    """

    devices: Count
    pipelines: Count
    devices_each: Count
    any_number: bool
    round: Annotated[int, Meta(ge=1, le=MOST_CLASSES)] = 1


@dataclass(frozen=True, eq=False)
class Certificate:
    """Problem, answer and proof of one compile.

    Attributes:
        problem: of one pipeline.
        placement: `[N]`, device of each unit; of a copyable one the first that holds a copy.
        period_s: of one pipeline under `problem_model`.
        problem_model: name of the model that says what a placement costs.
        cost_model: name of the model that the seconds of units come from.
        scope: see `ClaimScope`.
        claims: at most one about each subject.
        pins: names or patterns and devices that the user wanted.
        copies: `(original node, copy, device)`.
        forwards: `(tensor, node that passes it on, device)`.
        considered: other numbers of pipelines that were looked at, the chosen one included.
        learned: what learned search added to classical search.
        figures: value of the placement under an objective that is not the plain period, and
            what is claimed of that; else None.
        divisions: what is claimed of every division of the kernels; None where nothing is.
        schema_version: of the file that it was read from.
    """

    problem: PartitionProblem
    placement: Ints
    period_s: float
    problem_model: str
    cost_model: str
    scope: ClaimScope
    claims: tuple[Claim, ...]
    pins: tuple[tuple[str, int], ...] = ()
    copies: tuple[tuple[str, str, int], ...] = ()
    forwards: tuple[tuple[str, str, int], ...] = ()
    considered: tuple[PipelineCount, ...] = ()
    learned: LearnedGain | None = None
    figures: ObjectiveFigures | None = None
    divisions: DivisionBound | None = None
    schema_version: int = SCHEMA_VERSION

    def claim(self, about: Subject) -> Claim | None:
        """The claim about a subject, where there is one."""
        return next((claim for claim in self.claims if claim.about == about), None)


def certificate_of(
    problem: PartitionProblem,
    partition: Partition,
    legal: Legalization,
    replication: Replication,
    *,
    cost_model: str,
    devices: int,
    pins: tuple[tuple[str, int], ...],
    divisions: DivisionBound | None = None,
) -> Certificate:
    """Certify a compile that placed its ops, as far as it can be.

    Args:
        problem: of one pipeline.
        partition: its answer, with the bound.
        legal: what legalisation added.
        replication: pipelines side by side.
        cost_model: name of the model that periods and bounds come from.
        devices: chips that the user gave for all pipelines.
        pins: the user's, as in `CompileOptions`.
        divisions: the bound over all divisions, where there is one.
    """
    return Certificate(
        problem=problem,
        placement=partition.chip_of,
        period_s=partition.period_s,
        problem_model=DEFAULT_PROBLEM_MODEL,
        cost_model=cost_model,
        scope=ClaimScope(
            devices=devices,
            pipelines=replication.replicas,
            devices_each=problem.num_chips,
            any_number=replication.others is not None,
            round=replication.round,
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
        divisions=divisions,
    )


def _claim(about: Subject, bound: LowerBound) -> Claim:
    return Claim(about, bound.seconds, bound.proof, bound.argument)
