"""Catalogue of diagnostics: a Markdown page for each family, with an entry for each code."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_LABEL = re.compile(r"\n\*\*(Severity|Example|Hint|What to do):\*\* ")
_SENTENCE = re.compile(r"\.(?:\s+(?=[A-Z`])|$)")


class Severity(enum.StrEnum):
    """How bad it is: an error stops the compile, a warning and a note do not."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class CatalogEntry:
    """An entry of the catalogue, as `mcmc explain CODE` prints it.

    Attributes:
        code: `MCM-` and a letter for the family and three digits.
        title: a few words.
        explanation: the fault, and why it is refused; Markdown, wrapped lines.
        example: a command, a file or a message that shows it; wrapped lines.
        remedy: whole sentences, wrapped lines.
        hint: the first of them as messages of the code print it, or None where each has its own.
        severity: of messages of the code.
    """

    code: str
    title: str
    explanation: str
    example: str
    remedy: str
    hint: str | None
    severity: Severity


@cache
def catalog() -> dict[str, CatalogEntry]:
    """All entries by code, sorted.

    Raises:
        ValueError: if two entries have one code, or an entry lacks a part.
    """
    entries = [entry for page in _pages() for entry in entries_of(page)]
    found = {entry.code: entry for entry in sorted(entries, key=lambda entry: entry.code)}
    if len(found) != len(entries):
        raise ValueError("a diagnostic code is defined twice")
    return found


@cache
def entry_of(code: str) -> CatalogEntry | None:
    """The entry of a code, or None; parses no other page."""
    for page in _pages():
        if f"\n## {code}: " in page:
            return next(entry for entry in entries_of(page) if entry.code == code)
    return None


@cache
def _pages() -> list[str]:
    pages = [page for page in files(__name__).iterdir() if page.name.endswith(".md")]
    return [page.read_text(encoding="utf-8") for page in pages]


def entries_of(page: str) -> list[CatalogEntry]:
    """Entries of a page, in its order.

    An entry is a heading, an explanation, and paragraphs that begin with a label: `Example`, and
    `Hint` or `What to do`. Messages without a hint of their own print the first sentence of
    `Hint`. `Severity` comes before the example where messages are warnings or notes.

    Raises:
        ValueError: if an entry lacks a part.
    """
    found: list[CatalogEntry] = []
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        heading, _, text = section.partition("\n")
        code, _, title = heading.partition(": ")
        explanation, *labelled = (part.strip() for part in _LABEL.split(text))
        parts = dict(zip(labelled[::2], labelled[1::2], strict=True))
        hint, example = parts.get("Hint"), parts.get("Example", "")
        remedy = hint or parts.get("What to do", "")
        severity = Severity(parts.get("Severity", Severity.ERROR))
        if not all((title, explanation, example, remedy)):
            raise ValueError(f"{code} needs a title, an explanation, an example and what to do")
        printed = _printed(hint) if hint else None
        found.append(CatalogEntry(code, title, explanation, example, remedy, printed, severity))
    return found


def _printed(remedy: str) -> str:
    """The first sentence as messages print it: no capital letter of a word, no full stop."""
    sentence = _SENTENCE.split(" ".join(remedy.split()), maxsplit=1)[0]
    return re.sub(r"^[A-Z](?=[a-z]*[ -])", lambda first: first[0].lower(), sentence)
