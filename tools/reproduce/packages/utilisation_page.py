"""The page `docs/results/utilisation.md` with its table and charts."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mcm_compiler.text.units import percent_text
from tools.readme_pictures import PLAIN, SMALL, WIDTH, adaptive_picture, svg_text

PAGE = Path(__file__).resolve().parents[3] / "docs" / "results" / "utilisation.md"
RATIOS = PAGE.parent / "images" / "utilisation.svg"
LATENCIES = PAGE.parent / "images" / "utilisation_latency.svg"
TABLE = PAGE.parent / "data" / "utilisation.csv"
COMMAND = "python tools/reproduce/packages/zoo_on_packages.py"

FULL = 1.02
"""A package with at most this ratio counts as fully busy."""


class Row(NamedTuple):
    """A compile in both trees; None where it failed or is not on record."""

    package: str
    model: str
    objective: str
    base: Mapping[str, Any] | None
    new: Mapping[str, Any] | None


def files(
    data: Mapping[str, Mapping[str, Any]], models: Sequence[str], packages: Sequence[str]
) -> dict[Path, str]:
    """The texts of the page, its table and its charts; latencies are those on the first package."""
    rows = [*_rows(data, models, packages)]
    return {
        PAGE: page(rows),
        TABLE: _csv_text(rows),
        RATIOS: _ratios_picture(rows),
        LATENCIES: _latencies_picture(rows),
    }


def _rows(
    data: Mapping[str, Mapping[str, Any]], models: Sequence[str], packages: Sequence[str]
) -> Iterator[Row]:
    pairs = [(package, "period") for package in packages]
    for package, objective in [*pairs, (packages[0], "latency")]:
        option = "" if objective == "period" else f" --objective {objective}"
        for model in models:
            found = data.get(f"{model} {package} -O2{option}", {})
            sides = [found.get(side) for side in ("base", "new")]
            kept = [side if side and f"{objective}_s" in side else None for side in sides]
            if any(kept):
                yield Row(package, model, objective, *kept)


def page(rows: Sequence[Row]) -> str:
    """The document of the data."""
    ratios = [row.new["ratio"] for row in rows if row.new and row.objective == "period"]
    full = sum(ratio <= FULL for ratio in ratios)
    changes = [*_changes(rows)]
    less = sum(change < -0.001 for change in changes)
    return f"""\
# Utilisation

How much of a package do compiled models use? Nearly all of it: {full} of {len(ratios)} compiles
take at most {percent_text(FULL - 1)} longer than chips that never wait, and the others at most
{percent_text(max(ratios) - 1)}. The ratio is the simulated period times the chips of the package
over the time that one chip takes for the undivided model. No hardware was measured.

![{_ratios_title(rows)}](images/{RATIOS.name})

*Before* is the compiler without a search of divisions and rounds, *now* is today's default, `-O2`,
seed 0. GNMT exceeded its time limit before. Weights in pieces may take less time than the whole, so
that 1 is no bound on the ratio. The report of a compile states the bound that was proven.

## Latency on `mcm36`

With `--objective latency`, one inference in an empty package takes less time than before on {less}
of {len(changes)} models, and nowhere more (simulated).

![{_latencies_title(rows)}](images/{LATENCIES.name})

## Data

[The table](data/{TABLE.name}) has periods, ratios, latencies, replicas, rounds and CPU seconds. It
is written with this page, from `tools/reproduce/data/zoo_on_packages.json`, by

    {COMMAND}
    {COMMAND} --packages mcm36 --objective latency

and the same commands with `--base`. The JSON file also has other models and packages.
"""


def _changes(rows: Sequence[Row]) -> Iterator[float]:
    """Changes of latencies."""
    for row in rows:
        if row.objective == "latency" and row.new and row.base:
            yield row.new["latency_s"] / row.base["latency_s"] - 1.0


def _csv_text(rows: Sequence[Row]) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    facts = ("period_s", "ratio", "latency_s", "replicas", "round", "cpu_s")
    sides = [f"{side} {fact}" for side in ("before", "now") for fact in facts]
    table.writerow(["package", "model", "objective", *sides])
    for row in rows:
        cells = [(side or {}).get(fact, "") for side in (row.base, row.new) for fact in facts]
        table.writerow([row.package, row.model, row.objective, *cells])
    return text.getvalue()


def _ratios_title(rows: Sequence[Row]) -> str:
    most = max(row.new["ratio"] for row in rows if row.new and row.objective == "period")
    return f"Chips hardly wait: models take at most {percent_text(most - 1)} longer than their work"


def _ratios_picture(rows: Sequence[Row]) -> str:
    """Ratios before and now of all compiles that were above 1 by more than `FULL` in either."""
    shown = [
        row
        for row in rows
        if row.objective == "period"
        and any(side["ratio"] > FULL for side in (row.base, row.new) if side)
    ]
    others = sum(row.objective == "period" for row in rows) - len(shown)
    note = (
        f"Simulated period x chips / work of the model; ring: before, disc and number: now. "
        f"{others} other compiles are below {FULL:.2f} in both."
    )
    dots = [
        (
            f"{row.model}, {row.package}",
            row.base["ratio"] if row.base else None,
            row.new["ratio"] if row.new else None,
            f"{row.new['ratio']:.2f}" if row.new else "",
        )
        for row in shown
    ]
    return _dumbbells(_ratios_title(rows), note, dots, 1.0)


def _latencies_title(rows: Sequence[Row]) -> str:
    return f"One inference takes up to {percent_text(-min(_changes(rows)))} less time than before"


def _latencies_picture(rows: Sequence[Row]) -> str:
    dots = [
        (
            row.model,
            1.0,
            row.new["latency_s"] / row.base["latency_s"],
            f"{row.new['latency_s'] * 1e6:,.0f} us",
        )
        for row in rows
        if row.objective == "latency" and row.new and row.base
    ]
    note = "Simulated latency over that before; the text is the latency now."
    return _dumbbells(_latencies_title(rows), note, dots, 0.0)


Dumbbell = tuple[str, float | None, float | None, str]
"""Name, value before and now, and text of the value now."""


def _dumbbells(title: str, note: str, rows: Sequence[Dumbbell], start: float) -> str:
    """A line for each row from its value before, a ring, to its value now, a disc."""
    left, right, top, step = 220, 90, 62, 24
    values = [value for _, *pair, _ in rows for value in pair if value is not None]
    scale = (WIDTH - left - right) / (max(values) - start)
    marks = [f'<path d="M{left} {top}V{top + step * len(rows)}" stroke="var(--line)"/>']
    for place, (name, before, now, text) in enumerate(rows):
        y = top + step * place + step // 2
        marks.append(svg_text(left - 14, y + 5, name, PLAIN, "var(--ink)", anchor="end"))
        at = [None if one is None else left + scale * (one - start) for one in (before, now)]
        if at[0] is not None and at[1] is not None:
            marks.append(f'<path d="M{at[0]:.1f} {y}H{at[1]:.1f}" stroke="var(--soft)"/>')
        if at[0] is not None:
            marks.append(
                f'<circle cx="{at[0]:.1f}" cy="{y}" r="4.5" fill="none" stroke="var(--soft)"/>'
            )
        if at[1] is not None:
            marks.append(f'<circle cx="{at[1]:.1f}" cy="{y}" r="5" fill="var(--accent)"/>')
        end = max(one for one in at if one is not None)
        marks.append(svg_text(end + 10, y + 4, text, SMALL, "var(--ink)"))
    return adaptive_picture(title, note, top + step * len(rows) + 8, marks)
