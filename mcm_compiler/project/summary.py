"""A build as Markdown: what failed and why, and every figure next to that of the baseline."""

from __future__ import annotations

from collections.abc import Sequence

from mcm_compiler.ci.comparison import Comparison, change_text
from mcm_compiler.diagnostics import Diagnostic, Severity
from mcm_compiler.project.cell_record import CellFigures
from mcm_compiler.project.verdicts import CellOutcome
from mcm_compiler.report.verdict.words import gap_text
from mcm_compiler.text.units import UNKNOWN, count_text, escaped, printable, rate_text, seconds_text

MAX_BYTES = 900_000
"""GitHub takes a mebibyte from all commands of a step together."""

MAX_SHOWN = 50
"""Cells whose diagnostics are written out."""

FIGURES = ("throughput", "change", "period", "gap", "latency", "chips")
"""Columns of a table besides a cell's name and result."""

_HEAD = f"| cell | result | {' | '.join(FIGURES)} |\n|---|---|{'---:|' * len(FIGURES)}\n"


def counts_text(outcomes: Sequence[CellOutcome]) -> str:
    """Such as `300 cells: 299 ok, 1 failed, 297 from the cache`."""
    cached = sum(outcome.cached for outcome in outcomes)
    again = sum(outcome.proven_again for outcome in outcomes)
    text = verdicts_text(outcomes) + (f", {cached} from the cache" if cached else "")
    return text + (f" ({again} proven again)" if again else "")


def verdicts_text(outcomes: Sequence[CellOutcome]) -> str:
    """The same of a build whose cache does not matter."""
    failed = sum(outcome.failed for outcome in outcomes)
    known = sum(outcome.expectedly_failed for outcome in outcomes)
    slower = sum(o.comparison is not None and o.comparison.regressed for o in outcomes)
    text = f"{count_text(len(outcomes), 'cell')}: {len(outcomes) - failed} ok, {failed} failed"
    for number, words in ((slower, "slower than the baseline"), (known, "failed as expected")):
        text += f", {number} {words}" if number else ""
    return text


def summary_markdown(outcomes: Sequence[CellOutcome], of_project: Sequence[Diagnostic] = ()) -> str:
    """The summary: failures first, then cells whose throughput changed, then the rest folded.

    Args:
        outcomes: of all cells.
        of_project: messages about the project file itself.
    """
    failed = [outcome for outcome in outcomes if outcome.failed]
    changed = [
        outcome
        for outcome in outcomes
        if not outcome.failed and outcome.comparison is not None and outcome.comparison.change != 0
    ]
    shown = {outcome.cell.folder for outcome in (*failed, *changed)}
    rest = [outcome for outcome in outcomes if outcome.cell.folder not in shown]
    parts = [f"## mcmc build\n\n{counts_text(outcomes)}\n"]
    if of_project:
        parts.append("\n".join(map(_item, of_project)) + "\n")
    if failed:
        parts.append(f"### Failed\n\n{_table(failed)}")
        parts += [_diagnosed(outcome) for outcome in failed[:MAX_SHOWN]]
        if len(failed) > MAX_SHOWN:
            parts.append(f"The diagnostics of {len(failed) - MAX_SHOWN} more are in the log.\n")
    if changed:
        parts.append(f"### Changed\n\n{_table(changed)}")
    if rest:
        head = f"<details><summary>{count_text(len(rest), 'further cell')}</summary>"
        parts.append(f"{head}\n\n{_table(rest)}\n</details>\n")
    return _cut("\n".join(parts))


def _table(outcomes: Sequence[CellOutcome]) -> str:
    return _HEAD + "".join(map(_row, outcomes))


def _row(outcome: CellOutcome) -> str:
    verdict = verdict_text(outcome)
    if outcome.failed:
        verdict = f"**failed**{verdict.removeprefix('failed')}"
    elif outcome.cached and outcome.cell.expected is None:
        verdict += ", cached"
    texts = figure_texts(outcome.record.figures, outcome.comparison)
    return f"| {' | '.join((_code(outcome.cell.title), verdict, *texts))} |\n"


def verdict_text(outcome: CellOutcome) -> str:
    """`ok`, `failed: MCM-B015`, or `MCM-P016, as expected`."""
    if outcome.failed:
        return f"failed: {', '.join(dict.fromkeys(outcome.error_codes))}"
    if outcome.cell.expected is not None:
        return f"{outcome.cell.expected.code}, as expected"
    return "ok"


def figure_texts(figures: CellFigures | None, comparison: Comparison | None) -> tuple[str, ...]:
    """The figures of a cell in the order of `FIGURES`."""
    if figures is None:
        return (UNKNOWN,) * len(FIGURES)
    return (
        rate_text(figures.throughput_per_s),
        change_text(comparison) if comparison is not None else UNKNOWN,
        seconds_text(figures.period_s),
        gap_text(figures.verdict["optimality"]),
        seconds_text(figures.latency_s),
        UNKNOWN if figures.chips_used is None else str(figures.chips_used),
    )


def _diagnosed(outcome: CellOutcome) -> str:
    lines = [f"{_code(outcome.cell.title)}\n"]
    for diagnostic in outcome.diagnostics:
        if diagnostic.severity is Severity.NOTE and outcome.comparison is None:
            continue
        lines.append(_item(diagnostic))
    return "\n".join(lines) + "\n"


def _item(diagnostic: Diagnostic) -> str:
    return "- " + "<br>".join(escaped(printable(line.strip())) for line in diagnostic.lines())


def _code(name: str) -> str:
    """A name that reads as code, whatever stands in it."""
    return f"<code>{escaped(printable(name))}</code>"


def _cut(text: str) -> str:
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= MAX_BYTES:
        return text
    lines = data[:MAX_BYTES].decode("utf-8", "ignore").rpartition("\n")[0]
    return f"{lines}\n\nThe summary was cut here.\n"
