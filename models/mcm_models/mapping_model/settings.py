"""How the network learns."""

from __future__ import annotations

from dataclasses import dataclass

from mcm_compiler.text.option_ranges import above, at_least, checked


@dataclass(frozen=True)
@checked(
    epochs=at_least(1),
    learning_rate=above(0),
    ranking=at_least(0),
    latency=at_least(0),
    decay=at_least(0),
    graphs=at_least(1),
    mappings=at_least(2),
    buckets=at_least(1),
)
class LearningSettings:
    """Options of a training.

    Attributes:
        epochs: looks at every graph.
        learning_rate: of Adam at the begin; it falls to a hundredth.
        ranking: weight of the order within a graph, beside the error.
        latency: weight of the error of latencies.
        decay: of weights, by AdamW.
        graphs: of a batch.
        mappings: of each graph in a batch.
        buckets: shapes that graphs are padded to, at most.
    """

    epochs: int = 100
    learning_rate: float = 3e-3
    ranking: float = 1.0
    latency: float = 0.2
    decay: float = 0.1
    graphs: int = 8
    mappings: int = 6
    buckets: int = 3
