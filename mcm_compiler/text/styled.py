"""Text with styles, tables and frames, laid out in lines for a terminal or as plain text.

Lines for narrow terminals: text folds at blanks, a number never, nor between it and its unit.
"""

from __future__ import annotations

import html
import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

Segment = tuple[str, str]
"""Characters and their style: words such as `bold red`, or none."""

Line = list[Segment]

_CODES = {
    "bold": 1, "dim": 2, "italic": 3,
    "red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36,
}  # fmt: skip

_RULES = {
    "bold": "font-weight:bold", "dim": "opacity:.7", "italic": "font-style:italic",
    "green": "color:#2da44e", "yellow": "color:#bf8700", "red": "color:#cf222e",
}  # fmt: skip
"""Declarations of CSS; the colours have contrast on light and on dark pages."""

NO_CODES = ("dumb", "unknown")
"""Terminals (`TERM`) that would show codes as characters."""

_WORDS = re.compile(r"\s*\S+\s*")


class View(Protocol):
    """Protocol of what can be laid out."""

    def lines(self, width: int) -> list[Line]:
        """Its lines, of at most `width` columns."""
        ...


def columns_of(text: str) -> int:
    """Columns that characters take: none for marks on the one before, two for wide ones."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


class Text:
    """A run of text, with breaks between words where it is longer than a line.

    Args:
        text: the characters.
        style: of all of them.
    """

    def __init__(self, text: str = "", style: str = "") -> None:
        self.style = style
        self.segments: Line = [(text, style)] if text else []

    @classmethod
    def assemble(cls, *parts: str | Text | Segment) -> Text:
        """Parts one after the other: plain, with a style, or assembled already."""
        made = cls()
        for part in parts:
            if isinstance(part, Text):
                made.segments += part.segments
            elif isinstance(part, str):
                made.segments.append((part, ""))
            else:
                made.segments.append(part)
        return made

    @property
    def plain(self) -> str:
        """The characters alone."""
        return "".join(text for text, _ in self.segments)

    def lines(self, width: int) -> list[Line]:
        """Its lines; a word that no line holds is broken within."""
        found: list[Line] = []
        begin = 0
        for paragraph in self.plain.split("\n"):
            for start, end in _breaks(paragraph, max(width, 1)):
                found.append(_trimmed(_cut(self.segments, begin + start, begin + end)))
            begin += len(paragraph) + 1
        return found


@dataclass(frozen=True)
class Group:
    """Views below each other.

    Attributes:
        views: from the top.
    """

    views: tuple[View, ...]

    def __init__(self, *views: View) -> None:
        object.__setattr__(self, "views", views)

    def lines(self, width: int) -> list[Line]:
        """The lines of all."""
        return [line for view in self.views for line in view.lines(width)]


@dataclass(frozen=True)
class Labelled:
    """Labels in a column, each with text next to it that is broken within its own.

    Attributes:
        rows: label and text of each.
        label_style: of the labels.
        gap: columns between the two.
    """

    rows: Sequence[tuple[str, Text]]
    label_style: str = "dim"
    gap: int = 2

    def lines(self, width: int) -> list[Line]:
        """The rows' lines."""
        labels = max((columns_of(label) for label, _ in self.rows), default=0)
        found: list[Line] = []
        for label, text in self.rows:
            beside = text.lines(max(width - labels - self.gap, 1)) or [[]]
            for k, line in enumerate(beside):
                shown = label if k == 0 else ""
                blank = " " * (labels - columns_of(shown) + self.gap)
                found.append([(shown, self.label_style), (blank, ""), *line])
        return found


