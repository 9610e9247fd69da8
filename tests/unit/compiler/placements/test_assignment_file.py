"""Assignments as CSV and JSON, in and out."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.placements.assignment_file import AssignedName, assignment_text, read_assignment


def read(path, text):
    path.write_text(text, newline="")
    return [(row.name, row.chip) for row in read_assignment(path)]


def faults(path, text):
    with pytest.raises(CompileError) as caught:
        read(path, text)
    assert {d.code for d in caught.value.diagnostics} == {"MCM-F010"}
    return [d.message for d in caught.value.diagnostics]


@pytest.mark.parametrize("header", ["name,chip\n", "op,device\r\n", ""])
def test_csv_with_and_without_a_header(tmp_path, header):
    text = header + 'a,0\n\n"b,""c""",3\n/x/*, 1\n'
    assert read(tmp_path / "a.csv", text) == [("a", 0), ('b,"c"', 3), ("/x/*", 1)]


@pytest.mark.parametrize(
    "data",
    [
        {"a": 0, "b": 2},
        {"assignment": {"a": 0, "b": 2}},
        {"assignment": [{"name": "a", "chip": 0}, {"name": "b", "device": 2, "id": 9}]},
        [{"name": "a", "chip": 0}, {"name": "b", "chip": 2}],
    ],
)
def test_forms_of_json(tmp_path, data):
    assert read(tmp_path / "a.JSON", json.dumps(data)) == [("a", 0), ("b", 2)]


def test_places_are_lines_and_entries(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("name,chip\na,0\n")
    assert read_assignment(path) == (AssignedName("a", 0, f"{path}:2"),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("name,chip\n", "empty"),
        ("a,nan\n", "no number of a chip"),
        ("a,-1\n", "no number of a chip"),
        ("a,1.5\n", "no number of a chip"),
        ("a,99999999999\n", "no number of a chip"),
        ("a,\u0663\n", "no number of a chip"),
        ("a,0\na,0\n", "assigned twice"),
        (",0\n", "no name"),
        ("a\n", "1 cells and not two"),
        ("a,0,1\n", "3 cells and not two"),
        ('"a,0\n', "not CSV"),
        ("a\0,0\n", "NUL"),
        ("a" * 200_000 + ",0\n", "not CSV"),
    ],
)
def test_bad_csv(tmp_path, text, words):
    assert words in faults(tmp_path / "a.csv", text)[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("3", "neither an object nor a list"),
        ('{"a": "b"}', "no number of a chip"),
        ('{"a": true}', "no number of a chip"),
        ('{"a": NaN}', "NaN"),
        ('{"a": 0, "a": 1}', "twice"),
        ('{"assignment": [3]}', "not an object"),
        ('{"assignment": [{"name": "a"}]}', "0 of the keys"),
        ('{"assignment": [{"chip": 1}]}', "no name"),
        ("[" * 99_999, "deep"),
    ],
)
def test_bad_json(tmp_path, text, words):
    assert words in faults(tmp_path / "a.json", text)[0]


def test_all_faulty_rows_are_reported(tmp_path):
    assert len(faults(tmp_path / "a.csv", "a,x\nb,0\nc,-2\n")) == 2


NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)


@given(st.dictionaries(NAMES, st.integers(0, 4095), min_size=1), st.booleans(), st.booleans())
def test_what_is_written_is_read(tmp_path_factory, chip_of, as_json, device):
    path = tmp_path_factory.mktemp("a") / ("a.json" if as_json else "a.csv")
    text = assignment_text(chip_of, "device" if device else "chip", as_json=as_json)
    path.write_bytes(text.encode())
    assert {row.name: row.chip for row in read_assignment(path)} == chip_of
