"""Shapes of the mapping model's weights, how it learns, and its checkpoints."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mcm_compiler.contracts.fabrics.fabric import OP_KINDS
from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.text.option_fields import above, at_least, checked, from_to
from mcm_models.cards import CheckpointCard, CheckpointKind, normal_weights
from mcm_models.mapping_model.data_set import Learned


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


Singles = npt.NDArray[np.float32]
Weights = dict[str, Singles]
"""Weights by name."""

FEATURES_VERSION = 1
"""Rises when a column changes its meaning."""

UNIT_COLUMNS = (
    "work",
    "flits that come in",
    "flits that leave",
    "work, bursts or port, whichever is longest",
    "logarithm of firings, over 8",
    "logarithm of one and the cycles of a firing, over 8",
    "share of the firings in a burst",
    "one over the samples that it holds",
    "share of a memory unit's bytes",
    "place of its stage among all",
    "time until it has been given a sample",
    "time until it has been read",
    "load of its memory channel",
    "busiest link that leaves its switch",
    "busiest link that leads to its switch",
)
"""What is seen of a unit, beside its op."""

BRANCH_COLUMNS = (
    "flits",
    "logarithm of flits, over 10",
    "logarithm of the destinations of the stream, over 3",
    "flits per firing of the reader, over the window",
    "one hop there and back for each round trip",
    "one hop there and back for each round trip within bursts",
    "others' flits that come to the destination",
    "others' flits that leave the source",
    "hops, over both sides of the mesh",
    "all round trips in an empty mesh",
    "all round trips in a loaded mesh",
    "round trips within bursts in a loaded mesh",
    "busiest link on the way",
    "others' load of that link",
    "mean load of links on the way",
    "busiest link, of the same virtual channel alone",
    "streams on the link with most of them, over 8",
    "turns along the column first",
    "bends",
)
"""What is seen of a branch: a stream on its way to one destination."""

STATIC_UNIT, STATIC_BRANCH = 10, 8
"""Columns, from the first on, that no mapping of a problem changes."""

LINK_COLUMNS = (
    "load of virtual channel 0",
    "load of virtual channel 1",
    "load",
    "streams of virtual channel 0, over 8",
    "streams of virtual channel 1, over 8",
)
"""What is seen of a link that is used."""

GLOBAL_COLUMNS = (
    "logarithm of the formula",
    "logarithm of the busiest link",
    "logarithm of the busiest memory channel",
    "logarithm of the slowest round trips in an empty mesh",
    "logarithm of the slowest round trips in a loaded mesh",
    "logarithm of the slowest unit with its bursts",
    "logarithm of the slowest buffer",
    "logarithm of the mean load of links",
    "logarithm of the bound in cycles, over 10",
    "logarithm of the number of units, over 5",
    "logarithm of the number of stages, over 3",
    "mean hops, over both sides of the mesh",
    "share of the links that are used",
)
"""What is seen of a mapping as a whole; logarithms are of times over the bound."""

OUTPUTS = 2
"""Logarithms, over the bound: of the period beyond the formula's, and of the latency."""


@dataclass(frozen=True)
@checked(width=from_to(4, 64), rounds=from_to(1, 4), head=from_to(4, 256))
class MappingLayout:
    """Hyperparameters that decide which weights there are.

    Attributes:
        width: of the vectors of units, branches and links.
        rounds: of messages between units.
        head: width of both hidden layers behind the pooling.
        features_version: `FEATURES_VERSION` of what it reads.

    Raises:
        ValueError: if a number is out of range.
    """

    width: int = 16
    rounds: int = 2
    head: int = 32
    features_version: int = FEATURES_VERSION

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every weight; matrices are `[inputs, outputs]`.

        Those of a round are stacked along the first axis.
        """
        width, rounds, head = self.width, self.rounds, self.head
        return {
            "op": (len(OP_KINDS), width),
            "unit": (len(UNIT_COLUMNS), width),
            "unit_bias": (width,),
            "branch": (len(BRANCH_COLUMNS), width),
            "branch_bias": (width,),
            "link": (len(LINK_COLUMNS), width),
            "link_streams": (width, width),
            "link_bias": (width,),
            "message_branch": (rounds, width, width),
            "message_mean_link": (rounds, width, width),
            "message_worst_link": (rounds, width, width),
            "message_source": (rounds, width, width),
            "message_target": (rounds, width, width),
            "message_bias": (rounds, width),
            "update_own": (rounds, width, width),
            "update_mean_in": (rounds, width, width),
            "update_worst_in": (rounds, width, width),
            "update_mean_out": (rounds, width, width),
            "update_worst_out": (rounds, width, width),
            "update_bias": (rounds, width),
            "head_first": (self.pooled, head),
            "head_first_bias": (head,),
            "head_second": (head, head),
            "head_second_bias": (head,),
            "head_last": (head, OUTPUTS),
            "head_linear": (len(GLOBAL_COLUMNS), OUTPUTS),
            "head_last_bias": (OUTPUTS,),
        }

    @property
    def pooled(self) -> int:
        """Columns that the head reads: mean and maximum of units and of branches, and globals."""
        return 4 * self.width + len(GLOBAL_COLUMNS)


def initial_weights(layout: MappingLayout, seed: int) -> Weights:
    """Random weights with which the answer is nearly the formula's."""

    def deviation(name: str, shape: tuple[int, ...]) -> float | None:
        if name.endswith("bias"):
            return None
        if name in {"head_last", "head_linear"}:
            return 0.01
        # Five products are added up in messages and updates.
        return math.sqrt(2.0 / shape[-2]) / math.sqrt(
            5.0 if name.startswith(("message", "update")) else 1.0
        )

    return normal_weights(layout.shapes(), seed, deviation)


MAX_BYTES = 1 << 20
"""Largest checkpoint that is read: 1 MiB, ten times the default model."""

RECORDED_NETWORK = Path(__file__).resolve().parents[1] / "data" / "mapping-network.safetensors"
"""The network of the recorded comparison; the card inside says how it was trained."""


@dataclass(frozen=True)
class MappingCard(CheckpointCard):
    """Card of a mapping model.

    Attributes:
        layout: shape of the network.
        learned: what it knows.
        trained_on: seed, settings, samples, versions and scores, as JSON data.
    """

    layout: MappingLayout
    learned: Learned
    trained_on: Mapping[str, Any] = field(default_factory=dict[str, Any])


MAPPING_MODELS = CheckpointKind(
    "mapping model",
    MappingCard,
    FEATURES_VERSION,
    MAX_BYTES,
    ("MCM-M050", "MCM-M052", "MCM-M052"),
    "train one with `mcmc train mapping-network` and the same --plugin, or take "
    "--mapping-model ridge",
)


def check_learned(card: MappingCard, wanted: Learned, place: str) -> None:
    """Refuses a model that has learned of something else.

    Args:
        card: of the model.
        wanted: what it is to be used for.
        place: names the model in diagnostics.

    Raises:
        CompileError: MCM-M053.
    """
    differs = [
        f"{words} {getattr(card.learned, name)}, not {getattr(wanted, name)}"
        for name, words in (
            ("make", "fabrics of the make"),
            ("lowering", "the lowering"),
            ("physics", "the physics"),
        )
        if getattr(card.learned, name) != getattr(wanted, name)
    ]
    if differs:
        raise CompileError.of(
            "MCM-M053",
            f"the mapping model has learned of {quote('; of '.join(differs))}",
            at=quote(place),
            hint=MAPPING_MODELS.remedy,
        )
