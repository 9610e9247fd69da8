"""What a report says of states that stay on their chips, and of tokens per second."""

# ruff: noqa: UP013 - an object of JSON is one definition here, as a class it were one per key

from __future__ import annotations

from typing import TypedDict

from mcm_compiler.text.json_text import Amount, Count, Index, Size

StateRow = TypedDict("StateRow", {"past": str, "present": str, "chip": Index})
"""A state that stays on a chip.

Attributes:
    past: input of the model.
    present: output of it, the past of the next step.
    chip: where it stays, in the first pipeline.
"""

ChipStateRow = TypedDict(
    "ChipStateRow", {"chip": Index, "sequence_bytes": Size, "held_bytes": Size}
)
"""The states on a chip of the first pipeline.

Attributes:
    chip: the chip.
    sequence_bytes: SRAM that the states of one more sequence take.
    held_bytes: SRAM that is taken by those of all sequences in flight.
"""

StateFacts = TypedDict(
    "StateFacts",
    {
        "held": list[StateRow],
        "chips": list[ChipStateRow],
        "sequences": Count,
        "needed_sequences": Count | None,
        "fitting_sequences": Count,
        "pipelines": Count,
        "tokens_per_step": Count,
        "batch": Count,
        "tokens_per_s": Amount | None,
        "tokens_per_s_alone": Amount | None,
    },
)
"""States that stay on their chips from one inference of a sequence to the next.

Attributes:
    held: all of them; states that cross the host's link are not among them.
    chips: chips that hold any, ascending.
    sequences: in flight in each pipeline, whose states the chips hold; the figures are theirs.
    needed_sequences: with which a pipeline answers as often as for independent inferences: latency
        by period of those, rounded up.
    fitting_sequences: whose states would fit into the chips of a pipeline, at most 1,024.
    pipelines: side by side; each has sequences of its own.
    tokens_per_step: positions by which a state grows in one inference; 1 where none grows.
    batch: sequences that go through together and count as one in flight: rows of the inputs of
        whole numbers with a column for each token, or 1.
    tokens_per_s: of all sequences together.
    tokens_per_s_alone: of one sequence that has the package for itself: tokens_per_step for each
        latency.
"""
