"""One line per chip: how busy it is, how full its SRAM is, and what it sends on."""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from mcm_compiler.machines.machine import HOST, HOST_ROOT, OFF_PACKAGE, OFF_PACKAGE_ROOT
from mcm_compiler.report.sentences import shared_sentence
from mcm_compiler.text.headline import LEAST_BESIDE
from mcm_compiler.text.styled import Group, Table, Text, View, wrapped
from mcm_compiler.text.units import UNKNOWN, bytes_text, percent_text

MAX_CHIPS = 64
"""Larger packages show their busiest chips."""

LEAST_WAIT = 0.0005
"""Shares of the period below it are not shown: they would read 0.0 %."""

LABEL_COLUMNS = 14
"""Before the text of a line with a label."""

_EIGHTHS = " ▏▎▍▌▋▊▉"

_Row = dict[str, Any]


@dataclass(frozen=True)
class BarStyle:
    """Lengths of full bars in characters, what they are drawn with, and whether waits are shown."""

    busy_cells: int = 24
    small_cells: int = 6
    ascii_only: bool = False
    waits: bool = True

    @classmethod
    def for_width(cls, width: int, ascii_only: bool) -> BarStyle:
        """Bars with which the table fits `width` columns, from 72 on."""
        if width >= 98:
            return cls(min(24, width - 88), 6, ascii_only)
        return cls(max(4, min(24, width - 66)), 3, ascii_only, waits=False)


def chip_view(
    chips: list[_Row],
    links: list[_Row] | None,
    bottleneck: _Row | None,
    width: int,
    *,
    ascii_only: bool,
) -> View:
    """The chips as a table, without bars where these do not fit, else line by line.

    Args:
        chips: `chips` of the report.
        links: `links` of the report, or None.
        bottleneck: `bottleneck` of the report, or None; its chip or link stands out.
        width: columns; numbers are whole in all of them.
        ascii_only: for outputs that cannot encode more.
    """
    no_bars = BarStyle(0, 0, ascii_only, waits=False)
    for style in (BarStyle.for_width(width, ascii_only), no_bars):
        table = chip_table(chips, links, bottleneck, style)
        if table.columns <= width:
            return table
    return _chip_by_chip(chips, links, bottleneck, width)


def labelled_line(label: str, text: str, style: str, width: int) -> Text:
    """A line such as ` host links   into chip 0 ...`, which goes on below its text."""
    beside = width - LABEL_COLUMNS
    if beside < LEAST_BESIDE:
        lines = [f" {label}", *(f"  {line}" for line in wrapped(text, width - 2))]
    else:
        first, *rest = wrapped(text, beside)
        lines = [f" {label:<{LABEL_COLUMNS - 3}}  {first}"]
        lines += [f"{'':{LABEL_COLUMNS}}{line}" for line in rest]
    return Text("\n".join(lines), style=style)


def chip_table(
    chips: list[_Row], links: list[_Row] | None, bottleneck: _Row | None, style: BarStyle
) -> Table:
    """The chips as a table with bars, by number.

    Of each its link to the next chip is shown, or where tensors go elsewhere as well its busiest
    link, with the chip that it leads to.

    Args:
        chips: `chips` of the report.
        links: `links` of the report, or None.
        bottleneck: `bottleneck` of the report, or None; its chip or link stands out.
        style: lengths of the bars.
    """
    link_of, in_a_row = _shown_links(links)
    worst = bottleneck or {"kind": None}
    shown = _busiest(chips)
    left_out = len(chips) - len(shown)
    table = Table(
        ascii_only=style.ascii_only,
        caption=f"{left_out} less busy chips are left out" if left_out else None,
    )
    table.add_column("chip", justify="right")
    table.add_column("busy")
    if style.waits:
        table.add_column("waits for")
    table.add_column("SRAM")
    table.add_column("ops", justify="right")
    table.add_column("link to the next" if in_a_row else "busiest link, to")
    for row in shown:
        is_worst = worst["kind"] == "chip" and worst["chip"] == row["chip"]
        link = link_of.get(row["chip"])
        link_worst = link is not None and worst["kind"] == "link" and _same_ends(worst, link)
        table.add_row(
            Text(str(row["chip"]), style="bold red" if is_worst else ""),
            _bar(row["utilisation"], style.busy_cells, _busy_colour(is_worst), style),
            *([_waits(row)] if style.waits else []),
            _sram(row, style),
            Text(UNKNOWN if row["ops"] is None else f"{row['ops']:,}"),
            _link(link, link_worst, style, named=not in_a_row),
        )
    return table


def _shown_links(links: list[_Row] | None) -> tuple[dict[int, _Row], bool]:
    """The busiest link out of each chip, and whether all links lead to the next chip."""
    between = [k for k in links or [] if k["source"] >= 0 and k["destination"] >= 0]
    in_a_row = all(link["destination"] == link["source"] + 1 for link in between)
    return {k["source"]: k for k in sorted(between, key=itemgetter("busy_s"))}, in_a_row


