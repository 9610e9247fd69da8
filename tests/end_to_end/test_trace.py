"""Traces of compiled models: what they show is what the simulator says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from mcm_compiler.api import compile_model
from mcm_compiler.cli.main import cli
from mcm_compiler.options import CompileOptions
from mcm_compiler.report.timeline_tracks import tracks_of
from tests.oracles.trace_reading import flow_slices, read, written

LOWERED = "simplify,fuse,annotate_cost,shard_oversized,partition,legalize,split,lower,simulate"
INFERENCES = 7


@pytest.mark.parametrize(
    ("model", "target", "routing"),
    [
        ("zoo:bert-tiny", "mcm4", "relay"),
        ("zoo:bert-tiny", "mcm36", "strict"),
        ("zoo:resnet50", "mcm16", "relay"),
    ],
)
def test_a_trace_agrees_with_the_program_and_the_simulator(
    model: str, target: str, routing: str
) -> None:
    options = CompileOptions(passes=LOWERED, routing=routing)  # type: ignore[arg-type]
    result = compile_model(model, target, options)
    program, simulation = result.program, result.simulation
    assert program is not None
    assert simulation is not None
    timeline = result.target.simulator().timeline(program, INFERENCES)

    # In the simulator's own seconds, nothing overlaps by more than rounding.
    first = 0
    for chip in program.chips:
        durations = np.array([kernel.duration_s for kernel in chip.kernels])
        start = timeline.kernel_start_s[:, first : first + len(durations)]
        first += len(durations)
        gaps = start.ravel()[1:] - (start + durations).ravel()[:-1]
        assert gaps.min(initial=0.0) >= -1e-9 * start.max()
    assert [track.chip for track in tracks_of(timeline) if track.chip is not None] == [
        chip.chip for chip in program.chips
    ]

    trace = read(written(timeline))
    for chip in program.chips:
        name = f"chip {chip.chip}"
        assert len(trace.slices[name]) == INFERENCES * len(chip.kernels)
        limit = result.target.limits.sram_bytes[chip.chip]
        peak = max(value for _, value in trace.counters[f"{name} SRAM"])
        assert chip.weight_bytes <= peak <= chip.high_water_bytes <= limit
    hops = sum(len(s) for name, s in trace.slices.items() if " -> " in name)
    assert hops == INFERENCES * len(timeline.hops)
    links = {(link.source, link.destination) for link in simulation.links}
    assert {(hop.source, hop.destination) for hop in timeline.hops} == links

    flows = flow_slices(trace)
    assert len(flows) >= INFERENCES * len(program.transfers)
    crossing = [way for way in flows.values() if " -> " not in way[0].track + way[-1].track]
    assert len(crossing) >= INFERENCES * (len(program.chips) - 1)
    last = max(piece.end for piece in trace.all_slices() if piece.arguments["inference"] == 0)
    assert last * 1e-9 == pytest.approx(simulation.latency_s, rel=0.05)


def test_the_verb_writes_the_same_bytes_twice(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    compile_model("zoo:bert-tiny", "mcm4", CompileOptions(replicas=1), output=folder)
    traces: list[bytes] = []
    for name in ("a.pftrace", "b.pftrace"):
        arguments = ["simulate", str(folder), "--inferences", "5", "--trace", str(tmp_path / name)]
        done = CliRunner().invoke(cli, arguments)
        assert done.exit_code == 0, done.output
        traces.append((tmp_path / name).read_bytes())
    assert traces[0] == traces[1]
    assert len(read(traces[0]).slices) > 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.pftrace", "b.pftrace", "out"]
