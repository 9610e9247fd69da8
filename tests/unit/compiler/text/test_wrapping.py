"""Folding text for narrow terminals, numbers whole."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from mcm_compiler.text.styled import fitted, wrapped
from mcm_compiler.text.units import bytes_text, percent_text, rate_text, seconds_text

SIZES = st.one_of(
    st.floats(1e-9, 1e4).map(seconds_text),
    st.integers(0, 2**50).map(bytes_text),
    st.floats(0.1, 99_999).map(rate_text),
    st.floats(0, 20).map(percent_text),
)
WORDS = st.one_of(SIZES, st.from_regex(r"\A[a-z0-9/_.]{1,40}\Z"), st.sampled_from(["of", "(up"]))


@given(st.lists(SIZES, min_size=1, max_size=6), st.integers(20, 200))
def test_quantities_stay_whole_between_words(sizes: list[str], width: int) -> None:
    lines = wrapped(" and then, ".join(sizes), width)
    assert all(len(line) <= width for line in lines)
    rest = " ".join(lines)
    for size in sizes:
        assert any(size in line for line in lines), (size, lines)
    assert rest == " and then, ".join(sizes)


@given(st.lists(WORDS, max_size=8), st.integers(20, 60))
def test_nothing_is_lost_and_no_number_is_broken(words: list[str], width: int) -> None:
    text = " ".join(words)
    lines = wrapped(text, width)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    numbers = re.findall(r"\d[\d,.]*", text)
    assert re.findall(r"\d[\d,.]*", "\n".join(lines)) == numbers
    assert all(len(line) <= width or re.search(rf"[\d,.]{{{width}}}", line) for line in lines)


@given(
    st.lists(st.tuples(st.from_regex(r"\A[a-z ]{1,50}\Z"), SIZES), min_size=1, max_size=4),
    st.integers(22, 200),
)
def test_rows_fold_their_text(rows: list[tuple[str, str]], width: int) -> None:
    for row, lines in zip(rows, fitted(rows, width), strict=True):
        assert all(len(line) <= width for line in lines)
        assert any(line.endswith(row[1]) for line in lines)
        told = "".join(lines).replace(" ", "")
        assert sorted(told) == sorted("".join(row).replace(" ", ""))


def test_the_shapes_of_rows() -> None:
    rows = [("greedy", "a cut along one order, in one pass", "1.5 MiB")]
    assert fitted(rows, None) == [["greedy  a cut along one order, in one pass  1.5 MiB"]]
    assert fitted(rows, 40) == [["greedy  a cut along one order,   1.5 MiB", "        in one pass"]]
    assert fitted(rows, 20) == [
        ["greedy", "  a cut along one", "  order, in one pass", "  1.5 MiB"]
    ]
    assert fitted([], 20) == []


def test_an_empty_text_is_a_line() -> None:
    assert wrapped("", 20) == [""]


def test_a_number_without_room_for_its_unit_is_whole() -> None:
    assert wrapped("1,234,567 inferences/s", 20) == ["1,234,567", "inferences/s"]
