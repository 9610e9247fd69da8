"""A comparison of two folders as text: verdict and reasons first, then figures and lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mcm_compiler.difference.compared import Difference, LoadRow, SideFacts
from mcm_compiler.report.advice.replica_limit import shares_text
from mcm_compiler.text.styled import Group, Labelled, Text, View, fitted
from mcm_compiler.text.units import (
    UNKNOWN,
    bytes_text,
    count_text,
    number_text,
    percent_text,
    printable,
    seconds_text,
)

LISTED = 5
"""Rows of each list, and names of ops in a row; the JSON form has all."""

ALIKE = 0.5
"""Share of the ops that both have, below which the models are called different."""

Cells = Sequence[str]


def difference_view(found: Difference, width: int) -> View:
    """All of a comparison.

    Args:
        found: names in it may be hostile: what does not print is escaped.
        width: columns for tables.
    """
    views: list[View] = [_heads(found), Text()]
    views.append(Text(found.verdict, style="bold"))
    reasons = found.comparison.reasons
    views += [Labelled([("  because", Text(printable(reasons[0])))])] if reasons else []
    views += [Labelled([("      and", Text(printable(reason)))]) for reason in reasons[1:]]
    if (other := models_sentence(found)) is not None:
        views += [Text(), Text(printable(other), style="yellow")]
    views += [Text(), *_table(figure_rows(found), width)]
    views += _arguments(found)
    for title, rows in (
        (moves_title(found), _moved(found)),
        (times_title(found), _times(found)),
        ("given otherwise" if found.settings else "", setting_rows(found)),
        (memory_title(found), _few(memory_rows(found), 4 * LISTED)),
    ):
        if title:
            views += [Text(), Text(title, style="bold"), *_table(rows, width)]
    views += [Text(), Text(ops_sentence(found))]
    return Group(*views)


def models_sentence(found: Difference) -> str | None:
    """That the models differ, where they do; None where both are of one file."""
    if found.same_file:
        return None
    both = count_text(found.ops.same, "op")
    if found.alike < ALIKE:
        return (
            f"A and B are of different models, {found.a.model} and {found.b.model}, that have "
            f"{both} in common; what can be compared is"
        )
    return f"the files of the models differ; they have {both} in common"


def moves_title(found: Difference) -> str:
    """How many ops run elsewhere."""
    moved = sum(len(row.ops) for row in found.moved)
    first = " of the first pipeline" if max(found.a.pipelines, found.b.pipelines) > 1 else ""
    if not moved:
        return f"no op{first} runs on another {found.place}" if found.ops.same else ""
    verb = "runs" if moved == 1 else "run"
    return f"{moved:,} of {count_text(found.ops.same, 'op')}{first} {verb} on another {found.place}"


def times_title(found: Difference) -> str:
    """How many kernels take longer, less, or are new or gone."""
    counts = dict.fromkeys(("slower", "faster", "new", "gone"), 0)
    for row in found.times:
        counts[row.state] += 1
    told = [f"{number:,} {state}" for state, number in counts.items() if number]
    return f"times of kernels: {', '.join(told)}" if told else ""


def memory_title(found: Difference) -> str:
    """Return whether the memory of any chip changed."""
    if any(
        row.a_bytes != row.b_bytes or row.a_has_bytes != row.b_has_bytes for row in found.memory
    ):
        return f"memory by {found.place}"
    return f"memory of every {found.place} is the same" if found.memory else ""


def ops_sentence(found: Difference) -> str:
    """How ops were matched, and which have no partner."""
    ops = found.ops
    text = f"ops matched: {ops.by_name:,} by name, {len(ops.by_structure):,} by structure"
    for side, names in (("A", ops.only_a), ("B", ops.only_b)):
        text += f"; only in {side}: {len(names):,}"
        if names:
            text += f" ({names_text(names)})"
    return text


def names_text(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(f"'{printable(name)}'" for name in names[:LISTED])
    more = len(names) - LISTED
    return f"{shown} and {more:,} more" if more > 0 else shown


def change_text(a: float | None, b: float | None) -> str:
    """The relative change, such as `+1.2 %`; nothing where one is unknown or both are equal."""
    if a is None or b is None or a in (0, b):
        return ""
    return f"{100 * (b / a - 1.0):+.1f} %"


def _heads(found: Difference) -> View:
    rows = [
        (f" {label}", Text(printable(f"{side.folder}: {side.model} on {side.target}")))
        for label, side in (("A, before", found.a), ("B, now", found.b))
    ]
    return Labelled(rows)


def figure_rows(found: Difference) -> list[Cells]:
    """Figures of both sides below a head."""
    a, b = found.a, found.b
    rate = "/s"
    rows: list[Cells] = [["", "A", "B", "change"]]

    def row(label: str, there: str, here: str, change: str = "") -> None:
        rows.append([label, there, here, change])

    row(
        f"{found.per}s per second",
        number_text(a.throughput_per_s) + rate,
        number_text(b.throughput_per_s) + rate,
        change_text(a.throughput_per_s, b.throughput_per_s),
    )
    for label, there, here in (
        ("period", a.period_s, b.period_s),
        ("latency", a.latency_s, b.latency_s),
        ("lower bound", a.lower_bound_s, b.lower_bound_s),
    ):
        row(label, seconds_text(there), seconds_text(here), change_text(there, here))
    row("  its proof", a.bound_proof or UNKNOWN, b.bound_proof or UNKNOWN)
    row("simulated above bound", percent_text(a.gap), percent_text(b.gap))
    for label in dict.fromkeys((*a.verdict, *b.verdict)):
        row(label, a.verdict.get(label, UNKNOWN), b.verdict.get(label, UNKNOWN))
    row(f"{found.place}s in use", _used(found, a), _used(found, b))
    for load in found.loads:
        there = _load(load.a_where, load.a_busy_s, load.a_utilisation)
        here = _load(load.b_where, load.b_busy_s, load.b_utilisation)
        row(_busiest(load), there, here, change_text(load.a_busy_s, load.b_busy_s))
    return rows


def _used(found: Difference, side: SideFacts) -> str:
    used = UNKNOWN if side.places_used is None else f"{side.places_used:,}"
    if side.pipelines == 1:
        return used
    return f"{used}, {shares_text(side.pipelines, side.places_each, found.place)}"


def _busiest(load: LoadRow) -> str:
    return {
        "compute": "busiest compute",
        "links": "busiest link",
        "host": "busiest host channel",
    }.get(load.kind, f"busiest {load.kind}")


def _load(where: str | None, busy_s: float | None, utilisation: float | None) -> str:
    if where is None:
        return UNKNOWN
    share = f" ({percent_text(utilisation)})" if utilisation is not None else ""
    return printable(f"{where}: {seconds_text(busy_s)}{share}")


def _arguments(found: Difference) -> list[View]:
    """Why the bounds hold, and what is busiest, in words."""
    rows: list[tuple[str, Text]] = []
    for label, there, here in (
        ("bound", found.a.bound_argument, found.b.bound_argument),
        ("bottleneck", found.a.bottleneck, found.b.bottleneck),
    ):
        if there == here:
            continue
        rows.append((f"{label} of A", Text(printable(there or UNKNOWN))))
        rows.append((f"{label} of B", Text(printable(here or UNKNOWN))))
    return [Text(), Labelled(rows)] if rows else []


def _moved(found: Difference) -> list[Cells]:
    rows: list[Cells] = [
        [
            f"  {count_text(len(row.ops), 'op')}",
            f"from {_places(row.a)} to {_places(row.b)}",
            names_text(row.ops),
        ]
        for row in found.moved[:LISTED]
    ]
    more = found.moved[LISTED:]
    if more:
        count = count_text(sum(len(row.ops) for row in more), "op")
        rows.append([f"  {count}", f"on {count_text(len(more), 'other way')}", ""])
    return rows


def _places(places: Sequence[str]) -> str:
    return printable(", ".join(places)) or "nowhere"


def _times(found: Difference) -> list[Cells]:
    if not found.times:
        return []
    rows: list[Cells] = [["  ", "A", "B", "change", "kernel"]]
    rows += [
        [
            f"  {one.state}",
            time_text(one.a_s, one.a_place),
            time_text(one.b_s, one.b_place),
            change_text(one.a_s, one.b_s),
            one.label,
        ]
        for one in found.times
    ]
    return _few(rows, LISTED)


def time_text(seconds: float | None, place: str | None) -> str:
    """A time and where it is spent."""
    return UNKNOWN if seconds is None else f"{seconds_text(seconds)} on {place}"


def setting_rows(found: Difference) -> list[Cells]:
    """Settings that differ, below a head; empty where none do."""
    if not found.settings:
        return []
    rows: list[Cells] = [["  ", "A", "B"]]
    for one in found.settings:
        label = one.name if one.kind == "target" else f"{one.kind} {one.name}"
        rows.append(
            [f"  {printable(label)}", printable(one.a or UNKNOWN), printable(one.b or UNKNOWN)]
        )
    return rows


def memory_rows(found: Difference) -> list[Cells]:
    """Memory of the chips where it differs, below a head; empty where it differs nowhere."""
    changed = [
        row
        for row in found.memory
        if (row.a_bytes, row.a_has_bytes) != (row.b_bytes, row.b_has_bytes)
    ]
    if not changed:
        return []
    rows: list[Cells] = [["  ", "A", "of", "weights", "B", "of", "weights", "change"]]
    rows += [
        [
            f"  {printable(row.place)}",
            bytes_text(row.a_bytes),
            bytes_text(row.a_has_bytes),
            bytes_text(row.a_weight_bytes),
            bytes_text(row.b_bytes),
            bytes_text(row.b_has_bytes),
            bytes_text(row.b_weight_bytes),
            change_text(row.a_bytes, row.b_bytes),
        ]
        for row in changed
    ]
    return rows


def _few(rows: list[Cells], most: int) -> list[Cells]:
    """The head and this many rows, and how many more there are."""
    if len(rows) <= most + 1:
        return rows
    more = [f"  {len(rows) - most - 1:,} more", *[""] * (len(rows[0]) - 1)]
    return [*rows[: most + 1], more]


def _table(rows: Iterable[Cells], width: int) -> list[View]:
    cells = [list(row) for row in rows]
    lines = fitted(cells, width) if cells else []
    return [Text(line.rstrip()) for row in lines for line in row]
