"""Sizes that follow from a model itself: from its weights, and from shapes that it declares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mcm_compiler.diagnostics import quote
from mcm_compiler.drafting.op_equations import AtLeast, Equation, asked_of
from mcm_compiler.drafting.symbols import OpenModel, Shape, inferred_shapes

MAX_ROUNDS = 6
"""Sizes that are found let onnx infer more, from which more is found."""

MAX_SIZE = 1 << 24
"""Larger ones come from damaged weights."""


@dataclass(frozen=True)
class Found:
    """The size of a symbol.

    Attributes:
        size: the number.
        reason: where it comes from, in a few words.
        guessed: whether nothing determines it.
        tried: whether it is the first of several that ran in onnxruntime.
    """

    size: int
    reason: str
    guessed: bool = False
    tried: bool = False


@dataclass(eq=False)
class Solution:
    """Solution for the symbols of a model.

    Attributes:
        found: sizes by key.
        least: what symbols have to be at least, by key.
        equal: for each symbol the first one that it equals, which may be itself.
    """

    found: dict[str, Found] = field(default_factory=dict[str, Found])
    least: dict[str, AtLeast] = field(default_factory=dict[str, AtLeast])
    equal: dict[str, str] = field(default_factory=dict[str, str])

    def first(self, key: str) -> str:
        """The symbol that stands for all that equal this one."""
        while self.equal.get(key, key) != key:
            key = self.equal[key]
        return key

    def least_of(self, key: str) -> AtLeast | None:
        """The most that is asked of a symbol and of all that equal it, if anything is."""
        first = self.first(key)
        asked = [least for other, least in self.least.items() if self.first(other) == first]
        return max(asked, key=lambda least: least.size, default=None)

    def take(self, equations: Iterable[Equation]) -> bool:
        """Learns from equations; of those that contradict each other the first counts."""
        changed = False
        for equation in equations:
            sides = [
                side if isinstance(side, int) else self._value(side)
                for side in (equation.left, equation.right)
            ]
            known = [side for side in sides if isinstance(side, int)]
            symbols = [side for side in sides if isinstance(side, str)]
            if len(known) == 1 and 0 < known[0] <= MAX_SIZE:
                self.found[symbols[0]] = Found(known[0], equation.reason)
                changed = True
            elif len(symbols) == 2 and symbols[0] != symbols[1]:
                self.equal[max(symbols)] = min(symbols)
                changed = True
        return changed

    def give(self, key: str, found: Found) -> None:
        """Sets the size of a symbol that has none, and of all that equal it."""
        self.found.setdefault(self.first(key), found)

    def _value(self, key: str) -> int | str:
        first = self.first(key)
        return self.found[first].size if first in self.found else first


def solve(opened: OpenModel, known: Mapping[str, Found]) -> Solution:
    """All sizes that follow, from `known` ones on.

    Args:
        opened: the model.
        known: sizes of symbols from elsewhere; they count before all else.
    """
    solution = Solution()
    for key, found in known.items():
        solution.give(key, found)
    for _ in range(MAX_ROUNDS):
        shapes = inferred_shapes(opened, _of_all(opened, solution))
        strong, weak = _equations(opened, shapes, solution)
        if solution.take(strong):
            continue
        if solution.take(_declared(opened, shapes)):
            continue
        if not solution.take(weak):
            break
    for key in opened.symbols:
        first = solution.first(key)
        if first in solution.found:
            solution.found.setdefault(key, solution.found[first])
    return solution


def _of_all(opened: OpenModel, solution: Solution) -> dict[str, int]:
    """Sizes of all symbols of which one that equals them has one."""
    return {
        key: solution.found[first].size
        for key in opened.symbols
        if (first := solution.first(key)) in solution.found
    }


def _equations(
    opened: OpenModel, shapes: Mapping[str, Shape], solution: Solution
) -> tuple[list[Equation], list[Equation]]:
    strong: list[Equation] = []
    weak: list[Equation] = []
    for node in opened.model.graph:
        for asked in asked_of(node, shapes):
            if isinstance(asked, AtLeast):
                before = solution.least.get(asked.symbol)
                if before is None or before.size < asked.size:
                    solution.least[asked.symbol] = asked
            else:
                (weak if asked.weak else strong).append(asked)
    # A size says more than that two open ones are equal.
    weak.sort(key=lambda asked: isinstance(asked.left, str) and isinstance(asked.right, str))
    return strong, weak


def _declared(opened: OpenModel, shapes: Mapping[str, Shape]) -> list[Equation]:
    found: list[Equation] = []
    for name, declared in opened.declared.items():
        inferred = shapes.get(name)
        if inferred is None or len(inferred) != len(declared):
            continue
        for size, said in zip(inferred, declared, strict=True):
            if isinstance(size, str) and isinstance(said, int):
                found.append(Equation(size, said, f"the declared shape of {quote(name)}"))
    return found
