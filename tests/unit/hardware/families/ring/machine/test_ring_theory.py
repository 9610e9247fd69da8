"""Small pipelines solved by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mcm_compiler.contracts.program import (
    ChipProgram,
    Kernel,
    LoweredProgram,
    SimulationResult,
    Transfer,
)
from mcm_compiler.contracts.target import HOST, OFF_PACKAGE
from tests.generators.small_rings import CUT, STORE, far, kernel, play, ring_simulator


def test_each_router_stores_the_tensor_or_lets_its_head_pass():
    # Three links, 4 s each, with 0.5, 0.5 and 2 s of delay; then the kernel and the way out.
    assert far(STORE).latency_s == 1 + 4.5 + 4.5 + 6 + 1 + 1
    assert far(CUT).latency_s == 1 + 0.5 + 0.5 + 6 + 1 + 1
    # The links are the bottleneck either way, if there are buffers for what is on the way.
    assert far(STORE).period_s == far(CUT).period_s == 4.0
    # A single one is taken from the first byte that leaves until the kernel has read the last.
    assert far(STORE, slots=1).period_s == 4.5 + 4.5 + 6 + 1
    assert far(CUT, slots=1).period_s == 0.5 + 0.5 + 6 + 1


def test_a_tensor_is_passed_on_while_it_arrives():
    chips = {0: [kernel(1.0, (), (0,))], 1: [kernel(1.0, (0,))], 2: [kernel(1.0, (1,), (2,))]}
    transfers = [
        Transfer("a", 0, 1, 4, 2),
        Transfer("a", 1, 2, 4, 2, after=0),
        Transfer("y", 2, HOST, 1, 2),
    ]
    assert play(STORE, chips, transfers).latency_s == 1 + 4.5 + 4.5 + 1 + 1
    assert play(CUT, chips, transfers).latency_s == 1 + 0.5 + 4.5 + 1 + 1


@pytest.mark.parametrize("spec", [STORE, CUT])
def test_gateways_of_the_host_store(spec):
    ends = replace(spec, host_io="ends", host_bytes_per_s=4.0, host_latency_s=0.125)
    chips = {2: [kernel(1.0, (0,), (1,))]}
    result = play(ends, chips, [Transfer("x", HOST, 2, 4, 2), Transfer("y", 2, HOST, 4, 2)])
    over_ring = 4.5 + 4.5 if spec is STORE else 0.5 + 4.5
    assert result.latency_s == 1.125 + over_ring + 1 + 6 + 1.125


def test_routers_hold_back_what_the_host_does_not_take():
    slow_out = replace(STORE, host_io="ends", host_bytes_per_s=0.125)
    chips = {1: [kernel(1.0, (), (0,))]}
    result = play(slow_out, chips, [Transfer("y", 1, HOST, 1, 2)])
    assert result.period_s == 8.0
    # The chip runs ahead by what routers and its own send buffers hold, and no further.
    assert result.steady_from is not None
    assert result.chips[0].stall_s == {"input": 0.0, "link": 0.0, "buffer": 7.0}


def test_hops_differ():
    chips = {2: [kernel(1.0, (), (0,))], 3: [kernel(1.0, (0,), ())]}
    # Nothing goes to the host: the last kernels end the inference.
    assert play(STORE, chips, [Transfer("a", 2, 3, 1, 1)]).latency_s == 1 + 1 + 2 + 1


def streamed(buffers: int) -> SimulationResult:
    chips = {0: [kernel(1.0, (0,)), kernel(3.0, (1,))]}
    turns = [(0 - buffers) % 2, (1 - buffers) % 2]
    return play(
        STORE,
        chips,
        [Transfer(f"w{i}", OFF_PACKAGE, 0, 4, 1, reuses=turn) for i, turn in enumerate(turns)],
    )


def test_weights_stream_into_one_buffer_or_into_two():
    # Load 4.25, run 1, load 4.25, run 3.
    one = streamed(1)
    assert (one.period_s, one.latency_s) == (12.5, 12.5)
    # Until the buffer is free its weights cannot come: from there on it is the channel's time.
    assert one.chips[0].stall_s == {"input": 0.0, "link": 8.5, "buffer": 0.0}
    two = streamed(2)
    # The channel is busy all the time: 4 and 4.
    assert (two.period_s, two.latency_s) == (8.0, 8.25 + 3)
    assert two.chips[0].stall_s == {"input": 0.0, "link": 4.0, "buffer": 0.0}
    link = two.links[0]
    assert (link.source, link.destination, link.busy_s) == (OFF_PACKAGE, 0, 8.0)
    assert link.bytes_per_inference == 8


def test_a_tensor_without_readers_leaves_its_buffer_on_arrival():
    chips = {0: [kernel(1.0, (), (0,))], 1: [kernel(1.0)]}
    assert play(STORE, chips, [Transfer("a", 0, 1, 4, 1)]).period_s == 1 + 4.0
    assert play(STORE, chips, [Transfer("a", 0, 1, 4, 2)]).period_s == 4.0


def test_parts_without_connection_keep_their_own_pace():
    result = play(STORE, {0: [kernel(3.0)], 1: [kernel(1.0), kernel(1.0)]}, [])
    assert (result.period_s, result.steady_from) == (3.0, None)
    assert [sum(c.stall_s.values()) for c in result.chips] == [0.0, 1.0]
    assert result.chips[1].stall_s["input"] == 1.0


def test_a_part_that_is_hardly_faster_fills_the_buffers_in_the_end():
    chips = {0: [kernel(0.999, (), (0,))], 1: [kernel(1.0, (0,))]}
    result = play(STORE, chips, [Transfer("a", 0, 1, 0, 8)])
    assert result.period_s == 1.0
    # It gains 0.001 per inference, until 8 send and 8 receive buffers are full, less the 2.5 s
    # that an inference takes anyway.
    assert result.steady_from == pytest.approx(13_500, abs=10)
    assert result.chips[0].stall_s["buffer"] == pytest.approx(0.001)


def test_a_pattern_may_take_several_inferences():
    # Two buffers go around between two chips, 3 + 1 and 0.5 there, none is ever waited for twice.
    chips = {0: [kernel(1.0, (), (0,))], 1: [kernel(3.0, (0,))]}
    spec = replace(STORE, hop_latency_s=(4.0, 0.5, 0.5))
    result = play(spec, chips, [Transfer("a", 0, 1, 1, 2)])
    # Link 1, delay 4, kernel 3, two at a time.
    assert result.period_s == 4.0
    assert result.chips[1].stall_s == pytest.approx({"input": 0, "link": 1, "buffer": 0})


def test_engines_and_launches_make_up_the_work():
    chips = {
        0: [
            Kernel("a", (), 2.0, (), (), engine="array", launch_s=0.5),
            Kernel("b", (), 1.0, (), (), engine="vector", launch_s=0.25),
            Kernel("c", (), 3.0, (), (), engine="array", launch_s=0.5),
            Kernel("d", (), 0.25, (), (), engine="none", launch_s=0.25),
        ]
    }
    result = play(STORE, chips, [])
    assert result.chips[0].engine_s == {"array": 4.0, "launch": 1.5, "vector": 0.75}
    assert result.chips[0].busy_s == 6.25


def test_the_timeline_tells_when_and_where():
    chips = {0: [kernel(1.0, (), (0,))], 2: [kernel(1.0, (0,), (1,))]}
    transfers = (Transfer("a", 0, 2, 4, 2), Transfer("y", 2, HOST, 1, 2))
    made = tuple(ChipProgram(c, tuple(kernels), (), 0, 0) for c, kernels in chips.items())
    program = LoweredProgram("unit", made, transfers)
    times = ring_simulator(STORE).timeline(program, 2)
    assert times.program is program
    assert [(h.transfer, h.source, h.destination) for h in times.hops] == [
        (0, 0, 1), (0, 1, 2), (1, 2, HOST)
    ]  # fmt: skip
    assert [(h.busy_s, h.latency_s) for h in times.hops] == [(4, 0.5), (4, 0.5), (1, 0)]
    np.testing.assert_array_equal(times.kernel_start_s, [[0, 10], [1, 14]])
    np.testing.assert_array_equal(times.hop_start_s, [[1, 5.5, 11], [5, 9.5, 15]])
    with pytest.raises(ValueError, match="0 inferences"):
        ring_simulator(STORE).timeline(program, 0)
