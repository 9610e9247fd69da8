"""What the host runs for chips, as the report tells it."""

# ruff: noqa: UP013 - an object of JSON is one definition here, as a class it were one per key

from __future__ import annotations

from typing import Literal, TypedDict

from mcm_compiler.text.json_text import Amount, Count, Index, Size

LackingRow = TypedDict(
    "LackingRow",
    {
        "because": Literal["op", "type"],
        "what": str,
        "ops": Count,
        "inside": Size,
        "first": list[str],
    },
)
"""An op type or element type that chips lack.

Attributes:
    because: whether ops of a type are lacking, or tensors of an element type.
    what: the op, or the element type.
    ops: ops that fall back for it.
    inside: those of them that have it in a subgraph only.
    first: names of the first of them.
"""

TripRow = TypedDict(
    "TripRow",
    {
        "ops": list[str],
        "trips": Count,
        "up_bytes": Size,
        "down_bytes": Size,
        "transfer_s": Amount,
        "host_s": Amount,
        "seconds": Amount,
        "on_chips_s": Amount,
    },
)
"""Round trips to the host of one kind, per inference.

Attributes:
    ops: types of the ops that a trip is made for, each once.
    trips: round trips.
    up_bytes: what goes from chips to the host in all of them.
    down_bytes: what comes back.
    transfer_s: on the way.
    host_s: on the host.
    seconds: that chips wait, launches included.
    on_chips_s: what the reference chip would take under cost_model if it could run the ops.
"""

HostFacts = TypedDict(
    "HostFacts",
    {
        "lacking": list[LackingRow],
        "round_trips": list[TripRow],
        "trips": Count,
        "up_bytes": Size,
        "down_bytes": Size,
        "seconds": Amount,
        "on_chips_s": Amount,
        "chip": Index,
        "chip_s": Amount,
        "share_of_period": Amount | None,
        "link_share": Amount | None,
    },
)
"""What the host runs for the chips of one pipeline, per inference.

Attributes:
    lacking: why, by op type and element type.
    round_trips: what it costs, by the ops that share a trip; most seconds first.
    trips: all round trips.
    up_bytes: of all of them.
    down_bytes: of all of them.
    seconds: of all of them.
    on_chips_s: of all of them.
    chip: the chip that waits longest.
    chip_s: how long.
    share_of_period: chip_s as a share of the pipeline's period; null where nothing was simulated.
    link_share: the largest share of the period that a channel between chips and the host has to do
        for transfers and round trips together. Round trips take their time whatever else crosses
        the channel, so that more than 1 means a period that cannot be kept.
"""
