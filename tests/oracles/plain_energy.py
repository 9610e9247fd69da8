"""The energy of a placed chain of matrix products, counted by hand.

Shares no code with the compiler: it knows shapes, chips in order, and picojoules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Product:
    """One matrix product of a chain: `[rows, inner] @ [inner, cols]` on a chip."""

    rows: int
    inner: int
    cols: int
    chip: int


def picojoules(
    chain: Sequence[Product], element_bytes: int, pj: dict[str, float]
) -> dict[int, dict[str, float]]:
    """Picojoules by chip and kind.

    Args:
        chain: each product's rows and inner size are those of the result before.
        element_bytes: of every tensor, on chips and links.
        pj: by `mac`, `sram`, `link`, `host`.

    A chip between two that a tensor leads past reads and writes it once more, and sends it on.
    """
    spent: dict[int, dict[str, float]] = {}

    def spend(chip: int, kind: str, amount: float) -> None:
        kinds = spent.setdefault(chip, dict.fromkeys(("mac", "sram", "link", "host"), 0.0))
        kinds[kind] += amount

    first, last = chain[0], chain[-1]
    spend(first.chip, "host", first.rows * first.inner * element_bytes * pj["host"])
    spend(last.chip, "host", last.rows * last.cols * element_bytes * pj["host"])
    for product in chain:
        macs = product.rows * product.inner * product.cols
        elements = product.rows * product.inner + product.inner * product.cols
        elements += product.rows * product.cols
        spend(product.chip, "mac", macs * pj["mac"])
        spend(product.chip, "sram", elements * element_bytes * pj["sram"])
    for before, after in pairwise(chain):
        size = before.rows * before.cols * element_bytes
        for chip in range(before.chip, after.chip):
            spend(chip, "link", size * pj["link"])
            if chip != before.chip:
                spend(chip, "sram", 2 * size * pj["sram"])
    return spent
