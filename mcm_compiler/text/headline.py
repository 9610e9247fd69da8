"""The headline of a result: one line in a session, a verdict on a terminal and in a notebook."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcm_compiler.text.styled import Group, Labelled, Text, View, html_text, wrapped
from mcm_compiler.text.units import printable, printable_data

NOTEBOOK_WIDTH = 100
"""Columns of a verdict in a notebook."""

MARGIN = 2
"""Columns between the two ends of the title."""

LEAST_BESIDE = 26
"""Columns below which a text is below its label."""

_STYLES = {"good": "green", "warn": "yellow", "bad": "bold red", "plain": ""}
_SECONDARY = ("limited by", "idle", "next")
"""Labels that the one line leaves out."""


@dataclass(frozen=True)
class Headline:
    """A verdict with its title. Its texts may be hostile: what does not print is escaped.

    Attributes:
        ends: what was compiled or placed, for what (or nothing), and the basis of the figures.
        lines: as `mcm_compiler.report.records.verdict.VerdictLine`.
        good: whether it fits, and every comparison that ran holds.
        summary: for the one line; the headlines of the most important lines by default.
    """

    ends: tuple[str, str, str]
    lines: Sequence[Mapping[str, Any]]
    good: bool
    summary: str = ""

    def title(self, *, ascii_only: bool = False) -> str:
        """Such as `✓ resnet50 → mcm36`."""
        subject, target, _ = map(printable, self.ends)
        good, bad, arrow = ("+", "x", "->") if ascii_only else ("✓", "✗", "→")
        sign = good if self.good else bad
        return f"{sign} {subject} {arrow} {target}" if target else f"{sign} {subject}"

    def line(self) -> str:
        """The verdict in one line."""
        shown = [x["headline"] for x in self.lines if x["label"] not in _SECONDARY]
        summary = self.summary or "; ".join(shown)
        return printable(f"{self.title()}: {summary}" if summary else self.title())

    def view(self, width: int, *, ascii_only: bool = False) -> View:
        """The title and the lines of the verdict.

        Args:
            width: columns.
            ascii_only: for outputs that cannot encode more.
        """
        name, basis = self.title(ascii_only=ascii_only), printable(self.ends[2])
        style = "bold green" if self.good else "bold red"
        blank = width - len(name) - len(basis)
        if blank >= MARGIN:
            title: View = Text.assemble((name, style), " " * blank, (basis, "dim"))
        else:
            title = Group(
                *(Text(line, style) for line in wrapped(name, width)),
                *(Text(line, "dim") for line in wrapped(basis, width)),
            )
        rows = [
            (line["label"], Text(line_text(line), _STYLES[line["tone"]]))
            for line in map(printable_data, self.lines)
        ]
        return Group(title, labelled_view(rows, width)) if rows else title


class Shown:
    """A result that shows its verdict in a session and in a notebook."""

    @property
    @abstractmethod
    def headline(self) -> Headline:
        """Its verdict."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.headline.line()}>"

    def _repr_html_(self) -> str:
        return html_text(self.headline.view(NOTEBOOK_WIDTH), NOTEBOOK_WIDTH)


def line_text(line: Mapping[str, Any]) -> str:
    """A line of a verdict without its label."""
    return "; ".join([line["headline"], *line["details"]])


def labelled_view(rows: list[tuple[str, Text]], width: int) -> View:
    """Labels with texts next to them, or below them where the width leaves too little."""
    beside = width - max(len(label) for label, _ in rows) - 3
    if beside < LEAST_BESIDE:
        lines: list[View] = []
        for label, text in rows:
            lines.append(Text(f" {label}", style="dim"))
            # One column less than elsewhere: `14,496 inferences/s` then fits 20 columns.
            lines += [Text(f" {line}", text.style) for line in wrapped(text.plain, width - 1)]
        return Group(*lines)
    return Labelled(
        [
            (f" {label}", Text("\n".join(wrapped(text.plain, beside)), text.style))
            for label, text in rows
        ]
    )
