"""The trace of a simulation, read back with Perfetto's own schema."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

from mcm_compiler.contracts.program import Hop, Timeline
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.report import perfetto_trace
from mcm_compiler.report.perfetto_trace import MAX_SLICES, refuse_large_trace
from mcm_compiler.report.timeline_tracks import LASTING, memory_counter, taken_bytes, tracks_of
from tests.generators.example_timeline import example_program, example_timeline
from tests.oracles.trace_reading import flow_slices, read, written


def test_slices_are_those_of_the_timeline() -> None:
    timeline = example_timeline(5)
    trace = read(written(timeline))
    assert {name: len(slices) for name, slices in trace.slices.items()} == {
        "chip 0": 10,
        "chip 2": 15,
        "host -> chip 0": 5,
        "chip 0 -> chip 1": 5,
        "chip 1 -> chip 2": 5,
        "off-package memory -> chip 2": 5,
        "chip 2 -> host": 10,
    }
    second = trace.slices["chip 0"][3]
    assert (second.name, second.begin, second.end) == ("b", 53_000, 73_000)
    assert second.arguments == {"nodes": "b/1, b/2", "engine": "vector", "inference": 1}
    hop = trace.slices["chip 1 -> chip 2"][0]
    assert (hop.name, hop.begin, hop.end) == ("h", 37_000, 40_000)
    expected = {"bytes": 2000, "from": "chip 0", "to": "chip 2", "inference": 0}
    assert hop.arguments == expected


def test_the_tree_of_tracks() -> None:
    parents = read(written(example_timeline())).parents
    assert {parents[name] for name in ("chip 0", "chip 2")} == {"chips"}
    assert parents["host -> chip 0"] == parents["chip 1 -> chip 2"] == "links"
    assert parents["chip 2 SRAM"] == "SRAM"
    assert {parents[name] for name in ("chips", "links", "SRAM")} == {"example"}


def test_pipelines_side_by_side_have_tracks_and_inferences_of_their_own() -> None:
    one, trace = read(written(example_timeline(2))), read(written(example_timeline(2), 3, 4))
    assert trace.parents["chips"] == "example: 3 equal pipelines"
    for chip in (0, 2):
        for pipeline in range(3):
            alike = trace.slices[f"chip {4 * pipeline + chip}"]
            shown = [(piece.name, piece.begin, piece.end) for piece in alike]
            assert shown == [(p.name, p.begin, p.end) for p in one.slices[f"chip {chip}"]]
            assert {piece.arguments["inference"] for piece in alike} == {pipeline, 3 + pipeline}
            name = f"chip {4 * pipeline + chip} SRAM"
            assert trace.counters[name] == one.counters[f"chip {chip} SRAM"]
    hop = trace.slices["chip 9 -> chip 10"][0]
    assert (hop.arguments["from"], hop.arguments["to"]) == ("chip 8", "chip 10")
    for pieces in flow_slices(trace).values():
        assert len({piece.arguments["inference"] for piece in pieces}) == 1


def test_slices_of_rounds_are_those_of_inferences() -> None:
    """Kernel a is of class 1 of 2: of 3 replicas it serves every third of the odd ones."""
    timeline, program = example_timeline(2), example_program()
    first = program.chips[0]
    kernels = (replace(first.kernels[0], name="a@1"), replace(first.kernels[1], name="b@0/copy"))
    chips = (replace(first, kernels=kernels), *program.chips[1:])
    named = replace(timeline, program=replace(program, chips=chips))
    trace = read(written(named, 3, 4, 2))
    for pipeline in range(3):
        slices = trace.slices[f"chip {4 * pipeline}"]
        found = {(piece.name, piece.arguments["inference"]) for piece in slices}
        rounds = [(name, k, r) for name, k in (("a@1", 1), ("b@0/copy", 0)) for r in range(2)]
        assert found == {(name, (r * 2 + k) * 3 + pipeline) for name, k, r in rounds}


def test_pipelines_without_room_for_slices_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    slices = sum(len(found) for found in read(written(example_timeline(2))).slices.values())
    monkeypatch.setattr(perfetto_trace, "MAX_SLICES", 2 * slices + 1)
    trace = read(written(example_timeline(2), 3, 4))
    assert trace.parents["chips"] == "example: the first 2 of 3 equal pipelines"
    assert {"chip 4", "chip 6"} <= trace.slices.keys()
    assert trace.parents["chip 8: as chip 0"] == trace.parents["chip 10: as chip 2"] == "chips"


def test_flows_go_from_the_maker_over_all_hops_to_every_reader() -> None:
    trace = read(written(example_timeline(3)))
    flows = flow_slices(trace)
    ways = [[piece.name for piece in pieces] for pieces in flows.values()]
    tracks = [[piece.track for piece in pieces] for pieces in flows.values()]
    for way in (["x", "a"], ["b", "h", "h", "c"], ["h", "e"], ["w", "c"], ["e", "y"], ["h", "h"]):
        assert ways.count(way) == 3
    assert len(ways) == 18
    assert ["chip 0", "chip 0 -> chip 1", "chip 1 -> chip 2", "chip 2"] in tracks
    assert ["chip 1 -> chip 2", "chip 2 -> host"] in tracks
    for pieces in flows.values():
        assert len({piece.arguments["inference"] for piece in pieces}) == 1


def test_memory_is_what_the_plan_says() -> None:
    trace = read(written(example_timeline(2)))
    assert trace.counters["chip 0 SRAM"] == [
        (0, 11_000),
        (3_000, 11_700),
        (13_000, 12_000),
        (33_000, 11_000),
        (43_000, 11_700),
        (53_000, 12_000),
        (73_000, 11_000),
    ]
    peaks = {name: max(value for _, value in steps) for name, steps in trace.counters.items()}
    assert peaks["chip 0 SRAM"] == 12_000
    assert peaks["chip 2 SRAM"] == 13_000


def test_bytes_before_while_and_after_a_kernel() -> None:
    lasting, running, after = taken_bytes(example_program().chips[1])
    assert lasting == 5000
    assert running.tolist() == [13_000, 5100, 5100]
    assert after.tolist() == [5000, 5100, 5000]


def test_a_chip_without_kernels_has_a_level_counter() -> None:
    timeline = example_timeline(1)
    chip = timeline.program.chips[1]
    lasting = tuple(b for b in chip.buffers if b.kind in LASTING)
    idle = replace(chip, chip=1, kernels=(), buffers=lasting)
    program = replace(timeline.program, chips=(timeline.program.chips[0], idle), transfers=())
    track = tracks_of(Timeline(program, (), timeline.kernel_start_s[:, :2], np.zeros((1, 0))))[1]
    times, values = memory_counter(idle, track)
    assert (times.tolist(), values.tolist()) == ([0], [5000])


def test_equal_timelines_give_equal_bytes_however_they_are_packed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = written(example_timeline())
    assert data == written(example_timeline())
    monkeypatch.setattr(perfetto_trace, "_PACKETS_AT_ONCE", 3)
    assert Trace.FromString(written(example_timeline())) == Trace.FromString(data)


def test_rounding_to_nanoseconds_makes_no_overlap() -> None:
    """Starts are sums along other ways than ends, so that they may differ in the last bit."""
    rng = np.random.default_rng(0)
    busy = rng.uniform(0, 30e-9, 400)
    ends = np.cumsum(busy)
    starts = np.concatenate(([0.0], np.nextafter(ends[:-1], 0.0)))
    program = example_program()
    kernel = program.chips[0].kernels[0]
    kernels = tuple(replace(kernel, duration_s=float(s), reads=()) for s in busy)
    chip = replace(program.chips[0], kernels=kernels, buffers=())
    alone = replace(program, chips=(chip,), transfers=())
    trace = read(written(Timeline(alone, (), starts[None, :], np.zeros((1, 0)))))
    assert len(trace.slices["chip 0"]) == 400


def test_hostile_names_stay_text() -> None:
    timeline = example_timeline(1)
    evil = "\x1b[31m\ud800" + "x" * 5000
    chip = timeline.program.chips[0]
    kernel = replace(chip.kernels[0], name=evil, nodes=(evil,) * 50)
    chip = replace(chip, kernels=(kernel, chip.kernels[1]))
    program = replace(timeline.program, target=evil, chips=(chip, timeline.program.chips[1]))
    trace = read(written(replace(timeline, program=program)))
    shown = trace.slices["chip 0"][0]
    for text in (shown.name, shown.arguments["nodes"], trace.parents["chips"]):
        assert text.isprintable()
        assert len(text) == perfetto_trace.MAX_TEXT


def test_mcm_a012_a_trace_that_would_be_too_large() -> None:
    program = example_program()
    refuse_large_trace(program, MAX_SLICES // 11)
    with pytest.raises(CompileError) as caught:
        refuse_large_trace(program, MAX_SLICES // 11 + 1)
    (fault,) = caught.value.diagnostics
    assert fault.code == "MCM-A012"
    assert fault.hint == f"simulate fewer: --inferences {MAX_SLICES // 11}"


@pytest.mark.parametrize("seconds", [1e300, float("nan"), float("inf")])
def test_mcm_a012_times_beyond_64_bits(seconds: float) -> None:
    timeline = example_timeline(1)
    late = replace(timeline, kernel_start_s=timeline.kernel_start_s + seconds)
    with pytest.raises(CompileError) as caught:
        written(late)
    assert caught.value.diagnostics[0].code == "MCM-A012"


def test_many_slices_are_refused_by_the_writer_too() -> None:
    timeline = example_timeline(1)
    hops = (Hop(0, -1, 0, 0.0, 0.0),)
    many = np.zeros((MAX_SLICES, 1))
    with pytest.raises(CompileError) as caught:
        written(Timeline(timeline.program, hops, np.zeros((MAX_SLICES, 5)), many))
    assert caught.value.diagnostics[0].code == "MCM-A012"
