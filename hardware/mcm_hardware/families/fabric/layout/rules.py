"""The numbers behind the lowering, and the hash that labels and checkpoints carry."""

from __future__ import annotations

import hashlib
from dataclasses import astuple, dataclass

ANSWERS = "89fb92fcdccc4d44dd6a4231540c28e704b18e9305fb350cfffe5b58f1734987"
"""SHA-256 of the problems of recorded blocks, as the tests work it out. It is not one of the source
text, which may be written better without a model having to learn again."""


@dataclass(frozen=True)
class LayoutRules:
    """Choices of the lowering.

    Attributes:
        tile: rows and columns of results that a compute unit accumulates at once; a product reads
            its left operand once per tile of columns, and its right one once per tile of rows.
        grain_flits: flits of its largest stream that a compute unit reads or makes per firing.
        burst_flits: flits that a unit with a matrix product makes before they leave it together.
        memory_load: share of the period for which the port of a memory unit is in use at most,
            where there are enough of them.
        io_load: the same for I/O sites.
        drawn_load: seeds draw both loads between theirs and this one; above 1, memory sets the
            pace.
        spread: of the shares that seeds draw, as the deviation of a logarithm.
    """

    tile: int = 64
    grain_flits: int = 8
    burst_flits: int = 16
    memory_load: float = 0.7
    io_load: float = 0.7
    drawn_load: float = 1.15
    spread: float = 0.2


RULES = LayoutRules()
"""Those in use."""


def lowering_hash(rules: LayoutRules = RULES) -> str:
    """A hash of all that problems depend on besides model, fabric and choice."""
    return hashlib.sha256(repr((ANSWERS, astuple(rules))).encode()).hexdigest()
