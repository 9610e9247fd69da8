"""Traces of placed steps, read back with Perfetto's own records."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.placed.step_trace import chain_rows, step_data, write_step_trace
from tests.generators.placed_models import place_small


def test_a_trace_has_each_op_and_each_copy_on_its_track() -> None:
    placed = place_small()
    box, problem, step = placed.target.box, placed.problem, placed.trace
    file = io.BytesIO()
    write_step_trace(problem, box, step, file)
    read = Trace()
    read.ParseFromString(file.getvalue())
    names = {p.track_descriptor.uuid: p.track_descriptor.name for p in read.packet
             if p.HasField("track_descriptor")}  # fmt: skip
    events = [(p.timestamp, p.track_event) for p in read.packet if p.HasField("track_event")]
    begins = [(t, names[e.track_uuid], e.name) for t, e in events if e.type == e.TYPE_SLICE_BEGIN]
    ops = np.flatnonzero(step.end_s > step.start_s)
    assert sorted(begin for begin in begins if "sends" not in begin[1]) == sorted(
        (round(step.start_s[op] * 1e9), box.devices[step.device_of[op]], problem.names[op])
        for op in ops
    )
    sent = {begin[2] for begin in begins if begin[1].endswith("sends")}
    assert sent == {problem.value_names[v] for v in step.copy_value}
    assert max(t for t, _ in events) == round(placed.seconds * 1e9)
    again = io.BytesIO()
    write_step_trace(problem, box, step, again)
    assert again.getvalue() == file.getvalue()


def test_too_large_a_step_is_refused() -> None:
    placed = place_small()
    long = replace(placed.trace, end_s=placed.trace.end_s + 1e9)
    with pytest.raises(CompileError, match="MCM-A012"):
        write_step_trace(placed.problem, placed.target.box, long, io.BytesIO())


def test_the_chain_ends_with_the_step() -> None:
    placed = place_small()
    data = step_data(placed.problem, placed.target.box, placed.trace)
    assert data["seconds"] == pytest.approx(placed.seconds)
    assert data["chain"][-1]["end_s"] == pytest.approx(placed.seconds)
    assert data["chain_ops_s"] <= placed.seconds
    assert sum(d["copies"] for d in data["devices"]) == data["copies"] > 0
    rows = chain_rows(placed.problem, placed.target.box, placed.trace)
    assert rows[0] == ["start", "takes", "device", "type", "op"]
    assert len(rows) == len(data["chain"]) + 1
