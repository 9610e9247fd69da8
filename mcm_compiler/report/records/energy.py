"""What a report says of energy and area."""

# ruff: noqa: UP013 - an object of JSON is one definition here, as a class it were one per key

from __future__ import annotations

from typing import NotRequired, TypedDict

from mcm_compiler.text.json_text import Amount, Index

JouleFacts = TypedDict(
    "JouleFacts",
    {
        "total_j": Amount,
        "compute_j": Amount,
        "sram_j": Amount,
        "links_j": Amount,
        "memory_j": Amount,
        "host_j": Amount,
    },
)
"""Energy of one inference by kind."""


class ChipJoules(JouleFacts):
    """Energy of one inference on one chip of the first pipeline.

    Attributes:
        chip: the chip.
        total_j: of all kinds.
        compute_j: of its arithmetic.
        sram_j: of its reads and writes of SRAM.
        links_j: of what it sends to other chips, and passes on.
        memory_j: of what it reads from off-package memory.
        host_j: of what it exchanges with the host.
    """

    chip: Index


class EnergyFacts(JouleFacts):
    """Energy of one inference, nominal: computed from the keys of the target, without leakage.

    Attributes:
        total_j: of all kinds and chips.
        compute_j: of arithmetic: half of all operations are multiply-accumulates.
        sram_j: of reads and writes of SRAM, as the cost model counts them.
        links_j: of links between chips.
        memory_j: of off-package memory.
        host_j: of links between chips and the host.
        power_w: total_j by period_s: while inferences follow each other without a pause.
        energy_delay_js: total_j times latency_s.
        chips: of the first pipeline, ascending.
        package_mm2: area of all usable chips of the package; missing where the target says nothing
            of it.
    """

    power_w: Amount | None
    energy_delay_js: Amount | None
    chips: list[ChipJoules]
    package_mm2: NotRequired[Amount]
