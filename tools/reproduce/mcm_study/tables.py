"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], text_columns: int = 1) -> str:
    """A table whose first columns are text and whose others are numbers."""
    rule = "|" + "---|" * text_columns + "---:|" * (len(columns) - text_columns)
    lines = [f"| {' | '.join(columns)} |", rule]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def bars_table(rows: Sequence[dict[str, Any]]) -> str:
    """Claims, what was promised, what was measured, and whether it holds."""
    words = {True: "holds", False: "**does not hold**", None: "open"}
    body = [
        [
            in_terms(r["claim"]),
            r["bar"],
            r["measured"],
            "" if r["bar"] == "none" else words[r["holds"]],
        ]
        for r in rows
    ]
    return table(("claim", "bar", "measured", ""), body, text_columns=4)


def in_terms(text: str) -> str:
    """A name of the data in today's terms."""
    return text.replace("fast model", "analytic model").replace("judge", "simulator")


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
