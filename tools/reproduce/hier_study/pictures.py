"""How studies draw: the library, without a screen, and files that the same data makes the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def drawing_library() -> Any:
    """`matplotlib.pyplot`, which draws into files alone.

    Raises:
        ImportError: without the extra `reproduce`.
    """
    # An extra of its own, which type checks do without.
    import matplotlib as mpl  # pyright: ignore[reportMissingImports]

    mpl.use("Agg")
    from matplotlib import pyplot  # pyright: ignore[reportMissingImports]

    return pyplot


def save_picture(figure: Any, path: Path) -> None:
    """Writes a figure as PNG and closes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # No date and no version in the file, so that the same data gives the same bytes.
    figure.savefig(path, dpi=80, metadata={"Software": None})
    drawing_library().close(figure)
