"""How flits are divided: between units that each hold or take a contiguous part, or each a bit."""

from __future__ import annotations

from collections.abc import Iterator


def overlaps(flits: int, parts: int, others: int) -> Iterator[tuple[int, int, int]]:
    """Part i of some units goes where it overlaps part j of others, both in the same order.

    Yields:
        i, j and the flits that go from the one to the other, at least 1.
    """
    i = j = 0
    while i < parts and j < others:
        begin = max(i * others, j * parts)
        end = min((i + 1) * others, (j + 1) * parts)
        yield i, j, max(-(-flits * (end - begin) // (parts * others)), 1)
        here, there = (i + 1) * others, (j + 1) * parts
        i, j = i + (here <= there), j + (there <= here)


def crossings(flits: int, parts: int, others: int) -> Iterator[tuple[int, int, int]]:
    """A bit of each part goes to each of the others, as where rows are cut and columns held.

    Yields:
        i, j and the flits that go from the one to the other, at least 1.
    """
    each = max(-(-flits // (parts * others)), 1)
    for i in range(parts):
        for j in range(others):
            yield i, j, each