@dataclass
class Table:
    """Cells of one line each, in columns below headers.

    Attributes:
        ascii_only: draws its lines with ASCII characters.
        caption: a line below it, or None.
        headers: of the columns, with the side on which their cells stand.
        rows: of cells.
    """

    ascii_only: bool = False
    caption: str | None = None
    headers: list[tuple[str, Literal["left", "right"]]] = field(
        default_factory=list[tuple[str, Literal["left", "right"]]]
    )
    rows: list[tuple[Text, ...]] = field(default_factory=list[tuple[Text, ...]])

    def add_column(self, header: str, justify: Literal["left", "right"] = "left") -> None:
        """Adds a column to the right."""
        self.headers.append((header, justify))

    def add_row(self, *cells: Text) -> None:
        """Adds a row of as many cells as there are columns."""
        self.rows.append(cells)

    def lines(self, width: int) -> list[Line]:
        """Its lines; what is wider than `width` is cut off."""
        heads, widths = self._heads(), self._widths()
        across, cross, between = ("-", "+", "|") if self.ascii_only else ("─", "─", " ")
        rule = cross.join(across * (cells + 2) for cells in widths)
        found = [
            self._row(heads, widths, between),
            [(rule, "")],
            *(self._row(row, widths, between) for row in self.rows),
        ]
        if self.caption is not None:
            left = max(columns_of(rule) - columns_of(self.caption), 0) // 2
            found.append([(" " * left, ""), (self.caption, "italic")])
        return [_cropped(line, width) for line in found]

    @property
    def columns(self) -> int:
        """Columns in which nothing is cut off."""
        widths = self._widths()
        return sum(widths) + 3 * len(widths) - 1

    def _heads(self) -> tuple[Text, ...]:
        return tuple(Text(header, "dim") for header, _ in self.headers)

    def _widths(self) -> list[int]:
        return [
            max(columns_of(cell.plain) for cell in column)
            for column in zip(self._heads(), *self.rows, strict=True)
        ]

    def _row(self, cells: Sequence[Text], widths: Sequence[int], between: str) -> Line:
        line: Line = []
        for k, (cell, columns) in enumerate(zip(cells, widths, strict=True)):
            blank = " " * (columns - columns_of(cell.plain))
            before, after = (blank, "") if self.headers[k][1] == "right" else ("", blank)
            edge = between if k else ""
            line += [(f"{edge} {before}", ""), *cell.segments, (f"{after} ", "")]
        return line


def plain_lines(view: View, width: int) -> list[str]:
    """A view's lines without styles and without trailing blanks."""
    return ["".join(text for text, _ in line).rstrip() for line in view.lines(width)]


def coloured_lines(view: View, width: int) -> list[str]:
    """A view's lines with a terminal's codes for styles, where the environment allows them."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "") in NO_CODES:
        return plain_lines(view, width)
    return ["".join(map(_coloured, line)) for line in view.lines(width)]


def html_text(view: View, width: int) -> str:
    """A view as one escaped element `pre`, with the styles of its segments."""
    lines = ("".join(map(_html, line)) for line in view.lines(width))
    return "<pre>" + "\n".join(lines) + "</pre>"


def _html(segment: Segment) -> str:
    text, style = html.escape(segment[0]), segment[1]
    rules = ";".join(_RULES.get(word, f"color:{word}") for word in style.split())
    return f'<span style="{rules}">{text}</span>' if style else text


def cropped(text: str, width: int) -> str:
    """The beginning of a line that fits `width` columns."""
    return "".join(part for part, _ in _cropped([(text, "")], width))


def _coloured(segment: Segment) -> str:
    text, style = segment
    if not style or not text:
        return text
    codes = ";".join(str(_CODES[word]) for word in style.split())
    return f"\x1b[{codes}m{text}\x1b[0m"


def _breaks(text: str, width: int) -> Iterable[tuple[int, int]]:
    """Where the lines of a paragraph begin and end, in characters."""
    start = used = 0
    for word in _WORDS.finditer(text):
        needed = columns_of(word[0].rstrip())
        if used + needed <= width:
            used += columns_of(word[0])
            continue
        at = word.start()
        if at > start:
            yield start, at
        start, used = at, columns_of(word[0])
        while needed > width:
            part = cropped(text[start : word.end()], width)
            # A character that is wider than the line stands in one of its own.
            end = start + max(len(part), 1)
            yield start, end
            start = end
            used = columns_of(text[start : word.end()])
            needed = columns_of(text[start : word.end()].rstrip())
    yield start, len(text)


def _cut(segments: Line, start: int, end: int) -> Line:
    """Segments of the characters from `start` up to `end`."""
    found: Line = []
    at = 0
    for text, style in segments:
        part = text[max(start - at, 0) : max(end - at, 0)]
        if part:
            found.append((part, style))
        at += len(text)
    return found


def _trimmed(line: Line) -> Line:
    """A line without the blanks at its end, where the next one was broken off."""
    kept = list(line)
    while kept:
        text, style = kept.pop()
        if text.rstrip():
            return [*kept, (text.rstrip(), style)]
    return kept


def _cropped(line: Line, width: int) -> Line:
    found: Line = []
    left = width
    for text, style in line:
        if columns_of(text) <= left:
            found.append((text, style))
            left -= columns_of(text)
            continue
        part = ""
        for character in text:
            if columns_of(part + character) > left:
                break
            part += character
        return [*found, (part, style)]
    return found


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
    """Words, with numbers and their units as one where a line has space for both."""
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
