"""The report for a terminal: its verdict, then details, then one line with bars per chip."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcm_compiler.report import chip_bars, sentences, state_section
from mcm_compiler.report.details import KERNEL_HEADS, details_of, kernel_cells, kernel_title
from mcm_compiler.report.hardware import sensitivity_section
from mcm_compiler.report.verdict import claims
from mcm_compiler.text.headline import Headline, labelled_view
from mcm_compiler.text.styled import Group, Text, View, fitted, plain_lines
from mcm_compiler.text.units import count_text, printable_data, rate_text, seconds_text

PLAIN_WIDTH = 100
"""Columns where the output is not a terminal."""

MAX_WIDTH = 120
"""Wider terminals leave the rest blank: longer bars say nothing more."""


def report_text(report: Mapping[str, Any], *, ascii_only: bool = False) -> str:
    """The report as plain text: no colours, no control characters, `PLAIN_WIDTH` columns.

    Args:
        report: as from `build_report`. Names in it may be hostile: what does not print is escaped.
        ascii_only: for outputs that cannot encode more; other characters are escaped.
    """
    return plain_text(report_view(report, ascii_only=ascii_only), ascii_only=ascii_only)


def plain_text(view: View, *, ascii_only: bool = False) -> str:
    """A view as plain text without trailing blanks."""
    text = "\n".join(plain_lines(view, PLAIN_WIDTH)) + "\n"
    return text.encode("ascii", "backslashreplace").decode("ascii") if ascii_only else text


def report_view(
    report: Mapping[str, Any],
    *,
    width: int = PLAIN_WIDTH,
    ascii_only: bool = False,
    full: bool = True,
) -> View:
    """The report as a view with bars for `width` columns; its verdict alone if not `full`."""
    report = printable_data(report)
    verdict = claims.verdict_of(report)
    ends = (report["model"]["name"], report["target"]["name"], verdict["basis"])
    headline = Headline(ends, verdict["lines"], verdict["good"])
    first_screen = headline.view(width, ascii_only=ascii_only)
    if not full:
        return first_screen
    styles = {"diagnostics": "yellow"}
    details = [
        (label, Text(text, styles.get(label, "")))
        for label, text in details_of(report).items()
        if label != "shared channels"  # a line of their own below
    ]
    parts: list[View] = [first_screen, Text(), labelled_view(details, width)]
    links, bottleneck = report["links"], report["bottleneck"]
    if rows := kernel_cells(bottleneck):
        title = kernel_title(report)
        parts += [Text(), Text(f" {title[0].lower()}{title[1:]}:", style="dim")]
        for lines in fitted([KERNEL_HEADS, *rows], width - 1):
            parts += [Text(f" {line}") for line in lines]
    if rows := sensitivity_section.sensitivity_table(report):
        lines = sensitivity_section.aligned(sensitivity_section.SENSITIVITY_HEADS, rows, width)
        parts += [Text(), Text(" what if, with all else equal:", style="dim")]
        parts += [Text(line) for line in lines]
    if rows := state_section.size_table(report):
        lines = sensitivity_section.aligned(state_section.SIZE_HEADS, rows, width)
        parts += [Text(), Text(f" {state_section.SIZE_TITLE.lower()}:", style="dim")]
        parts += [Text(line) for line in lines]
    if report["chips"]:
        parts.append(Text())
        if sentences.replication_phrase(report):
            parts.append(Text(" the first replica:", style="dim"))
        parts.append(
            chip_bars.chip_view(report["chips"], links, bottleneck, width, ascii_only=ascii_only)
        )
    parts += chip_bars.link_lines(links, bottleneck, width)
    if (roles := sentences.role_sentence(report)) is not None:
        parts.append(chip_bars.labelled_line("pipelines", roles, "dim", width))
    return Group(*parts)


def simulation_view(
    simulation: dict[str, Any], *, width: int = PLAIN_WIDTH, ascii_only: bool = False
) -> View:
    """A simulation as a view.

    Args:
        simulation: `simulator`, `inferences`, `steady_from`, `throughput_per_s`, `period_s`,
            `latency_s`, `bottleneck`, `chips` and `links` as in a report, and `sequences` in flight
            in each pipeline where chips hold states.
        width: columns.
        ascii_only: for outputs that cannot encode more.
    """
    simulation = printable_data(simulation)
    simulator = f" ({sentences.simulator_sentence(simulation['simulator'], simulation)})"
    load = claims.latency_load(simulation.get("round", 1))
    latency = f"{seconds_text(simulation['latency_s'])} ({load})"
    rows = [
        ("throughput", Text(_rate(simulation), style="bold green")),
        ("period", Text(seconds_text(simulation["period_s"]) + simulator)),
        ("latency", Text(latency)),
    ]
    if (bottleneck := simulation["bottleneck"]) is not None:
        rows.append(("bottleneck", Text(bottleneck["text"], style="bold")))
    links = simulation["links"]
    parts: list[View] = [labelled_view(rows, width), Text()]
    parts.append(
        chip_bars.chip_view(simulation["chips"], links, bottleneck, width, ascii_only=ascii_only)
    )
    parts += chip_bars.link_lines(links, bottleneck, width)
    return Group(*parts)


def _rate(simulation: Mapping[str, Any]) -> str:
    """Inferences per second, and of how many sequences they are where they are steps of these."""
    rate = rate_text(simulation["throughput_per_s"])
    sequences = simulation.get("sequences")
    return rate if sequences is None else f"{rate}, steps of {count_text(sequences, 'sequence')}"
