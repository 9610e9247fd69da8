"""What a certificate says: a problem, a placement, and bounds on what any placement can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mcm_compiler.contracts.objectives import ObjectiveFigures
from mcm_compiler.contracts.partition import Ints, LearnedGain, PartitionProblem
from mcm_compiler.contracts.replication import PipelineCount
from mcm_compiler.text.bounded_numbers import Amount, Count

Subject = Literal["pipeline", "package"]
"""What a bound is about: one of the pipelines, or all that the devices do per inference."""


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
    """

    devices: Count
    pipelines: Count
    devices_each: Count
    any_number: bool


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
        figures: what the placement comes to under an objective that is not the plain period, and
            what is claimed of that; else None.
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

    def claim(self, about: Subject) -> Claim | None:
        """The claim about a subject, where there is one."""
        return next((claim for claim in self.claims if claim.about == about), None)
