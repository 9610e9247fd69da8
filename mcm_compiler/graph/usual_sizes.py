"""Sizes that dimensions usually have, by their names: guesses where nothing determines them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

BATCH = 1
TOKENS = 128
PIXELS = 224
SAMPLES = 16_000
MEL_FRAMES = 100
ITEMS = 16

_USUAL: tuple[tuple[str, int], ...] = (
    (r"past|cache", TOKENS),
    (r"(^|_)total", 2 * TOKENS),
    (r"batch|^(n|b|bs|s\d+_batch)$|(^|_)bs($|_)", BATCH),
    (r"height|width|^(h|w|rows|cols)$|image.*size|resolution", PIXELS),
    (r"wave|audio|samples", SAMPLES),
    (r"frame|mel", MEL_FRAMES),
    (r"seq|token|length|(^|_)len($|_)|text|time|step|^(s|t|l)$|context|words", TOKENS),
    (r"node|edge|point|box|object|item|choice|candidate|label|neighbo", ITEMS),
    (r"channel", 3),
)
"""Patterns of names in lower case, the first that is found first."""


def usual_size(name: str, axis: int = 0, rank: int = 1) -> int:
    """A usual size of a dimension.

    Args:
        name: of the symbolic dimension, or "" where it has none.
        axis: where it stands in an input.
        rank: of that input.
    """
    if name.endswith(f"_{axis}"):
        name = ""  # made of the input's name, which says nothing of this axis
    lower = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    for pattern, size in _USUAL:
        if re.search(pattern, lower):
            return size
    if rank == 4 and axis == 1:
        return 3
    if rank == 4 and axis > 1:
        return PIXELS
    if rank in {2, 3} and axis == 1:
        return TOKENS
    return BATCH if axis == 0 else ITEMS


def usual_shape(sizes: Sequence[int | str], chosen: Mapping[str, int]) -> tuple[int, ...]:
    """A shape with the `chosen` size for each symbol, and a usual one for "", which has no name."""
    return tuple(
        size
        if isinstance(size, int)
        else (chosen.get(size) if size else None) or usual_size(size, axis, len(sizes))
        for axis, size in enumerate(sizes)
    )
