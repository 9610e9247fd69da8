"""Settings of deep Q-learning; no JAX here, so that compiles can read them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from mcm_compiler.text.option_ranges import above, at_least, checked, from_to

Returns = Literal["one-step", "monte-carlo"]
"""What the value of a step is learned from: its reward and the value of the next state, or all
rewards up to the end or the next exploratory action."""

AfterCut = Literal["bootstrap", "drop"]
"""What becomes of a Monte-Carlo return that an exploratory action cuts: the value of the state in
which that action was taken is added, or the step is not learned from."""


@dataclass(frozen=True)
@checked(
    batch=at_least(1),
    replay=at_least(1),
    sync_every=at_least(1),
    epsilon_iterations=at_least(1),
    lanes=at_least(1),
    updates=at_least(1),
    max_gradient=above(0),
    min_priority=above(0),
    final_rate=from_to(0, 1),
    gamma=from_to(0, 1),
    alpha=from_to(0, 1),
    beta=from_to(0, 1),
    first_epsilon=from_to(0, 1),
    last_epsilon=from_to(0, 1),
)
class DqnSettings:
    """How a Q-network learns. An iteration is one gradient step.

    The defaults are those of Auto-MAP (Wang et al. 2020, section 3.4) for operator partitioning;
    what the paper leaves open is marked ours.

    Attributes:
        learning_rate: of Adam (Kingma and Ba 2015); 0 for a control that learns nothing.
        final_rate: share of the learning rate that is left at the last iteration, which it falls
            to linearly; 1 for a constant one, as published.
        batch: transitions of a gradient step.
        gamma: discount of later rewards.
        replay: transitions that are remembered.
        alpha: power of priorities (Schaul et al. 2016).
        beta: power of the importance weights that correct for them.
        sync_every: iterations after which the target network becomes the online one.
        first_epsilon: share of random actions at the beginning.
        last_epsilon: the same from `epsilon_iterations` on.
        epsilon_iterations: iterations over which it falls, linearly.
        double: the online network chooses the action that the target network values (van Hasselt
            et al. 2016).
        returns: see `Returns`.
        after_cut: see `AfterCut`.
        lanes: environments that run side by side (ours).
        greedy_lanes: how many of them take no random actions (ours), so that what has been learned
            is seen each round; their steps are learned from, too.
        updates: iterations per round (ours); a round is one episode in each lane.
        max_gradient: norm that gradients are cut to (ours).
        min_priority: added to errors before the power is taken (ours).

    Raises:
        ValueError: if a number is out of range.
    """

    learning_rate: float = 5e-4
    final_rate: float = 1.0
    batch: int = 64
    gamma: float = 0.6
    replay: int = 2000
    alpha: float = 0.2
    beta: float = 0.6
    sync_every: int = 100
    first_epsilon: float = 1.0
    last_epsilon: float = 0.1
    epsilon_iterations: int = 2000
    double: bool = True
    returns: Returns = "one-step"
    after_cut: AfterCut = "bootstrap"
    lanes: int = 8
    greedy_lanes: int = 1
    updates: int = 16
    max_gradient: float = 10.0
    min_priority: float = 1e-3

    def __post_init__(self) -> None:
        if not self.learning_rate >= 0:
            raise ValueError(f"learning_rate is {self.learning_rate}, below 0")
        if not 0 <= self.greedy_lanes <= self.lanes:
            raise ValueError(f"{self.greedy_lanes} of {self.lanes} lanes cannot be greedy")

    def epsilon_at(self, iteration: int) -> float:
        """Share of random actions after some iterations."""
        share = min(iteration / self.epsilon_iterations, 1.0)
        return self.first_epsilon + share * (self.last_epsilon - self.first_epsilon)


PUBLISHED = {
    "opp": DqnSettings(),
    "adp": DqnSettings(epsilon_iterations=500),
    "pp": DqnSettings(learning_rate=1e-3, epsilon_iterations=10_000),
}
"""Auto-MAP's settings by search: operator partitioning, data parallelism, pipeline planning."""


def improved(settings: DqnSettings) -> DqnSettings:
    """The same with what measured better (ours).

    Undiscounted returns up to the next exploratory action instead of bootstrapped ones, and a
    learning rate that falls to a tenth.
    """
    return dataclasses.replace(
        settings, learning_rate=1e-3, final_rate=0.1, gamma=1.0, returns="monte-carlo"
    )
