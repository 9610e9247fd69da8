"""Kernels whose results are there later than their engine is free: chips that are pipelines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mcm_compiler.contracts.program import ChipProgram, Kernel, LoweredProgram, Transfer
from mcm_compiler.contracts.target import HOST
from mcm_compiler.diagnostics import CompileError
from mcm_hardware.families.ring.ring_target import mcm36
from tests.generators.small_rings import ring_simulator

SPEC = mcm36().spec


def chain(latencies: list[float], durations: list[float], slots: int = 2) -> LoweredProgram:
    """A kernel a chip, each of which reads what the one before makes."""
    chips = len(latencies)
    kernels = [
        Kernel(f"k{c}", (), durations[c], (c,), (c + 1,), latency_s=latencies[c])
        for c in range(chips)
    ]
    ends = [HOST, *range(chips), HOST]
    return LoweredProgram(
        "unit",
        tuple(ChipProgram(c, (kernels[c],), (), 0, 0) for c in range(chips)),
        tuple(Transfer(f"t{i}", ends[i], ends[i + 1], 64, slots) for i in range(chips + 1)),
    )


DURATIONS = [3e-6, 5e-6, 2e-6, 4e-6]


def test_a_latency_adds_to_the_whole_latency_and_not_to_the_period():
    plain = ring_simulator(SPEC).run(chain([0.0] * 4, DURATIONS))
    rng = np.random.default_rng(0)
    for _ in range(20):
        latencies = rng.choice([0.0, 1e-6, 7e-6, 300e-6], 4).tolist()
        late = ring_simulator(SPEC).run(chain(latencies, DURATIONS))
        assert late.period_s == pytest.approx(plain.period_s, rel=1e-12)
        assert late.latency_s == pytest.approx(plain.latency_s + sum(latencies), rel=1e-12)
        assert [c.busy_s for c in late.chips] == [c.busy_s for c in plain.chips]


def test_a_latency_much_longer_than_the_period_needs_no_more_buffers():
    for slots in (1, 2):
        plain = ring_simulator(SPEC).run(chain([0.0] * 2, DURATIONS[:2], slots))
        late = ring_simulator(SPEC).run(chain([1e-3, 2e-3], DURATIONS[:2], slots))
        assert late.period_s == pytest.approx(plain.period_s, rel=1e-12)


def test_readers_start_when_results_are_there():
    line = ring_simulator(SPEC).timeline(chain([50e-6, 0.0], [3e-6, 5e-6]), 4)
    (sent,) = [i for i, hop in enumerate(line.hops) if hop.transfer == 1]
    ready = line.kernel_start_s[:, 0] + 53e-6
    assert np.allclose(line.hop_start_s[:2, sent], ready[:2], atol=1e-15)
    assert np.all(line.hop_start_s[:, sent] >= ready - 1e-15)
    assert np.all(line.kernel_start_s[:, 1] > line.kernel_start_s[:, 0] + 53e-6)
    # The engine takes the next inference long before the first result is there.
    assert line.kernel_start_s[1, 0] < 50e-6


def test_the_next_of_a_sequence_waits_for_the_whole_latency():
    alone = replace(chain([100e-6], [3e-6]), sequences=1)
    found = ring_simulator(SPEC).run(alone)
    assert found.period_s == pytest.approx(found.latency_s, rel=1e-9)
    assert found.latency_s > 103e-6


def test_waits_for_a_late_result_are_waits_for_input():
    late = ring_simulator(SPEC).run(replace(chain([40e-6, 0.0], [3e-6, 5e-6]), sequences=1))
    assert late.chips[1].stall_s["input"] > 40e-6


@pytest.mark.parametrize("latency_s", [-1e-9, float("nan"), float("inf"), 1e7])
def test_latencies_that_make_no_sense_are_refused(latency_s):
    with pytest.raises(CompileError, match="MCM-T012"):
        ring_simulator(SPEC).run(chain([latency_s], [1e-6]))


def test_no_kernel_comes_behind_one_with_a_latency():
    program = chain([1e-6], [1e-6])
    behind = Kernel("behind", (), 1e-6, (), ())
    (chip,) = program.chips
    broken = replace(program, chips=(replace(chip, kernels=(*chip.kernels, behind)),))
    with pytest.raises(CompileError, match="another kernel comes behind it"):
        ring_simulator(SPEC).run(broken)
    first = replace(program, chips=(replace(chip, kernels=(behind, *chip.kernels)),))
    assert ring_simulator(SPEC).run(first).period_s > 0


def test_files_say_nothing_of_results_that_are_there_at_once():
    kernels = chain([0.0, 1e-6], [1e-6, 1e-6]).to_dict()["chips"]
    assert "latency_s" not in kernels[0]["kernels"][0]
    assert kernels[1]["kernels"][0]["latency_s"] == 1e-6
