"""Symbolic dimensions that are made of others: `2*batch`, `past + sequence`, `width//16`.

ONNX takes the name of a dimension as it is. Exporters write sums and products of names for sizes
that follow from others, and those of PyTorch spell them as Python and SymPy do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

MAX_TEXT = 256
"""Characters of a name; longer ones are names alone."""

MAX_DEPTH = 16
"""Levels of parentheses."""

MAX_DIGITS = 18

# Names have hyphens in them, so that a minus has blanks around it, as SymPy writes it.
_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]+)(?![\w.])|(?P<name>[A-Za-z_][\w.-]*)|(?P<operator>//|[*+()]|(?<=\s)-(?=\s)))"
)


@dataclass(frozen=True)
class Formula:
    """How a dimension is made of others.

    Attributes:
        names: of the others.
        value: its size from theirs; raises ZeroDivisionError where a divisor is 0.
    """

    names: frozenset[str]
    value: Callable[[Mapping[str, int]], int]


@lru_cache(maxsize=4096)
def formula_of(symbol: str) -> Formula | None:
    """The formula that the name of a dimension is, or None where it is a name alone.

    Sums, differences, products and whole quotients of names and numbers, with parentheses.
    """
    if len(symbol) > MAX_TEXT or not (tokens := _tokens(symbol)):
        return None
    try:
        parser = _Parser(tokens)
        value = parser.sum(0)
    except _NoFormulaError:
        return None
    if parser.left or not parser.names or parser.names == {symbol}:
        return None
    return Formula(frozenset(parser.names), value)


def names_in(symbol: str) -> frozenset[str]:
    """Names of dimensions that a size may be given to for a symbol: its own, and those in it."""
    formula = formula_of(symbol)
    own = frozenset({symbol}) if symbol else frozenset[str]()
    return own | formula.names if formula is not None else own


class _NoFormulaError(Exception):
    """A name is no formula."""


def _tokens(text: str) -> list[str] | None:
    """The parts of a formula; None where something in it can be no part of one."""
    found: list[str] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        part = _TOKEN.match(text, at)
        if part is None or len(part["number"] or "") > MAX_DIGITS:
            return None
        found.append(part[part.lastgroup or 0])
        at = part.end()
    return found


_Value = Callable[[Mapping[str, int]], int]


class _Parser:
    """Recursive descent over the parts of a formula; `names` are those that were read."""

    def __init__(self, tokens: list[str]) -> None:
        self.left = tokens[::-1]
        self.names: set[str] = set()

    def sum(self, depth: int) -> _Value:
        terms = [(1, self._product(depth))]
        terms += [
            (1 if operator == "+" else -1, self._product(depth))
            for operator in self._operators("+", "-")
        ]
        return lambda sizes: sum(sign * term(sizes) for sign, term in terms)

    def _product(self, depth: int) -> _Value:
        factors = [("*", self._factor(depth))]
        factors += [(operator, self._factor(depth)) for operator in self._operators("*", "//")]

        def value(sizes: Mapping[str, int]) -> int:
            result = 1
            for operator, factor in factors:
                size = factor(sizes)
                result = result * size if operator == "*" else result // size
            return result

        return value

    def _factor(self, depth: int) -> _Value:
        part = self.left.pop() if self.left else ""
        if part == "(" and depth < MAX_DEPTH:
            inside = self.sum(depth + 1)
            if not self.left or self.left.pop() != ")":
                raise _NoFormulaError
            return inside
        if part.isdigit():
            number = int(part)
            return lambda _: number
        if not part or not (part[0].isalpha() or part[0] == "_"):
            raise _NoFormulaError
        self.names.add(part)
        return lambda sizes: sizes[part]

    def _operators(self, *wanted: str) -> Iterator[str]:
        while self.left and self.left[-1] in wanted:
            yield self.left.pop()
