"""Folders that a command makes for its output are gone again where nothing came into them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def no_empty_folders(*wanted: Path) -> Generator[None]:
    """Removes what the block made of `wanted` and the folders above, as far as it is empty.

    What was there before stays, and so does every folder that holds anything. It does so whether
    the block raises or not; a folder that shall stay empty is none of `wanted`.

    Args:
        wanted: folders that the block may make, with their missing parents.
    """
    missing = _missing(wanted)
    try:
        yield
    finally:
        for folder in missing:
            with contextlib.suppress(OSError, ValueError):
                folder.rmdir()


def _missing(wanted: Sequence[Path]) -> list[Path]:
    """The folders that do not exist yet, each before the one that it will lie in."""
    found: dict[Path, None] = {}
    for folder in map(Path.absolute, wanted):
        for step in (folder, *folder.parents):
            if step in found or os.path.lexists(step):
                break
            found[step] = None
    return sorted(found, key=lambda step: len(step.parts), reverse=True)
