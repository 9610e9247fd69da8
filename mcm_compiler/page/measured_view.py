"""Measured busy times of chips next to those that were predicted."""

from __future__ import annotations

from mcm_compiler.checking.entry.ring_times import chip_table, ring_lines
from mcm_compiler.page.contents import Compiled, Section, Table
from mcm_compiler.page.scatter import Dot, scatter
from mcm_compiler.text.units import seconds_text


def measured_section(compiled: Compiled) -> Section | None:
    """Period and chips of a ring of processes; None where the folder was not run as one."""
    data = compiled.measured
    if data is None:
        return None
    heads, *rows = chip_table(data["chips"])
    dots = [
        Dot(
            1e6 * data["level"] * row["predicted_s"],
            1e6 * (row["busy_s"] + row["overhead_s"]),
            None,
            True,
            f"chip {row['chip']}: {seconds_text(row['busy_s'] + row['overhead_s'])}",
        )
        for row in data["chips"]
        if row["predicted_s"]
    ]
    drawings: tuple[str, ...] = ()
    if dots:
        across = f"predicted microseconds, times {data['level']:.3g}"
        drawings = (scatter(dots, across, "measured microseconds of CPU time", equal=True),)
    return Section(
        "measured",
        "Predicted and measured",
        tuple(f"{label.capitalize()}: {text}." for label, text in ring_lines(data)),
        None,
        (Table(heads, tuple(rows), frozenset(range(1, len(heads))), "Chips, CPU time of a round"),),
        drawings=drawings,
    )