def _chip_by_chip(
    chips: list[_Row], links: list[_Row] | None, bottleneck: _Row | None, width: int
) -> Group:
    """The numbers of a chip below each other."""
    link_of, in_a_row = _shown_links(links)
    worst = bottleneck or {"kind": None}
    shown = _busiest(chips)
    lines: list[Text] = []
    for row in shown:
        is_worst = worst["kind"] == "chip" and worst["chip"] == row["chip"]
        lines.append(Text(f" chip {row['chip']}", style="bold red" if is_worst else "bold"))
        cells = [
            ("busy", percent_text(row["utilisation"])),
            ("waits", " ".join(_waits(row).plain.split())),
            ("SRAM", bytes_text(row["sram_high_water_bytes"])),
            ("ops", UNKNOWN if row["ops"] is None else f"{row['ops']:,}"),
        ]
        if (link := link_of.get(row["chip"])) is not None:
            cells += [
                ("" if in_a_row else "to", "" if in_a_row else f"chip {link['destination']}"),
                ("link", percent_text(link["utilisation"])),
                ("", bytes_text(link["bytes_per_inference"])),
            ]
        for label, value in cells:
            part = wrapped(value, width - 9) if value else []
            lines += [
                Text(f"  {label if i == 0 else '':<5}  {line}") for i, line in enumerate(part)
            ]
    if left_out := len(chips) - len(shown):
        lines += map(Text, wrapped(f"{left_out} less busy chips are left out", width))
    return Group(*lines)


def link_lines(links: list[_Row] | None, bottleneck: _Row | None, width: int) -> list[Text]:
    """Loads of the channels outside the package: the busiest of each kind, and what all share."""
    links = links or []
    into = [k for k in links if k["source"] == HOST and k["destination"] >= 0]
    out = [k for k in links if k["destination"] == HOST and k["source"] >= 0]
    memory = [k for k in links if k["source"] == OFF_PACKAGE]
    on_host = [
        *_busiest_link("into chip", into, "destination"),
        *_busiest_link("out of chip", out, "source"),
    ]
    streamed = _busiest_link("into chip", memory, "destination")
    shared = shared_sentence(links)
    worst = bottleneck or {"kind": None, "source": None, "destination": None}
    roots = {worst["source"], worst["destination"]} & {HOST_ROOT, OFF_PACKAGE_ROOT}
    rows = (
        ("host links", on_host, worst["kind"] == "host"),
        ("off-package", streamed, worst["kind"] == "memory"),
        ("all chips", [shared] if shared else [], bool(roots)),
    )
    return [
        labelled_line(label, ", ".join(parts), "bold red" if is_worst else "dim", width)
        for label, parts, is_worst in rows
        if parts
    ]


def _busiest_link(word: str, links: list[_Row], end: str) -> list[str]:
    """The load of the busiest of `links`, as at most one text."""
    if not links:
        return []
    busiest = max(links, key=itemgetter("busy_s"))
    load = bytes_text(busiest["bytes_per_inference"])
    return [f"{word} {busiest[end]} {percent_text(busiest['utilisation'])} ({load})"]


def _busiest(chips: list[_Row]) -> list[_Row]:
    if len(chips) <= MAX_CHIPS:
        return chips
    ranked = sorted(chips, key=lambda row: (-(row["busy_s"] or 0.0), row["chip"]))
    return sorted(ranked[:MAX_CHIPS], key=lambda row: row["chip"])


def _waits(row: _Row) -> Text:
    """The reason for which a chip waits most, and the share of the period that it does."""
    stalls: dict[str, float] = row["stall_s"] or {}
    if not stalls or not row["busy_s"] or not row["utilisation"]:
        return Text()
    reason, seconds = max(stalls.items(), key=itemgetter(1))
    part = seconds * row["utilisation"] / row["busy_s"]
    if part < LEAST_WAIT:
        return Text()
    return Text(f"{reason[:6]:<6} {percent_text(part):>7}", style="yellow")


def _sram(row: _Row, style: BarStyle) -> Text:
    used, limit = row["sram_high_water_bytes"], row["sram_bytes"]
    share = used / limit if used is not None and limit else None
    colour = "red" if share is not None and share > 1 else "blue"
    return Text.assemble(_cells(share, style.small_cells, colour, style), f" {bytes_text(used):>9}")


def _same_ends(one: _Row, other: _Row) -> bool:
    return all(one[end] == other[end] for end in ("source", "destination"))


def _link(link: _Row | None, is_worst: bool, style: BarStyle, *, named: bool) -> Text:
    if link is None:
        return Text()
    colour = _busy_colour(is_worst, "magenta")
    load = f" {bytes_text(link['bytes_per_inference']):>9}"
    if named:
        # Instead of the bar, so that lines do not get longer.
        to = f"{link['destination']:>{max(style.small_cells, 3)}}"
        return Text.assemble((f"{to} {percent_text(link['utilisation']):>7}", colour), load)
    return Text.assemble(_bar(link["utilisation"], style.small_cells, colour, style), load)


def _busy_colour(is_worst: bool, otherwise: str = "green") -> str:
    return "bold red" if is_worst else otherwise


def _bar(share: float | None, cells: int, colour: str, style: BarStyle) -> Text:
    return Text.assemble(_cells(share, cells, colour, style), f" {percent_text(share):>7}")


def _cells(share: float | None, cells: int, colour: str, style: BarStyle) -> Text:
    """A bar of fixed width; a share above 1 fills it."""
    part = min(max(share or 0.0, 0.0), 1.0) * cells
    if style.ascii_only:
        full = round(part)
        return Text.assemble(("#" * full, colour), ("." * (cells - full), "dim"))
    full, rest = divmod(round(part * 8), 8)
    drawn = "█" * full + (_EIGHTHS[rest] if rest else "")
    return Text.assemble((drawn, colour), (" " * (cells - len(drawn)), ""))
