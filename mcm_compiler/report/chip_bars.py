"""One line per chip: how busy it is, how full its SRAM is, and what it sends on."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from mcm_compiler.report.units import UNKNOWN, bytes_text, percent_text

BUSY_CELLS = 24
SRAM_CELLS = 8
LINK_CELLS = 8
"""Characters of a full bar."""

MAX_CHIPS = 64
"""Larger packages show their busiest chips."""

_EIGHTHS = " ▏▎▍▌▋▊▉"

_Row = dict[str, Any]


def chip_table(
    chips: list[_Row],
    links: list[_Row] | None,
    bottleneck: _Row | None,
    ascii_only: bool = False,
) -> Table:
    """The chips as a table with bars, in ring order.

    Args:
        chips: `chips` of the report.
        links: `links` of the report, or None.
        bottleneck: `bottleneck` of the report, or None; its chip or link stands out.
        ascii_only: bars of `#`.
    """
    to_next = {
        link["source"]: link
        for link in links or []
        if link["source"] >= 0 and link["destination"] == link["source"] + 1
    }
    worst = bottleneck or {"kind": None}
    shown = _busiest(chips)
    left_out = len(chips) - len(shown)
    table = Table(
        box=box.ASCII2 if ascii_only else box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=True,
        padding=(0, 1),
        header_style="dim",
        caption=f"{left_out} less busy chips are left out" if left_out else None,
    )
    table.add_column("chip", justify="right", no_wrap=True)
    table.add_column("busy", no_wrap=True)
    table.add_column("SRAM", no_wrap=True)
    table.add_column("ops", justify="right", no_wrap=True)
    table.add_column("link to the next", no_wrap=True)
    for row in shown:
        is_worst = worst["kind"] == "chip" and worst["chip"] == row["chip"]
        link = to_next.get(row["chip"])
        link_worst = (
            link is not None and worst["kind"] == "link" and worst["source"] == link["source"]
        )
        table.add_row(
            Text(str(row["chip"]), style="bold red" if is_worst else ""),
            _bar(row["utilisation"], BUSY_CELLS, _busy_style(is_worst), ascii_only),
            _sram(row, ascii_only),
            Text(UNKNOWN if row["ops"] is None else f"{row['ops']:,}"),
            _link(link, link_worst, ascii_only),
        )
    return table


def host_links_line(links: list[_Row] | None, bottleneck: _Row | None) -> Text | None:
    """The busiest link from the host and the busiest link to it; None where there is none."""
    into = [link for link in links or [] if link["source"] < 0]
    out = [link for link in links or [] if link["destination"] < 0 <= link["source"]]
    parts: list[str] = []
    for found, word in ((into, "into chip"), (out, "out of chip")):
        if found:
            busiest = max(found, key=lambda link: link["busy_s"])
            chip = busiest["destination"] if word == "into chip" else busiest["source"]
            load = bytes_text(busiest["bytes_per_inference"])
            parts.append(f"{word} {chip} {percent_text(busiest['utilisation'])} ({load})")
    if not parts:
        return None
    is_worst = bottleneck is not None and bottleneck["kind"] == "host"
    return Text(" host links  " + ", ".join(parts), style="bold red" if is_worst else "dim")


def _busiest(chips: list[_Row]) -> list[_Row]:
    if len(chips) <= MAX_CHIPS:
        return chips
    ranked = sorted(chips, key=lambda row: (-(row["busy_s"] or 0.0), row["chip"]))
    return sorted(ranked[:MAX_CHIPS], key=lambda row: row["chip"])


def _sram(row: _Row, ascii_only: bool) -> Text:
    used, limit = row["sram_high_water_bytes"], row["sram_bytes"]
    share = used / limit if used is not None and limit else None
    style = "red" if share is not None and share > 1 else "blue"
    return Text.assemble(_cells(share, SRAM_CELLS, style, ascii_only), f" {bytes_text(used):>10}")


def _link(link: _Row | None, is_worst: bool, ascii_only: bool) -> Text:
    if link is None:
        return Text()
    bar = _bar(link["utilisation"], LINK_CELLS, _busy_style(is_worst, "magenta"), ascii_only)
    return Text.assemble(bar, f" {bytes_text(link['bytes_per_inference']):>10}")


def _busy_style(is_worst: bool, otherwise: str = "green") -> str:
    return "bold red" if is_worst else otherwise


def _bar(share: float | None, cells: int, style: str, ascii_only: bool) -> Text:
    return Text.assemble(_cells(share, cells, style, ascii_only), f" {percent_text(share):>7}")


def _cells(share: float | None, cells: int, style: str, ascii_only: bool) -> Text:
    """A bar of fixed width; a share above 1 fills it."""
    part = min(max(share or 0.0, 0.0), 1.0) * cells
    if ascii_only:
        full = round(part)
        return Text.assemble(("#" * full, style), ("." * (cells - full), "dim"))
    eighths = round(part * 8)
    full, rest = divmod(eighths, 8)
    drawn = "█" * full + (_EIGHTHS[rest] if rest else "")
    return Text.assemble((drawn, style), (" " * (cells - len(drawn)), ""))
