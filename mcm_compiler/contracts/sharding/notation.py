"""The text form of sharding rules, read.

    rule     = operands "->" operands
    operands = nothing, or operand {"," operand}
    operand  = "_" (read whole) | "[]" (no dimensions) | dimension {dimension}
    dimension = "1" (never divided) | "*" (batch dimensions) | factor | "(" factor {factor} ")"
    factor   = ["!"] name [ "+" ["sum"|"max"|"min"|"prod"|"mean"] | "~" | "/" ]

A mark at one place holds for the factor wherever it stands. `*` stands for any number of
dimensions that are aligned from the right and broadcast, as NumPy does; a text with it is a
template, which becomes a rule for given shapes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NoReturn, get_args

from mcm_compiler.contracts.sharding.rules import Dims, Factor, FactorKind, Reduction, ShardingRule
from mcm_compiler.diagnostics import CompileError, quote

_TOKEN = re.compile(
    r"\s*(?:(?P<sign>->|\[\]|[,()*1])|(?P<whole>_)(?!\w)"
    r"|(?P<bang>!?)(?P<name>[A-Za-z]\w*)(?P<mark>\+\w*|~|/)?)"
)

_REDUCTIONS: tuple[Reduction, ...] = get_args(Reduction)

Item = tuple[int, ...] | None
"""A dimension as in `Dim`, or None for `*`."""


@dataclass(frozen=True)
class RuleTemplate:
    """A text that was read, before shapes are known.

    Attributes:
        factors: all of them, sizes unknown.
        inputs: dimensions of each operand; None for one that is read whole.
        outputs: dimensions of each result.
    """

    factors: tuple[Factor, ...]
    inputs: tuple[tuple[Item, ...] | None, ...]
    outputs: tuple[tuple[Item, ...] | None, ...]


def parse_rule(text: str, sizes: Mapping[str, int | None] | None = None) -> ShardingRule:
    """Reads a rule.

    Args:
        text: as in the head of this file, without `*`.
        sizes: extents of factors by name; others stay unknown.

    Raises:
        CompileError: with the column. MCM-S001 for text that is no rule, MCM-S002 for a factor
            with two marks, MCM-S003 for an unknown reduction, MCM-S004 for a template, MCM-S006
            and MCM-S007 for an inconsistent rule.
    """
    template = read_template(text)
    if "*" in text:
        refuse("MCM-S004", "'*' needs the shapes of the operands", text, text.index("*"))
    known = sizes or {}
    factors = tuple(
        Factor(f.name, known.get(f.name), f.kind, f.reduction) for f in template.factors
    )

    def dims(items: tuple[Item, ...] | None) -> Dims | None:
        return None if items is None else tuple(item for item in items if item is not None)

    return ShardingRule(
        factors, tuple(map(dims, template.inputs)), tuple(map(dims, template.outputs))
    )


@lru_cache(maxsize=1024)
def read_template(text: str) -> RuleTemplate:
    """Reads a rule that may have `*`.

    Raises:
        CompileError: as `parse_rule`, without MCM-S004.
    """
    return _Reader(text).template()


class _Reader:
    """Reads one text from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.names: dict[str, int] = {}
        self.kinds: dict[str, tuple[FactorKind, Reduction]] = {}
        self.first: dict[str, int] = {}
        self.tokens = self._tokens()
        self.at = 0

    def template(self) -> RuleTemplate:
        inputs = self._operands("->")
        if not self._accept("->"):
            self._unexpected("'->' is missing")
        outputs = self._operands("")
        if self.at < len(self.tokens):
            self._unexpected("nothing may follow the results")
        factors = tuple(
            Factor(name, None, *self.kinds.get(name, (FactorKind.PASS, "sum")))
            for name in self.names
        )
        for name, index in self.names.items():
            self._check(factors[index], name, inputs, outputs)
        return RuleTemplate(factors, inputs, outputs)

    def _check(
        self,
        factor: Factor,
        name: str,
        inputs: tuple[tuple[Item, ...] | None, ...],
        outputs: tuple[tuple[Item, ...] | None, ...],
    ) -> None:
        problem = factor_problem(factor, self.names[name], inputs, outputs)
        if problem is not None:
            refuse("MCM-S007", problem, self.text, self.first[name])

    def _tokens(self) -> list[tuple[int, re.Match[str]]]:
        found: list[tuple[int, re.Match[str]]] = []
        at, end = 0, len(self.text.rstrip())
        while at < end:
            match = _TOKEN.match(self.text, at)
            if match is None:
                at += len(self.text[at:]) - len(self.text[at:].lstrip())
                refuse("MCM-S001", f"{quote(self.text[at])} has no meaning here", self.text, at)
            start = next(s for s in (match.start(g) for g in ("sign", "whole", "bang")) if s >= 0)
            found.append((start, match))
            at = match.end()
        return found

    def _operands(self, end: str) -> tuple[tuple[Item, ...] | None, ...]:
        if self.at == len(self.tokens) or self._peek() == end:
            return ()
        operands = [self._operand()]
        while self._accept(","):
            operands.append(self._operand())
        return tuple(operands)

    def _operand(self) -> tuple[Item, ...] | None:
        if self._accept("_"):
            return None
        if self._accept("[]"):
            return ()
        items: list[Item] = []
        seen: set[str] = set()
        while self.at < len(self.tokens) and self._peek() not in (",", "->"):
            start = self.tokens[self.at][0]
            if self._accept("*"):
                if None in items:
                    refuse("MCM-S001", "'*' stands twice in one operand", self.text, start)
                items.append(None)
            elif self._accept("1"):
                items.append(())
            elif self._accept("("):
                items.append(self._compound(seen))
            else:
                items.append((self._factor(seen),))
        if not items:
            self._unexpected("an operand is missing ('[]' has no dimensions, '_' is read whole)")
        return tuple(items)

    def _compound(self, seen: set[str]) -> tuple[int, ...]:
        opened = self.tokens[self.at - 1][0]
        factors: list[int] = []
        while not self._accept(")"):
            if self.at == len(self.tokens) or self._peek() in (",", "->", "("):
                refuse("MCM-S001", "this parenthesis is not closed", self.text, opened)
            factors.append(self._factor(seen))
        if not factors:
            refuse("MCM-S001", "a compound dimension needs factors", self.text, opened)
        return tuple(factors)

    def _factor(self, seen: set[str]) -> int:
        start, match = self.tokens[self.at]
        name = match["name"]
        if name is None:
            self._unexpected("a factor is expected")
        self.at += 1
        self.first.setdefault(name, start)
        if name in seen:
            refuse("MCM-S006", f"'{name}' stands twice in one operand", self.text, start)
        seen.add(name)
        kind = self._kind(match, start)
        if kind is not None and self.kinds.setdefault(name, kind) != kind:
            refuse("MCM-S002", f"'{name}' has two different marks", self.text, start)
        return self.names.setdefault(name, len(self.names))

    def _kind(self, match: re.Match[str], start: int) -> tuple[FactorKind, Reduction] | None:
        mark = match["mark"]
        if match["bang"]:
            if mark:
                refuse("MCM-S002", f"'{match['name']}' has two marks", self.text, start)
            return FactorKind.REPLICATE, "sum"
        if mark is None:
            return None
        if mark[0] != "+":
            return FactorKind(mark), "sum"
        for reduction in _REDUCTIONS:
            if mark[1:] == reduction or (mark == "+" and reduction == "sum"):
                return FactorKind.REDUCE, reduction
        known = ", ".join(_REDUCTIONS)
        message = f"there is no reduction {quote(mark[1:])}; known: {known}"
        refuse("MCM-S003", message, self.text, match.start("mark") + 1)
        return None

    def _peek(self) -> str | None:
        match = self.tokens[self.at][1]
        return match["sign"] or match["whole"]

    def _accept(self, sign: str) -> bool:
        if self.at < len(self.tokens) and self._peek() == sign:
            self.at += 1
            return True
        return False

    def _unexpected(self, message: str) -> NoReturn:
        ended = self.at == len(self.tokens)
        start = len(self.text) if ended else self.tokens[self.at][0]
        refuse("MCM-S001", message, self.text, start)


def factor_problem(
    factor: Factor,
    index: int,
    inputs: Sequence[Sequence[Item] | None],
    outputs: Sequence[Sequence[Item] | None],
) -> str | None:
    """Return the fault in the position of a factor, or None."""

    def has(operand: Sequence[Item] | None) -> bool:
        return any(index in dim for dim in operand or () if dim is not None)

    if factor.kind is FactorKind.REDUCE and outputs and all(map(has, outputs)):
        return f"'{factor.name}' is reduced, so a result has to be without it"
    if factor.kind is FactorKind.PASS and not any(map(has, outputs)):
        return f"'{factor.name}' is in no result, so it has to be reduced ('+') or whole ('!')"
    return None


def refuse(code: str, message: str, text: str, start: int | None = None) -> NoReturn:
    """Raises the diagnostic of a faulty rule, with the column of what starts at `start`."""
    place = f"sharding rule {quote(text)}"
    at = place if start is None else f"column {start + 1} of {place}"
    raise CompileError.of(code, message, at=at)
