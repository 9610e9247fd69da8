"""Hardware changes in the report: a row for twice and half of each resource."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mcm_compiler.text import units
from mcm_compiler.text.styled import LEAST_TEXT, wrapped

SENSITIVITY_SECTION: Final = "sensitivities"
"""Name of the field; reports lack it where nobody asked."""

SENSITIVITY_HEADS = (
    "change",
    "inferences/s",
    "vs. now",
    "period",
    "bound",
    "above bound",
    "latency",
    "energy",
)


def sensitivity_table(report: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Changes as texts in the order of `SENSITIVITY_HEADS`; empty where there are none.

    Of one that the model does not run on, or that does not compare, the second text says why, and
    there are no more.
    """
    return [
        (change_text(row), *((why,) if (why := _why_not(row)) else _figures(row)))
        for row in report.get(SENSITIVITY_SECTION) or ()
    ]


def change_text(row: Mapping[str, Any]) -> str:
    """Such as `twice the vector lanes`."""
    factor = {2.0: "twice", 0.5: "half"}.get(row["factor"], f"{row['factor']:g} times")
    return f"{factor} the {row['resource']}"


def _figures(row: Mapping[str, Any]) -> tuple[str, ...]:
    rate, speedup = row["throughput_per_s"], row["speedup"]
    idle = ", idle" if row.get("idle") else ""
    return (
        units.UNKNOWN if rate is None else units.number_text(rate),
        units.UNKNOWN if speedup is None else f"{speedup:.2f}x{idle}",
        units.seconds_text(row["period_s"]),
        units.seconds_text(row["lower_bound_s"]),
        units.percent_text(row["gap"]),
        units.seconds_text(row["latency_s"]),
        units.energy_text(row.get("energy_j")),
    )


def _why_not(row: Mapping[str, Any]) -> str:
    """Why a row has no figures that compare; empty where it has."""
    if not row["faults"]:
        why = row.get("not_comparable", "")
        return why and f"not comparable ({units.seconds_text(row['period_s'])}): {why}"
    first, *more = row["faults"]
    others = f" (and {len(more)} more)" if more else ""
    return f"{first['code']}: {first['message']}{others}"


def aligned(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """A table as lines: the first column to the left, figures to the right; reasons folded.

    Where it does not fit, the figures of a row stand below its first column, each with its head.

    Args:
        heads: of the columns.
        rows: with a text for each head, or with two, of which the second is a reason.
        width: columns of the terminal.
    """
    whole = [heads, *(row for row in rows if len(row) == len(heads))]
    first = max(len(row[0]) for row in (*whole, *rows))
    widths = [max(len(row[at]) for row in whole) for at in range(1, len(heads))]
    fits = first + sum(widths) + 2 * len(widths) + 1 <= width
    lines: list[str] = []
    for row in (heads, *rows) if fits else rows:
        if fits and len(row) == len(heads):
            cells = (text.rjust(columns) for text, columns in zip(row[1:], widths, strict=True))
            lines.append(f" {row[0].ljust(first)}  {'  '.join(cells)}".rstrip())
            continue
        pairs = zip(heads[1:], row[1:], strict=True) if len(row) == len(heads) else ()
        text = ", ".join(f"{head} {cell}" for head, cell in pairs) or row[1]
        if fits or width - first - 3 >= LEAST_TEXT:
            folded = wrapped(text, width - first - 3)
            heads_of = [row[0], *[""] * (len(folded) - 1)]
            lines += [f" {a.ljust(first)}  {b}" for a, b in zip(heads_of, folded, strict=True)]
        else:
            lines += [f" {line}" for line in wrapped(row[0], width - 1)]
            lines += [f"   {line}" for line in wrapped(text, width - 3)]
    return lines
