"""What is asked of a placement besides validity: which figure is to be small, and within what.

`docs/explanation/objectives.md` defines every figure. A strategy searches for the least period
unless it says more of itself, see `MeetsObjectives`; what a strategy does not name it is not asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args, runtime_checkable

from mcm_compiler.text.units import rate_text, seconds_text

ObjectiveKind = Literal["period", "latency", "chips", "energy"]
"""What is to be small: seconds between inferences of the package, seconds until one inference is
answered by an empty package, chips that are used, or joules of an inference."""

KINDS: tuple[ObjectiveKind, ...] = get_args(ObjectiveKind)

Aim = Literal["period", "latency", "max-latency", "energy"]
"""What a strategy is asked for; `max-latency` is the least period among placements that answer
within a time. The fewest chips are found by strategies for the period."""

LIMIT_SLACK = 1e-9
"""Relative room of a limit, for sums taken in another order."""


@dataclass(frozen=True)
class Objective:
    """What is asked of a placement.

    Attributes:
        kind: what is to be small.
        max_latency_s: the latest that one inference may be answered; None for no limit.
        throughput_per_s: inferences per second that must be reached, for `chips`; else None.
    """

    kind: ObjectiveKind = "period"
    max_latency_s: float | None = None
    throughput_per_s: float | None = None

    @property
    def plain(self) -> bool:
        """Whether it is the period and nothing else."""
        return self == PERIOD

    @property
    def aim(self) -> Aim:
        """What strategies are asked for."""
        if self.max_latency_s is not None:
            return "max-latency"
        return "period" if self.kind == "chips" else self.kind

    @property
    def latency_limit_s(self) -> float:
        """The limit with its room; infinite where there is none."""
        limit_s = self.max_latency_s
        return float("inf") if limit_s is None else limit_s * (1.0 + LIMIT_SLACK)

    def __str__(self) -> str:
        if self.max_latency_s is not None:
            return f"the least period that answers within {seconds_text(self.max_latency_s)}"
        if self.throughput_per_s is not None:
            return f"the fewest chips for {rate_text(self.throughput_per_s)}"
        if self.kind == "energy":
            return "the least energy of an inference"
        return f"the least {self.kind}"


PERIOD = Objective()
"""The objective where nothing else is asked for."""


@dataclass(frozen=True)
class ShareBound:
    """What is proven of one number of equal pipelines.

    Attributes:
        replicas: pipelines side by side.
        chips_each: chips that each of them may use.
        value: of one of these pipelines no placement comes to less, in seconds, or joules of an
            inference.
        proof: name of the kind of argument; empty where there is none.
        argument: the argument in words.
    """

    replicas: int
    chips_each: int
    value: float
    proof: str
    argument: str


@dataclass(frozen=True)
class ObjectiveFigures:
    """What a placement comes to under an objective, and what is proven of all others.

    Attributes:
        objective: what was asked for.
        value: what was to be small, of the package: seconds per inference, seconds until one is
            answered, chips, or joules of an inference.
        bound: no placement comes to less, on no number of equal pipelines that could be chosen.
        latency_s: when one inference is answered by an empty package, under the cost model; None
            where nothing tells latencies on the family of machines.
        proven: for each number of pipelines, or of chips, what shows the bound.
    """

    objective: Objective
    value: float
    bound: float
    latency_s: float | None
    proven: tuple[ShareBound, ...] = ()

    @property
    def gap(self) -> float:
        """`value / bound - 1`: how far from the least it can be at most."""
        return self.value / self.bound - 1.0 if self.bound > 0.0 else float("inf")

    @property
    def weakest(self) -> ShareBound | None:
        """What sets the bound."""
        return min(self.proven, key=lambda one: one.value / one.replicas, default=None)


def objective_faults(kind: str, max_latency_s: float | None, throughput: float | None) -> list[str]:
    """Why options make no objective; empty where they make one."""
    faults: list[str] = []
    if kind not in KINDS:
        faults.append(f"objective is '{kind}', not {', '.join(KINDS[:-1])} or {KINDS[-1]}")
    if max_latency_s is not None and not 0 < max_latency_s < float("inf"):
        faults.append(f"max_latency_s is {max_latency_s}, not a positive number of seconds")
    if throughput is not None and not 0 < throughput < float("inf"):
        faults.append(f"throughput is {throughput}, not a positive number of inferences per second")
    if max_latency_s is not None and kind in KINDS and kind != "period":
        faults.append(
            f"max_latency_s is a limit on placements with the least period, and the objective is "
            f"'{kind}'"
        )
    if kind == "chips" and throughput is None:
        faults.append("the objective is 'chips', and no throughput says what they must reach")
    if throughput is not None and kind in KINDS and kind != "chips":
        faults.append(f"throughput is for the objective 'chips', and the objective is '{kind}'")
    return faults


@runtime_checkable
class MeetsObjectives(Protocol):
    """A strategy that can search for more than the least period.

    Where `Budget.objective` is no plain period, `evaluate` gives the figure that is to be small,
    infinite beyond a limit, `Budget.enough_s` is a bound on that figure, and the outcome's `bound`
    is one on it, too.
    """

    @property
    def aims(self) -> tuple[Aim, ...]:
        """What it can be asked for, with its options."""
        ...


def meets(strategy: Any, objective: Objective) -> bool:
    """Whether a strategy can search for an objective: all can for the period."""
    aim = objective.aim
    return aim == "period" or (isinstance(strategy, MeetsObjectives) and aim in strategy.aims)
