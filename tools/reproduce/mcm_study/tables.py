"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column is text and whose others are numbers."""
    rule = "|---|" + "---:|" * (len(columns) - 1)
    lines = [f"| {' | '.join(columns)} |", rule]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def text_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of text."""
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def bars_table(rows: Sequence[dict[str, Any]]) -> str:
    """Claims, what was promised, what was measured, and whether it holds."""
    words = {True: "holds", False: "**does not hold**", None: "open"}
    body = [
        [r["claim"], r["bar"], r["measured"], "" if r["bar"] == "none" else words[r["holds"]]]
        for r in rows
    ]
    return text_table(("claim", "bar", "measured", ""), body)


def number(pair: Sequence[float] | None, digits: int = 3) -> str:
    """Mean and deviation, or a dash where there is none."""
    if pair is None:
        return "-"
    return f"{pair[0]:.{digits}f} ± {pair[1]:.{digits}f}"


def percent(pair: Sequence[float] | None) -> str:
    """Shares as percent."""
    return "-" if pair is None else f"{100 * pair[0]:.1f} ± {100 * pair[1]:.1f} %"


def seconds(value: float) -> str:
    """Seconds with two significant digits or all before the point."""
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"
