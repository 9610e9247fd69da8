"""A comparison of two folders as a page: answers first, then what moved, times and memory."""

from __future__ import annotations

from collections.abc import Iterable

from mcm_compiler.difference import text
from mcm_compiler.difference.compared import Difference
from mcm_compiler.page.contents import NOT_MEASURED, Answer, Page, Section, Table
from mcm_compiler.text.units import count_text, number_text, percent_text, seconds_text

LISTED = 1000
"""Rows of a table; the JSON form has all."""


def difference_page(found: Difference) -> Page:
    """The page of a comparison."""
    sections = (
        Section("figures", "Side by side", tables=_tables(text.figure_rows(found))),
        _why(found),
        Section("moved", "What moved", _lead(text.moves_title(found)), tables=_moved(found)),
        Section("times", "Times of kernels", _lead(text.times_title(found)), tables=_times(found)),
        Section("memory", "Memory", _lead(text.memory_title(found)), tables=_memory(found)),
        Section("ops", "Ops", (f"{_sentence(text.ops_sentence(found))}.",), tables=_ops(found)),
        Section("given", "Given otherwise", tables=_tables(text.setting_rows(found))),
    )
    return Page(
        f"{found.a.model} on {found.a.target}, and {found.b.model} on {found.b.target}"
        if (found.a.model, found.a.target) != (found.b.model, found.b.target)
        else f"{found.b.model} on {found.b.target}, before and now",
        (f"A, before: {found.a.folder}", f"B, now: {found.b.folder}"),
        _answers(found),
        tuple(section for section in sections if section.lead or section.tables),
        (NOT_MEASURED,),
    )


def _answers(found: Difference) -> tuple[Answer, ...]:
    comparison, a, b = found.comparison, found.a, found.b
    faster = comparison.change >= 0
    rates = (
        f"{number_text(a.throughput_per_s)} {found.per}s per second before, "
        f"{number_text(b.throughput_per_s)} now"
    )
    moved = sum(len(row.ops) for row in found.moved)
    answers = [
        Answer(
            "Is it faster?",
            found.verdict.removeprefix("B is ").removesuffix(" than A"),
            (rates, *filter(None, (text.models_sentence(found),))),
            "good" if faster else "bad",
            "figures",
        ),
        Answer(
            "What moved?",
            count_text(moved, "op") if moved else "nothing",
            (text.moves_title(found),),
            "plain",
            "moved",
        ),
        Answer(
            "What could be?",
            seconds_text(b.lower_bound_s),
            (
                f"the lower bound on the period, {seconds_text(a.lower_bound_s)} before",
                f"simulated {percent_text(b.gap)} above it, {percent_text(a.gap)} before",
            ),
            "plain",
            "why",
        ),
    ]
    if comparison.reasons:
        first, *further = comparison.reasons
        answers.insert(1, Answer("Why?", "", (first, *further[:2]), "plain", "why"))
    return tuple(answers)


def _why(found: Difference) -> Section:
    rows = tuple(
        (label, there or "-", here or "-")
        for label, there, here in (
            ("bound", found.a.bound_argument, found.b.bound_argument),
            ("bottleneck", found.a.bottleneck, found.b.bottleneck),
        )
    )
    lead = tuple(f"{_sentence(reason)}." for reason in found.comparison.reasons)
    return Section("why", "Why", lead, tables=(Table(("", "A, before", "B, now"), rows),))


def _moved(found: Difference) -> tuple[Table, ...]:
    rows = [
        (name, ", ".join(row.a) or "nowhere", ", ".join(row.b) or "nowhere")
        for row in found.moved
        for name in row.ops
    ]
    return _table(("op", "from", "to"), rows)


def _times(found: Difference) -> tuple[Table, ...]:
    rows = [
        (
            one.label,
            one.state,
            text.time_text(one.a_s, one.a_place),
            text.time_text(one.b_s, one.b_place),
            text.change_text(one.a_s, one.b_s),
        )
        for one in found.times
    ]
    return _table(("kernel", "", "A", "B", "change"), rows, {2, 3, 4})


def _memory(found: Difference) -> tuple[Table, ...]:
    return _tables(text.memory_rows(found), {1, 2, 3, 4, 5, 6, 7})


def _ops(found: Difference) -> tuple[Table, ...]:
    alone = [("A", name) for name in found.ops.only_a] + [("B", name) for name in found.ops.only_b]
    return (
        *_table(("A", "B"), found.ops.by_structure, caption="Matched by structure"),
        *_table(("only in", "op"), alone, caption="Without a partner"),
    )


def _tables(rows: Iterable[text.Cells], numbers: Iterable[int] = ()) -> tuple[Table, ...]:
    """A table of rows of text, the first of which has the heads."""
    cells = [tuple(cell.strip() for cell in row) for row in rows]
    return _table(cells[0], cells[1:], numbers) if len(cells) > 1 else ()


def _table(
    heads: tuple[str, ...],
    rows: Iterable[tuple[str, ...]],
    numbers: Iterable[int] = (),
    caption: str = "",
) -> tuple[Table, ...]:
    cells = tuple(rows)
    if not cells:
        return ()
    more = f"{caption}, {LISTED:,} of {len(cells):,}" if len(cells) > LISTED else caption
    return (Table(heads, cells[:LISTED], frozenset(numbers), more),)


def _lead(title: str) -> tuple[str, ...]:
    return (f"{_sentence(title)}.",) if title else ()


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]
