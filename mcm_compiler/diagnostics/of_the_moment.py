"""Failures that say nothing of a model or a target: the next try may not have them."""

from __future__ import annotations

_BEGINNINGS = ("MCM-A", "MCM-U037", "MCM-U040", "MCM-U053", "MCM-U099", "MCM-X")
"""Of codes: of folders and files, of processes that died, were stopped or crashed."""


def is_of_the_moment(code: str) -> bool:
    """Return whether a failure with this code is not worth keeping."""
    return code.startswith(_BEGINNINGS)
