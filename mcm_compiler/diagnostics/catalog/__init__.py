"""Catalogue of diagnostics: a Markdown page for each family, with an entry for each code."""

from __future__ import annotations

import re
from dataclasses import astuple, dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class CatalogEntry:
    """An entry of the catalogue, as `mcmc explain CODE` prints it.

    Attributes:
        code: `MCM-` and a letter for the family and three digits.
        title: a few words.
        explanation: the fault, and why it is refused; Markdown, wrapped lines.
        example: a command, a file or a message that shows it; wrapped lines.
        remedy: whole sentences, wrapped lines.
    """

    code: str
    title: str
    explanation: str
    example: str
    remedy: str


@cache
def catalog() -> dict[str, CatalogEntry]:
    """All entries by code, sorted.

    Raises:
        ValueError: if two entries have one code, or an entry lacks a part.
    """
    pages = [page for page in files(__name__).iterdir() if page.name.endswith(".md")]
    entries = [entry for page in pages for entry in entries_of(page.read_text(encoding="utf-8"))]
    found = {entry.code: entry for entry in sorted(entries, key=lambda entry: entry.code)}
    if len(found) != len(entries):
        raise ValueError("a diagnostic code is defined twice")
    return found


def entries_of(page: str) -> list[CatalogEntry]:
    """Entries of a page, in its order: heading, explanation, example, what to do.

    Raises:
        ValueError: if an entry lacks a part.
    """
    found: list[CatalogEntry] = []
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        heading, _, text = section.partition("\n")
        code, _, title = heading.partition(": ")
        explanation, _, rest = text.partition("\n**Example:** ")
        example, _, remedy = rest.partition("\n**What to do:** ")
        parts = (part.strip() for part in (explanation, example, remedy))
        found.append(CatalogEntry(code, title, *parts))
        if not all(astuple(found[-1])):
            raise ValueError(f"{code} needs a title, an explanation, an example and what to do")
    return found
