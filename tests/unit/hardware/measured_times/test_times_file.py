"""Tables of measured times: what a row may say, and the line and hint of every fault."""

from __future__ import annotations

import pytest

from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_hardware.measured_times.times_file import MAX_FAULTS, MeasuredTime, OpKind, read_times

FULL = """node,kernel,op_type,inputs,type,chip,seconds
conv1,,,,,,1.5e-6
,relu1,,,,,2
,,Conv,1x3x8x8;4x3x3x3;-,float16,,.5
,,com.acme.Blend,scalar,float,,0
"""


def faults(text: str | bytes, chip: str = "") -> list[Diagnostic]:
    data = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(CompileError) as caught:
        read_times(data, "t.csv", chip)
    return list(caught.value.diagnostics)


def fault(text: str | bytes, chip: str = "") -> Diagnostic:
    (found,) = faults(text, chip)
    assert found.code == "MCM-C005"
    assert found.hint
    return found


def test_ops_kernels_and_kinds_have_their_times() -> None:
    table = read_times(FULL.encode(), "t.csv", "")
    assert table.nodes == {"conv1": MeasuredTime(1.5e-6, 2)}
    assert table.kernels == {"relu1": MeasuredTime(2.0, 3)}
    assert table.kinds == {
        OpKind("Conv", "1x3x8x8;4x3x3x3;-", "float16"): MeasuredTime(0.5, 4),
        OpKind("com.acme.Blend", "scalar", "float"): MeasuredTime(0.0, 5),
    }


def test_columns_stand_in_any_order_and_names_may_hold_commas() -> None:
    text = '\ufeffseconds,node\r\n1e-3,"a,b ""c"""\r\n\r\n2e-3, d\r\n'
    table = read_times(text.encode(), "t.csv", "")
    assert {name: time.seconds for name, time in table.nodes.items()} == {
        'a,b "c"': 1e-3,
        " d": 2e-3,
    }


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        ("nan", "no number"),
        ("inf", "no number"),
        ("1_000", "no number"),
        ("12us", "no number"),
        ("", "has no time"),
        (" ", "has no time"),
        ("-1e-9", "negative"),
        ("1e10", "more than 1e+09 seconds"),
        ("9e999", "more than 1e+09 seconds"),
    ],
)
def test_a_time_that_is_none_is_told_with_its_line(seconds: str, words: str) -> None:
    found = fault(f"node,seconds\na,1\nb,{seconds}\nc,2\n")
    assert found.at == "t.csv:3"
    assert words in found.message
    assert "'b'" in found.message


def test_two_rows_of_one_op_name_both_lines() -> None:
    found = fault("node,seconds\na,1\nb,2\na,1\n")
    assert (found.at, found.message) == ("t.csv:4", "'a' has a time already, in line 2")


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("node,secs", "'secs'"),
        ("node,second", "did you mean 'seconds'?"),
        ("node,seconds,seconds", "twice"),
        ("node", "needs 'seconds'"),
        ("seconds", "one of node, kernel, op_type"),
        ("op_type,seconds,type", "lacks 'inputs'"),
        ("a,1", "has a column 'a'"),
    ],
)
def test_a_header_that_is_none_is_refused(header: str, words: str) -> None:
    found = fault(f"{header}\nx,1\n")
    assert found.at == "t.csv:1"
    assert words in found.message


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("a,,,,,,1,2", "8 cells, the header 7 columns"),
        (",,,,,,1", "names nothing"),
        ("a,b,,,,,1", "node and kernel at once"),
        ("a,,,3,,,1", "go with op_type"),
        (",,Conv,3xx4,float,,1", "no shapes"),
        (",,Conv,3;,float,,1", "no shapes"),
        (",,Conv,3x4,,,1", "no element type"),
        (",,Conv,3x4,float8,,1", "no element type"),
    ],
)
def test_a_row_that_says_nothing_clear_is_refused(row: str, words: str) -> None:
    header = FULL.splitlines()[0]
    found = fault(f"{header}\n{row}\n")
    assert found.at == "t.csv:2"
    assert words in found.message


@pytest.mark.parametrize(
    ("data", "words", "line"),
    [
        (b"", "no header", 1),
        (b"node,seconds\n", "no times", 1),
        (b"node,seconds\na,1\n\xff,2\n", "not UTF-8", 3),
        (b'node,seconds\n"a"b,1\n', "not CSV", 2),
        (b"node,seconds\n" + b"x" * 200_000 + b",1\n", "not CSV", 2),
    ],
)
def test_a_file_that_is_no_table_is_refused(data: bytes, words: str, line: int) -> None:
    found = fault(data)
    assert words in found.message
    assert found.at == f"t.csv:{line}"


def test_many_faults_are_told_up_to_a_number() -> None:
    rows = "".join(f"n{i},x\n" for i in range(1000))
    assert len(faults(f"node,seconds\n{rows}")) == MAX_FAULTS


KINDS = "node,chip,seconds\na,,1\na,fast,2\nb,slow,3\nb,fast,4\nc,,5\nd,fast,6\nd,,7\n"


def test_rows_of_the_kind_of_chip_win_over_those_of_every_kind() -> None:
    times = read_times(KINDS.encode(), "t.csv", "fast").nodes
    assert {name: time.seconds for name, time in times.items()} == {"a": 2, "b": 4, "c": 5, "d": 6}
    times = read_times(KINDS.encode(), "t.csv", "slow").nodes
    assert {name: time.seconds for name, time in times.items()} == {"a": 1, "b": 3, "c": 5, "d": 7}


def test_a_table_about_several_kinds_needs_one_of_them_named() -> None:
    assert "'fast', 'slow'" in fault(KINDS).message
    assert "no row is about the kind of chip 'other'" in fault(KINDS, "other").message
