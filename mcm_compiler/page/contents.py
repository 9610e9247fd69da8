"""What a page consists of: answers, and sections of text, tables and pictures, as plain data.

Whoever makes a page fills these records; `mcm_compiler.page.html` writes them. Texts may come from
models: they are escaped there, and nothing here is markup but `Section.drawings`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

Tone = Literal["good", "warn", "bad", "plain"]
"""How an answer is meant; the page tells it by a sign and a word beside the colour."""

NOT_MEASURED = (
    "Times are simulated from target descriptions and given kernel times; no hardware was measured."
)
"""Said at the foot of pages with such times."""


@dataclass(frozen=True)
class Answer:
    """An answer at a glance.

    Attributes:
        question: what a reader asks.
        answer: some words or a figure, in large type.
        details: sentences below it.
        tone: how it is meant.
        section: key of the section that tells more, or "".
    """

    question: str
    answer: str
    details: tuple[str, ...] = ()
    tone: Tone = "plain"
    section: str = ""


@dataclass(frozen=True)
class Table:
    """A table; every row has a cell per head.

    Attributes:
        heads: of the columns.
        rows: texts.
        numbers: columns that are aligned to the right.
        caption: what it shows, or "".
        links: relative address of the first cell of each row, or "" for none; empty for no links.
        words: columns of words that stay in one line.
    """

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[int] = frozenset()
    caption: str = ""
    links: tuple[str, ...] = ()
    words: frozenset[int] = frozenset()


@dataclass(frozen=True)
class View:
    """A picture that the page's script draws.

    Attributes:
        kind: which one: the name of a module of `tools/report_page/src/views`.
        data: what it draws, as JSON; arrays and long lists of texts are packed by
            `mcm_compiler.page.packed`.
        label: what it shows, for those who do not see it.
    """

    kind: str
    data: Mapping[str, Any]
    label: str


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes:
        key: its anchor, unique in the page.
        title: its heading.
        lead: paragraphs.
        view: its picture.
        tables: below the picture.
        folded: whether the tables are shown on demand only; a print shows them always.
        drawings: pictures that are there without a script, as markup of `mcm_compiler.page.scatter`
            and nothing else: it is not escaped again.
    """

    key: str
    title: str
    lead: tuple[str, ...] = ()
    view: View | None = None
    tables: tuple[Table, ...] = ()
    folded: bool = False
    drawings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Page:
    """A whole page.

    Attributes:
        title: of the page, such as `resnet50.onnx on mcm36`.
        facts: what it is about, in a line below the title.
        answers: at a glance.
        sections: in their order.
        foot: who made it, and of what.
    """

    title: str
    facts: tuple[str, ...] = ()
    answers: tuple[Answer, ...] = ()
    sections: tuple[Section, ...] = ()
    foot: tuple[str, ...] = ()


def linked(answers: Iterable[Answer], sections: Iterable[Section]) -> tuple[Answer, ...]:
    """The answers, without links to sections that are not there."""
    there = {section.key for section in sections}
    return tuple(
        answer if answer.section in there else replace(answer, section="") for answer in answers
    )
