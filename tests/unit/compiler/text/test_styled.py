"""Lines of styled text: breaks, tables, and what does not fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcm_compiler.text.styled import Labelled, Table, Text, columns_of, cropped, plain_lines


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("", 4, [""]),
        ("one two", 7, ["one two"]),
        ("one two", 6, ["one", "two"]),
        ("one  two three", 9, ["one  two", "three"]),
        ("a longword b", 4, ["a", "long", "word", "b"]),
        ("a longword b", 6, ["a", "longwo", "rd b"]),
        ("one\ntwo", 9, ["one", "two"]),
        ("日本語 日", 4, ["日本", "語", "日"]),
    ],
)
def test_text_is_broken_between_words(text: str, width: int, lines: list[str]) -> None:
    assert plain_lines(Text(text), width) == lines


@given(st.text(st.sampled_from("ab \u65e5e\u0301"), max_size=40), st.integers(2, 12))
def test_lines_fit_and_lose_nothing_but_blanks(text: str, width: int) -> None:
    lines = plain_lines(Text(text), width)
    assert all(columns_of(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_styles_stay_with_their_characters() -> None:
    text = Text.assemble("aa ", ("bbb", "bold"), Text(" cc", "dim"))
    assert text.plain == "aa bbb cc"
    assert text.lines(5) == [[("aa", "")], [("bbb", "bold")], [("cc", "dim")]]
    assert text.lines(9) == [[("aa ", ""), ("bbb", "bold"), (" cc", "dim")]]


def test_labels_stand_before_their_text() -> None:
    labelled = Labelled([("a", Text("one two")), ("bcd", Text(""))])
    assert plain_lines(labelled, 9) == ["a    one", "     two", "bcd"]


def test_table_aligns_and_is_cut_off() -> None:
    table = Table(caption="c")
    table.add_column("n", justify="right")
    table.add_column("name")
    table.add_row(Text("10"), Text("a"))
    table.add_row(Text("9"), Text("bb"))
    assert plain_lines(table, 40) == ["  n   name", "───────────", " 10   a", "  9   bb", "     c"]
    assert plain_lines(table, 5)[1] == "─────"
    assert table.columns == 11
    table = Table(ascii_only=True, headers=table.headers, rows=table.rows)
    assert plain_lines(table, 40)[:2] == ["  n | name", "----+------"]


def test_cropped_counts_columns() -> None:
    assert cropped("abc", 2) == "ab"
    assert cropped("a日本", 4) == "a日"
    assert cropped("abc", 0) == ""
