"""The bound with its argument, the gap, and the numbers of replicas that were considered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mcm_compiler.page.contents import Compiled, Section, Table, View
from mcm_compiler.page.scatter import Dot, scatter
from mcm_compiler.report.cost_section import STORAGE_SECTION
from mcm_compiler.report.details import (
    KERNEL_HEADS,
    added_cells,
    details_of,
    kernel_cells,
    kernel_title,
)
from mcm_compiler.report.hardware.sensitivity_section import (
    SENSITIVITY_HEADS,
    SENSITIVITY_SECTION,
    change_text,
    sensitivity_table,
)
from mcm_compiler.report.host_section import HOST_HEADS, host_sentences, host_table
from mcm_compiler.report.sentences import DIVISION_SECTION
from mcm_compiler.report.state_section import SIZE_HEADS, SIZE_TITLE, size_table, state_rows
from mcm_compiler.report.verdict import claims, words
from mcm_compiler.text.headline import line_text
from mcm_compiler.text.units import bytes_text, count_text, number_text, percent_text, seconds_text


def bottleneck_section(compiled: Compiled) -> Section | None:
    """The bottleneck in words and as a table."""
    worst = compiled.report["bottleneck"]
    if worst is None:
        return None
    tables: list[Table] = []
    if rows := kernel_cells(worst):
        title = kernel_title(compiled.report)
        tables.append(Table(KERNEL_HEADS, tuple(rows), frozenset(range(1, 7)), title))
    if tensors := worst["heaviest_tensors"]:
        rows = [(t["name"], bytes_text(t["bytes"])) for t in tensors]
        tables.append(Table(("tensor", "size"), tuple(rows), frozenset({1}), "Largest tensors"))
    if moves := worst.get("moves"):  # reports of the first release lack it
        tables.append(_move_table(moves))
    lead = (_sentence(worst["text"]),)
    return Section("bottleneck", "Bottleneck", lead, None, tuple(tables))


def _move_table(moves: list[Mapping[str, Any]]) -> Table:
    """Moves that help; reports of earlier releases do not say what each gains, if anything."""
    rows = [
        (
            move["name"] + (f" and {move['along']} more" if move["along"] else ""),
            f"chip {move['from_chip']}" if "from_chip" in move else "-",
            f"chip {move['to_chip']}",
            bytes_text(move["need_bytes"]),
            bytes_text(move["free_bytes"]),
            seconds_text(move["busy_there_s"]),
            percent_text(move.get("gain")),
        )
        for move in moves
    ]
    heads = ("to move", "from", "to", "needs at most", "free there", "busy there then", "gains")
    return Table(heads, tuple(rows), frozenset({3, 4, 5, 6}), "Moves to another chip")


def bound_section(compiled: Compiled) -> Section | None:
    """Lower bound, proof and gap."""
    report = compiled.report
    if report["lower_bound_s"] is None:
        return None
    replication = report.get("replication")
    considered = replication["considered"] if replication else []
    details = details_of(report)
    asked = [label for label in ("objective", "its bound", "one inference") if label in details]
    bound = details[f"lower bound{' of the period' if asked else ''}"]
    lead = (
        f"{line_text(words.optimality_line(claims.optimality_of(report))).capitalize()}.",
        f"Lower bound: {bound}. The bound may not be attainable.",
        *(f"{label}: {details[label]}." for label in asked),
        *([f"Replicas: {details['replicas']}."] if "replicas" in details else ()),
    )
    found = (
        ("simulated", report["period_s"], "result"),
        (f"under {report['cost_model']}", report["analytic_period_s"], "result"),
        ("bound of these kernels, undivided", report["lower_bound_s"], "bound"),
        ("bound over all divisions", (report.get(DIVISION_SECTION) or {}).get("bound_s"), "bound"),
    )
    known = [(name, seconds, kind) for name, seconds, kind in found if seconds is not None]
    least_s = min(seconds for _, seconds, _ in known)
    bars = [
        {"name": name, "seconds": above, "kind": kind, "text": _distance_text(seconds, above)}
        for name, seconds, kind in known
        for above in [seconds / least_s - 1.0 if least_s else 0.0]
    ]
    tables = (_considered(considered, compiled.replicas),) if considered else ()
    view = View("bars", {"bars": bars, "reach": LEAST_REACH}, "Distances from the lowest bound")
    return Section("bound", "Bound and gap", lead, view, tables, folded=True)


LEAST_REACH = 0.05
"""Share above the bound that the scale of the distances has at least."""


def _distance_text(seconds: float, above: float) -> str:
    if above < 0.0005:
        return seconds_text(seconds)
    return f"{seconds_text(seconds)}, {percent_text(above)} above the lowest bound"


def _considered(rows: list[Mapping[str, Any]], chosen: int) -> Table:
    cells = [
        (
            count_text(row["replicas"], "replica")
            + (" (chosen)" if row["replicas"] == chosen else ""),
            str(row["chips_each"]),
            seconds_text(row["analytic_period_s"]),
            seconds_text(row["simulated_period_s"]),
            seconds_text(row["lower_bound_s"]),
            row["ruled_out"] or "-",
        )
        for row in rows
    ]
    heads = ("replicas", "chips each", "period", "simulated", "lower bound", "ruled out by")
    caption = "Replicas that were considered; times per inference of the package"
    return Table(heads, tuple(cells), frozenset({1, 2, 3, 4}), caption)


LISTED = 200
"""Rows of a table; the report has all."""


def sensitivity_section(compiled: Compiled) -> Section | None:
    """Effects of other resources, with all else equal; None where nobody asked."""
    rows = compiled.report.get(SENSITIVITY_SECTION)
    if not rows:
        return None
    columns = len(SENSITIVITY_HEADS)
    cells = tuple(
        (*row, *("-",) * (columns - len(row))) for row in sensitivity_table(compiled.report)
    )
    bars = [
        {
            "name": change_text(row),
            "seconds": row["speedup"],
            "text": f"{row['speedup']:.2f}×",
            "kind": "result" if row["speedup"] > 1 else "bound",
        }
        for row in rows
        if row.get("speedup") is not None
    ]
    lead = (
        "The model was compiled again for the package with one number changed. A bar is the "
        "change of throughput: to the right more than now, to the left less.",
    )
    view = (
        View("bars", {"bars": bars, "zero": 1.0}, "Throughput with each change") if bars else None
    )
    table = Table(SENSITIVITY_HEADS, cells, frozenset(range(1, columns)))
    return Section(SENSITIVITY_SECTION, "What if, with all else equal", lead, view, (table,), True)


def sharding_section(compiled: Compiled) -> Section | None:
    """Operators that run in pieces."""
    cells = added_cells(compiled.report)["sharded_operators"]
    if not cells:
        return None
    lead = ("These operators were divided, as they fit no chip in one piece or run faster apart.",)
    table = _table(("operator", "weight", "size", "axis", "pieces"), cells, {2, 3, 4})
    return Section("sharding", "Sharding plan", (*lead, *_more(cells)), None, (table,))


def additions_section(compiled: Compiled) -> Section | None:
    """Copies of ops, and relays, which make the partition executable."""
    added = added_cells(compiled.report)
    tables = tuple(
        _table((*heads, "on chip"), added[kind], {2}, count_text(len(added[kind]), name))
        for kind, heads, name in (
            ("clones", ("op", "copy"), "copied op"),
            ("relays", ("tensor", "relay"), "relay"),
        )
        if added[kind]
    )
    if not tables:
        return None
    lead = ("Cheap ops were copied to where they are read, and relays pass tensors on.",)
    return Section("additions", "Added to the model", lead, None, tables, folded=True)


def state_section(compiled: Compiled) -> Section | None:
    """States that stay on the chips, such as caches."""
    rows = state_rows(compiled.report)
    if not rows:
        return None
    heads = ("chip", "of a sequence", "of all in flight")
    lead = ["The state of a sequence, such as its cache, stays on its chips between inferences."]
    tables = [Table(heads, tuple(rows), frozenset(range(3)))]
    drawings: list[str] = []
    if sizes := size_table(compiled.report):
        tables.insert(0, Table(SIZE_HEADS, tuple(sizes), frozenset(range(5)), SIZE_TITLE))
        lead.append(
            "Larger batches serve more tokens, each of which takes longer: one point for each "
            "batch and context. The compile is simulated, the others are estimated by the cost "
            "model. A line joins the batches of a context. Discs keep the limits of `--serve`."
        )
        if lines := _sizes_as_lines(compiled.report):
            dots = [dot for line in lines for dot in line]
            axes = ("milliseconds per token", "tokens per second for all")
            drawings.append(scatter(dots, *axes, lines=lines))
    return Section("states", "States", tuple(lead), None, tuple(tables), drawings=tuple(drawings))


def _sizes_as_lines(report: Mapping[str, Any]) -> list[list[Dot]]:
    """A line for each context, of its batches; the last one has the context next to it."""
    lines: dict[int, list[Dot]] = {}
    for row in sorted(report["states"]["sizes"], key=lambda row: row["batch"]):
        if row["tokens_per_s"] is None:
            continue
        text = (
            f"batch {row['batch']}, context {row['context']:,} ({row['status']}): "
            f"{number_text(row['tokens_per_s'])} tokens/s, {seconds_text(row['tpot_s'])} per "
            f"token, {count_text(row['fitting_sequences'], 'sequence')} fit"
        )
        place = (row["tpot_s"] * 1e3, row["tokens_per_s"], None, row["within_limits"])
        lines.setdefault(row["context"], []).append(Dot(*place, text, f"batch {row['batch']}"))
    for context, line in lines.items():
        line[-1] = replace(line[-1], name=f"{line[-1].name}, context {context:,}")
    return list(lines.values())


def host_section(compiled: Compiled) -> Section | None:
    """Ops that the host runs for the chips."""
    sentences = host_sentences(compiled.report)
    if not sentences:
        return None
    rows = tuple(host_table(compiled.report))
    table = Table(HOST_HEADS, rows, frozenset(range(1, len(HOST_HEADS))), "Round trips")
    return Section("host", "On the host", tuple(map(_sentence, sentences)), None, (table,))


def verification_section(compiled: Compiled) -> Section | None:
    """Comparisons and proofs."""
    verification = compiled.report["verification"]
    if verification is None:
        return None
    rows = [
        (
            o["output"],
            "yes" if o["holds"] else "no",
            "yes" if o["bit_equal"] else "no",
            "-" if o["max_abs_error"] is None else f"{o['max_abs_error']:.3g}",
            f"{o['tolerance']:.3g}",
        )
        for o in verification["outputs"]
    ]
    widths = compiled.report.get(STORAGE_SECTION)
    lead = [_sentence(words.verification_sentence(verification, widths))]
    if (costs := details_of(compiled.report).get("cost model")) is not None:
        lead.append(f"Cost model: {costs}.")
    heads = ("output", "within tolerance", "bit-identical", "largest error", "tolerance")
    tables = (_table(heads, rows, {3, 4}),) if rows else ()
    return Section("verification", "Verification", (*lead, *_more(rows)), None, tables)


def _table(
    heads: tuple[str, ...], rows: Sequence[tuple[str, ...]], numbers: set[int], caption: str = ""
) -> Table:
    return Table(heads, tuple(rows[:LISTED]), frozenset(numbers), caption)


def _more(rows: Sequence[Any]) -> tuple[str, ...]:
    more = len(rows) - LISTED
    return (f"The first {LISTED} are listed; report.json has {more} more.",) if more > 0 else ()


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
