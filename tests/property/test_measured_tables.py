"""Tables of measured times: any bytes are one or a diagnostic, and rows never harm a plan."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mcm_compiler import CompileOptions
from mcm_compiler.api import run_passes
from mcm_compiler.components.cost_choice import with_cost_model
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.contracts.partition import PARTITION, PARTITION_PROBLEM
from mcm_compiler.contracts.target import Target
from mcm_compiler.contracts.zoo import build_zoo_model
from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity
from mcm_hardware.measured_times.times_file import COLUMNS, MAX_FAULTS, TimesTable, read_times
from mcm_passes.mapping.models import evaluate

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
@settings(max_examples=250)
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


def compiled(model: ir.Model, target: Target) -> tuple[ir.Model, list[Diagnostic]]:
    options = CompileOptions(passes="simplify,fuse,annotate_cost,partition", level=1, replicas=1)
    found, notes, _ = run_passes(model, target, options)
    return found, [note for note in notes if note.code == "MCM-C007"]


def with_rows(target: Target, rows: Iterable[tuple[str, float]], more: str = "") -> Target:
    lines = "".join(f'"{name}",{seconds!r}\n' for name, seconds in rows)
    read = {"t.csv": f"kernel,seconds\n{lines}".encode()}.__getitem__
    return with_cost_model(target, f"table{{file=t.csv{more}}}", read)


@pytest.mark.parametrize(
    ("name", "target", "times"),
    [("plain-cnn", "mcm4", 3.0), ("bert-tiny", "mcm16", 0.4), ("residual-cnn", "acme-mesh16", 3.0)],
)
def test_rows_of_a_slower_or_faster_chip_never_make_the_plan_worse(
    name: str, target: str, times: float
) -> None:
    """All kernels take `times` the roofline, and the largest 1, 3, 10 or all are measured."""
    package, model = load_target(target), build_zoo_model(name)
    blind, _ = compiled(model, package)
    problem = PARTITION_PROBLEM.get(blind)
    largest = np.argsort(-problem.compute_s, kind="stable").tolist()
    rows = [(problem.names[u], times * float(problem.compute_s[u])) for u in largest]
    rows = [row for row in rows if row[1] > 0]
    truth = PARTITION_PROBLEM.get(compiled(model, with_rows(package, rows))[0])
    without_s = evaluate(truth, PARTITION.get(blind).chip_of).period_s
    for count in (1, 3, 10, len(rows)):
        knowing, notes = compiled(model, with_rows(package, rows[:count]))
        found = PARTITION_PROBLEM.get(knowing)
        assert found.compute_s.tolist() == pytest.approx(truth.compute_s.tolist(), rel=1e-9)
        with_s = evaluate(truth, PARTITION.get(knowing).chip_of).period_s
        assert with_s <= without_s * (1.0 + 1e-9)
        share = sum(s for _, s in rows[:count]) / sum(s for _, s in rows)
        expected = Severity.WARNING if share < 0.5 else Severity.NOTE
        assert [note.severity for note in notes] == [expected]


def test_one_row_of_a_kernel_that_the_roofline_knows_badly_is_no_common_factor() -> None:
    """The median of three rows; and a factor that is given holds."""
    package, model = load_target("mcm4"), build_zoo_model("plain-cnn")
    problem = PARTITION_PROBLEM.get(compiled(model, package)[0])
    first, second, third, *_ = np.argsort(-problem.compute_s, kind="stable").tolist()
    rows = [(problem.names[u], float(problem.compute_s[u])) for u in (first, second, third)]
    odd = [rows[0], rows[1], (rows[2][0], 100.0 * rows[2][1])]
    found = PARTITION_PROBLEM.get(compiled(model, with_rows(package, odd))[0])
    others = np.delete(np.arange(problem.num_units), [first, second, third])
    assert found.compute_s[others].tolist() == problem.compute_s[others].tolist()
    given = with_rows(package, odd, ",factor=2")
    found = PARTITION_PROBLEM.get(compiled(model, given)[0])
    assert found.compute_s[others].tolist() == (2.0 * problem.compute_s[others]).tolist()
