"""Untrusted tables of measured times: any bytes are a table or a diagnostic with its line."""

from __future__ import annotations

import re

from hypothesis import example, given, settings
from hypothesis import strategies as st

from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_hardware.measured_times.times import TimesTable
from mcm_hardware.measured_times.times_file import COLUMNS, MAX_FAULTS, read_times

cells = st.sampled_from(
    ["", "a", "b", "1", "1e-6", "-1", "nan", "1e999", "3x4;5", "scalar", "-", "float", "fast", '"',
     "\r", "\n", "\x00", "é", ";", "x" * 50]
)  # fmt: skip
headers = st.lists(st.sampled_from([*COLUMNS, "other"]), min_size=1, max_size=8)
tables = st.builds(
    lambda header, rows: "\n".join(",".join(row) for row in [header, *rows]).encode(),
    headers,
    st.lists(st.lists(cells, min_size=1, max_size=8), max_size=30),
)


@given(st.one_of(st.binary(max_size=200), tables), st.sampled_from(["", "fast"]))
@example(b"node,seconds\n" + b"x\n" * 30 + b",,\n", "")
@settings(max_examples=500)
def test_any_bytes_are_a_table_or_a_diagnostic(data: bytes, chip: str) -> None:
    found, faults = _read(data, chip)
    last = data.count(b"\n") + data.count(b"\r") + 1
    for fault in faults:
        place = re.fullmatch(r"t\.csv:(\d+)", fault.at or "")
        assert fault.code == "MCM-C005"
        assert fault.hint
        assert place is not None
        assert 1 <= int(place.group(1)) <= last
    assert len(faults) <= MAX_FAULTS
    if found is not None:
        rows = [*found.nodes.values(), *found.kernels.values(), *found.kinds.values()]
        assert rows
        assert all(0.0 <= row.seconds <= 1e9 for row in rows)
    assert (found is None) == bool(faults)


def _read(data: bytes, chip: str) -> tuple[TimesTable | None, tuple[Diagnostic, ...]]:
    try:
        return read_times(data, "t.csv", chip), ()
    except CompileError as error:
        return None, error.diagnostics


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1),
        st.floats(0, 1e9, allow_nan=False),
        min_size=1,
        max_size=20,
    )
)
def test_what_a_csv_writer_writes_is_read_back(times: dict[str, float]) -> None:
    import csv
    import io

    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerows([("kernel", "seconds"), *((n, repr(s)) for n, s in times.items())])
    found = read_times(buffer.getvalue().encode(), "t.csv", "").kernels
    assert {name: time.seconds for name, time in found.items()} == times
