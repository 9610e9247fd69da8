"""The bound with its argument, the gap, and the numbers of pipelines that were looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcm_compiler.page.contents import Section, Table, View
from mcm_compiler.page.sources import Compiled
from mcm_compiler.report.advice.replica_limit import limit_sentence
from mcm_compiler.report.objective_section import objective_rows
from mcm_compiler.report.sentences import bound_sentence
from mcm_compiler.report.verdict.claims import optimality_of
from mcm_compiler.report.verdict.words import line_text, optimality_line
from mcm_compiler.text.units import bytes_text, count_text, percent_text, seconds_text


def bottleneck_section(compiled: Compiled) -> Section | None:
    """The bottleneck in words and as a table."""
    worst = compiled.report["bottleneck"]
    if worst is None:
        return None
    tables: list[Table] = []
    if ops := worst["heaviest_ops"]:
        rows = [
            (
                op["name"],
                str(op["ops"]),
                seconds_text(op["seconds"]),
                percent_text(op["seconds"] / worst["busy_s"] if worst["busy_s"] else None),
            )
            for op in ops
        ]
        heads = ("kernel, by its last op", "ops", "time", "of the chip's work")
        tables.append(Table(heads, tuple(rows), frozenset({1, 2, 3}), "Longest kernels"))
    if tensors := worst["heaviest_tensors"]:
        rows = [(t["name"], bytes_text(t["bytes"])) for t in tensors]
        tables.append(Table(("tensor", "size"), tuple(rows), frozenset({1}), "Largest tensors"))
    if moves := worst.get("moves"):  # reports of the first release lack it
        tables.append(_move_table(moves))
    text = worst["text"]
    return Section(
        "bottleneck",
        "Bottleneck",
        (text[:1].upper() + text[1:] + ".",),
        None,
        tuple(tables),
    )


def _move_table(moves: list[Mapping[str, Any]]) -> Table:
    """Moves that help; reports of earlier releases do not tell what each gains, if anything."""
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
    lead = (
        f"{line_text(optimality_line(optimality_of(report))).capitalize()}.",
        f"Lower bound: {bound_sentence(report)}. The bound may not be attainable.",
        *(f"{label}: {text}." for label, text in objective_rows(report)),
        *([f"Replicas: {limit}."] if (limit := limit_sentence(report)) else ()),
    )
    bars: list[dict[str, Any]] = [
        {"name": "simulated period", "seconds": report["period_s"], "kind": "result"},
        {
            "name": f"period under {report['cost_model']}",
            "seconds": report["analytic_period_s"],
            "kind": "result",
        },
        {"name": "proven lower bound", "seconds": report["lower_bound_s"], "kind": "bound"},
    ]
    shown = [
        {**bar, "text": seconds_text(bar["seconds"])} for bar in bars if bar["seconds"] is not None
    ]
    tables = (_considered(considered, compiled.replicas),) if considered else ()
    view = View("bars", {"bars": shown}, "Period and proven bound as bars")
    return Section("bound", "Bound and gap", lead, view, tables)


def _considered(rows: list[Mapping[str, Any]], chosen: int) -> Table:
    cells = [
        (
            count_text(row["replicas"], "pipeline")
            + (" (chosen)" if row["replicas"] == chosen else ""),
            str(row["chips_each"]),
            seconds_text(row["analytic_period_s"]),
            seconds_text(row["simulated_period_s"]),
            seconds_text(row["lower_bound_s"]),
            row["ruled_out"] or "-",
        )
        for row in rows
    ]
    heads = ("pipelines", "chips each", "period", "simulated", "lower bound", "ruled out by")
    caption = (
        "Numbers of pipelines side by side that were looked at; times per inference of the package"
    )
    return Table(heads, tuple(cells), frozenset({1, 2, 3, 4}), caption)
