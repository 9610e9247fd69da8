"""Objectives of placements: the figure to minimise, and limits on other figures.

`docs/explanation/objectives.md` defines every figure. A strategy minimises the period unless it
declares other objectives, see `MeetsObjectives`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args, runtime_checkable

from mcm_compiler.text.units import rate_text, seconds_text

ObjectiveKind = Literal["period", "latency", "chips", "energy"]
"""Figure to minimise: seconds between inferences of the package, seconds of one inference in an
empty package, used chips, or joules of an inference."""

KINDS: tuple[ObjectiveKind, ...] = get_args(ObjectiveKind)

Aim = Literal["period", "latency", "max-latency", "energy"]
"""Task of a strategy; `max-latency` is the least period among placements within a latency limit.
Strategies for the period find the fewest chips."""

LIMIT_SLACK = 1e-9
"""Relative tolerance of a limit, for sums in another order."""


@dataclass(frozen=True)
class Objective:
    """Objective of a placement.

    Attributes:
        kind: the figure to minimise.
        max_latency_s: limit on the seconds of one inference; None for no limit.
        throughput_per_s: required inferences per second, for `chips`; else None.
    """

    kind: ObjectiveKind = "period"
    max_latency_s: float | None = None
    throughput_per_s: float | None = None

    @property
    def plain(self) -> bool:
        """True for the period without a limit."""
        return self == PERIOD

    @property
    def aim(self) -> Aim:
        """Task of strategies."""
        if self.max_latency_s is not None:
            return "max-latency"
        return "period" if self.kind == "chips" else self.kind

    @property
    def latency_limit_s(self) -> float:
        """The limit with its tolerance; infinite if there is none."""
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
"""The default objective."""


@dataclass(frozen=True)
class ShareBound:
    """Lower bound of one number of equal replicas.

    Attributes:
        replicas: their number.
        chips_each: chips that each of them may use.
        value: lower bound of the figure of one replica, in seconds, or joules of an inference.
        proof: name of the kind of proof; empty if there is none.
        argument: the argument in words.
    """

    replicas: int
    chips_each: int
    value: float
    proof: str
    argument: str


@dataclass(frozen=True)
class ObjectiveFigures:
    """Figures of a placement under an objective, with a lower bound.

    Attributes:
        objective: the objective.
        value: the minimised figure of the package: seconds per inference, seconds of one
            inference, chips, or joules of an inference.
        bound: lower bound of `value`, for every possible number of equal replicas.
        latency_s: seconds of one inference in an empty package, under the cost model; None if the
            family of machines has no model of latencies.
        proven: the bound of each number of replicas, or of chips.
    """

    objective: Objective
    value: float
    bound: float
    latency_s: float | None
    proven: tuple[ShareBound, ...] = ()

    @property
    def gap(self) -> float:
        """`value / bound - 1`: largest distance from the optimum."""
        return self.value / self.bound - 1.0 if self.bound > 0.0 else float("inf")

    @property
    def weakest(self) -> ShareBound | None:
        """The entry of `proven` that sets the bound."""
        return min(self.proven, key=lambda one: one.value / one.replicas, default=None)


def objective_faults(kind: str, max_latency_s: float | None, throughput: float | None) -> list[str]:
    """Return the reasons why options make no objective; empty if they make one."""
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

    If `Budget.objective` is not the plain period, `evaluate` returns the figure to minimise,
    infinite beyond a limit. `Budget.enough_s` and the outcome's `bound` are bounds on that figure.
    """

    @property
    def aims(self) -> tuple[Aim, ...]:
        """Tasks that it supports with its options."""
        ...


def meets(strategy: Any, objective: Objective) -> bool:
    """Return whether a strategy can search for an objective: all can for the period."""
    aim = objective.aim
    return aim == "period" or (isinstance(strategy, MeetsObjectives) and aim in strategy.aims)
