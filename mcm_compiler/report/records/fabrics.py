"""What a report says of chips that are fabrics."""

# ruff: noqa: UP013 - an object of JSON is one definition here, as a class it were one per key

from __future__ import annotations

from typing import TypedDict

from mcm_compiler.text.json_text import Amount, Count, Index, Size, Whole

UnitCounts = TypedDict("UnitCounts", {"compute": Size, "memory": Size, "io": Size})
"""Units or sites of each kind.

Attributes:
    compute: those that compute.
    memory: those that hold samples or weights.
    io: those that samples come and leave by.
"""

FloorPlan = TypedDict(
    "FloorPlan",
    {
        "rows": Count,
        "cols": Count,
        "stages": list[str],
        "units": list[tuple[Index, Whole, Index, Index]],
        "links": list[tuple[Index, Size]],
    },
)
"""Where the units of a chip lie and what its links carry.

Attributes:
    rows: of switches.
    cols: of switches.
    stages: names along the flow of data.
    units: row, column, kind (0 compute, 1 memory, 2 input and output) and stage of each; input and
        output lie in the columns -1 and `cols`.
    links: number of each link in use, and its flits per inference. Link `4 * switch + d` leaves
        east, west, north, south for d = 0 to 3; switches are numbered row by row.
"""

FabricRow = TypedDict(
    "FabricRow",
    {
        "chip": Index,
        "like": Index | None,
        "method": str,
        "stages": Count,
        "units": UnitCounts,
        "streams": Count,
        "period_s": Amount,
        "bound_s": Amount,
        "latency_s": Amount,
        "error": Amount,
        "utilisation": Amount,
        "plan": FloorPlan | None,
    },
)
"""How a chip is laid out.

Attributes:
    chip: the chip, of the first pipeline.
    like: the chip whose mapping it took, as they are laid out alike; null where it has its own.
    method: mapper and mapping model.
    stages: of its pipeline.
    units: that are in use.
    streams: between them.
    period_s: measured time between inferences.
    bound_s: no mapping of these units has a shorter period.
    latency_s: measured time from when an inference enters until it has left.
    error: by which share the period may be wrong; 0 where the chip was seen to repeat itself.
    utilisation: share of the period for which the chip's compute units work, over all of them.
    plan: where units lie; null where it is that of another chip.
"""

FabricFacts = TypedDict("FabricFacts", {"sites": UnitCounts, "chips": list[FabricRow]})
"""How chips are laid out.

Attributes:
    sites: of each chip.
    chips: all used ones, ascending.
"""
