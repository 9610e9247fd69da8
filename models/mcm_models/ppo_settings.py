"""Settings of proximal policy optimisation; no JAX here, so that compiles can read recipes."""

from __future__ import annotations

from dataclasses import dataclass

from mcm_compiler.text.option_fields import above, at_least, checked


@dataclass(frozen=True)
@checked(
    epochs=at_least(1),
    minibatches=at_least(1),
    clip=above(0),
    max_gradient=above(0),
    learning_rate=at_least(0),
    entropy=at_least(0),
    node_scores=at_least(0),
)
class PpoSettings:
    """Settings of one update.

    Attributes:
        epochs: passes over the rollouts (MCM, section 5.1: 10).
        minibatches: parts that the rollouts are divided into (MCM, section 5.1: 4).
        learning_rate: of Adam (Kingma and Ba 2015); ours, the paper names none. At 0 nothing is
            updated, and the policy stays as it is.
        clip: largest change of a node's probability ratio that earns anything (Schulman et al.
            2017, Eq. 7, with its value).
        entropy: weight of the mean entropy of p; ours.
        max_gradient: norm that gradients are cut to; ours.
        node_scores: step of the scores that each node of the graph at hand has of its own, over
            that of a weight of the network; 0 for no such scores, as published.

    Raises:
        ValueError: if a number is out of range.
    """

    epochs: int = 10
    minibatches: int = 4
    learning_rate: float = 3e-4
    clip: float = 0.2
    entropy: float = 1e-3
    max_gradient: float = 1.0
    node_scores: float = 0.0
