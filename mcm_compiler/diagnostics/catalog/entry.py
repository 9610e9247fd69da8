"""The form of one entry of the diagnostic catalogue."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CatalogEntry:
    """What `mcmc explain CODE` prints.

    Attributes:
        code: `MCM-` and a letter for the family and three digits.
        title: a few words.
        explanation: what it means and why it is refused; plain text, wrapped lines.
        example: a command, a file or a message that shows it; wrapped lines.
        remedy: what to do about it; whole sentences, wrapped lines.
    """

    code: str
    title: str
    explanation: str
    example: str
    remedy: str
