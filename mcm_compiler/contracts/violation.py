"""What is told of a rule that a placement breaks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Rule = Literal["range", "acyclic", "no_skip", "triangle", "memory", "pin", "unreachable"]
"""Rules of placements, on whatever family of machines."""


@dataclass(frozen=True)
class Violation:
    """One broken rule.

    Attributes:
        rule: which one.
        message: one sentence with the names and numbers.
        nodes: indices of the nodes involved: both ends of a dependency, a node on the highest
            chip where one is skipped, the largest contributors to an overflow.
        chips: the chips involved; of a triangle those of its longer path, in order.
        path: `(source, target)` of each dependency on the longer path of a triangle.
    """

    rule: Rule
    message: str
    nodes: tuple[int, ...]
    chips: tuple[int, ...]
    path: tuple[tuple[int, int], ...] = ()
