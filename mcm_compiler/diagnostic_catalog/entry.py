"""The form of one entry of the diagnostic catalogue."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CatalogEntry:
    """What `mcmc explain CODE` prints.

    Attributes:
        code: `MCM-` and a letter for the family and three digits.
        title: a few words.
        explanation: what it means, why it is refused, and what to do; plain text, wrapped lines.
    """

    code: str
    title: str
    explanation: str
