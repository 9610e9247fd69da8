"""Lines for narrow terminals: text folds at blanks, a number never, nor between it and its unit."""

from __future__ import annotations

import re
from collections.abc import Sequence

LEAST_WIDTH = 20
"""Columns for which this is made; narrower terminals break lines themselves."""

LEAST_TEXT = 16
"""Columns below which a column of text is not folded; what does not fit stands line by line."""

_NUMBER = r"[(+-]*\d[\d,.]*(?:e[+-]?\d+)?"
_UNIT = r"(?:[KMGT]i?B|B|s|ms|us|ns|min|h|%)"
_RATE = r"[A-Za-z]+/s"
_IS_NUMBER = re.compile(_NUMBER)
_IS_UNIT = re.compile(rf"(?:{_UNIT}|{_RATE})[),.;:]*")
_QUANTITY = re.compile(rf"-?|{_NUMBER}(?: (?:{_UNIT}|{_RATE}))?")
_PIECES = re.compile(r"\d[\d,.]*|\D")


def wrapped(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` columns; one empty line for no text.

    Words that are longer than a line are folded, but not amid a number. A number that is longer
    than a line keeps a line of its own.
    """
    lines: list[str] = [""]
    for word in _words(text, width):
        if not lines[-1]:
            lines[-1] = word
        elif len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
        if len(lines[-1]) > width:
            lines[-1:] = _folded(lines[-1], width)
    return lines


def fitted(rows: Sequence[Sequence[str]], width: int | None) -> list[list[str]]:
    """The lines of each row, in aligned columns as far as `width` allows.

    Where the columns do not fit, the widest one that holds text is folded; where that does not
    suffice, the cells of a row stand below each other.

    Args:
        rows: cells; each row has the same number. All of it prints.
        width: columns; None for as many as are needed.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    total = sum(widths) + 2 * max(len(widths) - 1, 0)
    if width is None or total <= width:
        return [_row_lines([[cell] for cell in row], widths) for row in rows]
    texts = [i for i in range(len(widths)) if not all(map(_is_quantity, (r[i] for r in rows)))]
    if texts:
        widest = max(texts, key=widths.__getitem__)
        left = width - (total - widths[widest])
        if left >= LEAST_TEXT:
            widths[widest] = left
            return [
                _row_lines([wrapped(c, left) if i == widest else [c] for i, c in enumerate(row)],
                           widths)
                for row in rows
            ]  # fmt: skip
    return [_stacked(row, width) for row in rows]


def _row_lines(cells: list[list[str]], widths: list[int]) -> list[str]:
    height = max(map(len, cells), default=0)
    return [
        "  ".join(
            f"{cell[line] if line < len(cell) else '':<{width}}"
            for cell, width in zip(cells, widths, strict=True)
        ).rstrip()
        for line in range(height)
    ]


def _stacked(row: Sequence[str], width: int) -> list[str]:
    lines: list[str] = []
    for cell in filter(None, row):
        indent = "  " if lines else ""
        lines += [indent + line for line in wrapped(cell, width - len(indent))]
    return lines or [""]


def _is_quantity(cell: str) -> bool:
    return _QUANTITY.fullmatch(cell) is not None


def _words(text: str, width: int) -> list[str]:
    """Words, with numbers and their units as one where a line has room for both."""
    words: list[str] = []
    for word in text.split(" "):
        joined = f"{words[-1]} {word}" if words else ""
        if (
            joined
            and len(joined) <= width
            and _IS_UNIT.fullmatch(word)
            and _IS_NUMBER.fullmatch(words[-1])
        ):
            words[-1] = joined
        else:
            words.append(word)
    return words


def _folded(word: str, width: int) -> list[str]:
    lines = [""]
    for piece in _PIECES.findall(word):
        if lines[-1] and len(lines[-1]) + len(piece) > width:
            lines.append("")
        lines[-1] += piece
    return lines
