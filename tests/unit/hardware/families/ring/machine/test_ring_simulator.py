from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mcm_compiler.contracts.program import (
    ChipProgram,
    Kernel,
    LoweredProgram,
    MemoryOverflow,
    Simulator,
    Transfer,
)
from mcm_compiler.contracts.target import HOST
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.text.json_text import record_of
from mcm_hardware.families.ring.ring_machine import RingSpec
from mcm_hardware.families.ring.ring_target import mcm36
from tests.generators.small_rings import ring_simulator

UNIT = RingSpec(
    summary="one byte per second",
    reference=mcm36().spec.reference,
    chips=(mcm36().spec.reference,) * 4,
    physical=(0, 1, 2, 3),
    link_bytes_per_s=1.0,
    hop_latency_s=(0.5,) * 3,
    switching="store_and_forward",
    host_io="any",
    host_bytes_per_s=1.0,
    host_latency_s=0.0,
    channel_slots=2,
)


def chip(index: int, *kernels: tuple[float, tuple[int, ...], tuple[int, ...]]) -> ChipProgram:
    made = tuple(
        Kernel(f"k{index}.{i}", (f"n{index}.{i}",), seconds, reads, writes)
        for i, (seconds, reads, writes) in enumerate(kernels)
    )
    return ChipProgram(index, made, (), 0, 0)


def stalls(**waited: float) -> dict[str, float]:
    return {"input": 0.0, "link": 0.0, "buffer": 0.0} | waited


def program(chips: list[ChipProgram], transfers: list[Transfer]) -> LoweredProgram:
    return LoweredProgram("unit", tuple(chips), tuple(transfers))


def two_chips(slots: int) -> LoweredProgram:
    return program(
        [chip(0, (3.0, (0,), (1,))), chip(1, (2.0, (1,), (2,)))],
        [
            Transfer("x", HOST, 0, 2, slots),
            Transfer("a", 0, 1, 4, slots),
            Transfer("y", 1, HOST, 1, slots),
        ],
    )


GOOD = two_chips(2)


def with_transfer(index: int, **changes: int) -> LoweredProgram:
    transfers = list(GOOD.transfers)
    transfers[index] = replace(transfers[index], **changes)
    return replace(GOOD, transfers=tuple(transfers))


def test_one_chip_alone():
    result = ring_simulator(UNIT).run(program([chip(0, (3.0, (), ()), (2.0, (), ()))], []))
    assert (result.period_s, result.latency_s) == (5.0, 5.0)
    assert result.chips[0].busy_s == 5.0
    assert result.chips[0].stall_s == stalls()
    assert result.links == ()


def test_two_chips_with_double_buffers_run_at_the_pace_of_the_link():
    result = ring_simulator(UNIT).run(two_chips(slots=2))
    # In 2, kernel 3, link 4 and 0.5 on its way, kernel 2, out 1.
    assert result.latency_s == 12.5
    assert result.period_s == 4.0
    assert result.throughput_per_s == 0.25
    # Tensors are made ahead and queue for the link.
    assert [c.stall_s for c in result.chips] == [stalls(buffer=1.0), stalls(link=2.0)]
    assert [k.queue_s for k in result.links] == [0.0, 1.0, 0.0]
    assert result.steady_from is not None
    assert [(k.source, k.destination, k.busy_s, k.bytes_per_inference) for k in result.links] == [
        (HOST, 0, 2.0, 2), (0, 1, 4.0, 4), (1, HOST, 1.0, 1)
    ]  # fmt: skip


def test_with_single_buffers_kernel_and_link_alternate():
    result = ring_simulator(UNIT).run(two_chips(slots=1))
    assert result.latency_s == 12.5
    # Kernel 0 may write again when the 4 bytes have left: 3 + 4.
    assert result.period_s == 7.0
    # The host sends 2 bytes once the kernel has read the last ones, and so takes half of that.
    assert result.chips[0].stall_s == stalls(link=2.0, buffer=2.0)
    # From 9.5 on chip 1 waits: the tensor is made at 10, arrives at 14.5.
    assert result.chips[1].stall_s == stalls(input=0.5, link=4.5)


def test_a_slow_reader_holds_the_sender_back():
    slow = two_chips(slots=2)
    reader = chip(1, (10.0, (1,), (2,)))
    result = ring_simulator(UNIT).run(replace(slow, chips=(slow.chips[0], reader)))
    assert result.period_s == 10.0
    assert result.chips[0].stall_s == stalls(buffer=7.0)


def test_links_pipeline_their_latency():
    far = replace(UNIT, hop_latency_s=(100.0,) * 3)
    many = ring_simulator(far).run(
        program(
            [chip(0, (1.0, (), (0, 1))), chip(1, (1.0, (0, 1), (2,)))],
            [Transfer("a", 0, 1, 3, 50), Transfer("b", 0, 1, 4, 50), Transfer("y", 1, HOST, 1, 50)],
        ),
        inferences=128,
    )
    # Both tensors are on their way at once: 1 + 3 + 4 + 100 + 1 + 1.
    assert many.latency_s == 110.0
    assert many.period_s == pytest.approx(7.0)


def test_transfers_over_two_links_are_stored_and_forwarded():
    result = ring_simulator(UNIT).run(
        program(
            [chip(0, (1.0, (), (0,))), chip(2, (1.0, (0,), (1,)))],
            [Transfer("a", 0, 2, 4, 2), Transfer("y", 2, HOST, 1, 2)],
        )
    )
    assert result.latency_s == 1 + 4.5 + 4.5 + 1 + 1
    assert [(k.source, k.destination) for k in result.links] == [(0, 1), (1, 2), (2, HOST)]
    # Two slots per round trip: away 9, read 1, over two inferences.
    assert result.period_s == 5.0


def test_a_tensor_passed_on_crosses_each_link_once():
    result = ring_simulator(UNIT).run(
        program(
            [chip(0, (1.0, (), (0,))), chip(1, (6.0, (0,), ())), chip(2, (1.0, (1,), (2,)))],
            [
                Transfer("a", 0, 1, 2, 2),
                Transfer("a", 1, 2, 2, 2, after=0),
                Transfer("y", 2, HOST, 1, 2),
            ],
        )
    )
    # The forward does not wait for the kernel of chip 1: 1 + 2.5 + 2.5 + 1 + 1.
    assert result.latency_s == 8.0
    # But chip 1's receive buffers are taken until its kernel has read them.
    assert result.period_s == 6.0
    assert [k.bytes_per_inference for k in result.links] == [2, 2, 1]


def test_a_link_serves_what_is_ready_first():
    # 'late' stands first among the transfers, but its kernel ends second.
    result = ring_simulator(UNIT).run(
        program(
            [
                chip(0, (1.0, (), (1,)), (1.0, (), (0,))),
                chip(1, (1.0, (1,), ()), (1.0, (0,), (2,))),
            ],
            [
                Transfer("late", 0, 1, 3, 2),
                Transfer("early", 0, 1, 3, 2),
                Transfer("y", 1, HOST, 1, 2),
            ],
        )
    )
    assert result.latency_s == 1 + 3 + 3 + 0.5 + 1 + 1


def test_host_at_the_ends_travels_over_the_ring():
    ends = replace(UNIT, host_io="ends")
    lone = program(
        [chip(1, (1.0, (0,), (1,)))], [Transfer("x", HOST, 1, 1, 2), Transfer("y", 1, HOST, 1, 2)]
    )
    result = ring_simulator(ends).run(lone)
    assert [(k.source, k.destination) for k in result.links] == [
        (HOST, 0), (0, 1), (1, 2), (2, 3), (3, HOST)
    ]  # fmt: skip
    assert result.latency_s == 1 + 1.5 + 1 + 1.5 + 1.5 + 1
    assert len(ring_simulator(UNIT).run(lone).links) == 2


def test_same_program_same_answer_also_from_json():
    first = ring_simulator(UNIT).run(two_chips(2))
    text = json.dumps(two_chips(2).to_dict())
    again = record_of(json.loads(text), LoweredProgram)
    assert again == two_chips(2)
    assert ring_simulator(UNIT).run(again) == first


def test_the_period_does_not_depend_on_how_many_are_asked_for():
    result = ring_simulator(UNIT).run(two_chips(2), inferences=1)
    assert (result.period_s, result.latency_s) == (4.0, 12.5)
    assert ring_simulator(UNIT).run(two_chips(2), inferences=100).inferences == 100
    with pytest.raises(ValueError, match="0 inferences"):
        ring_simulator(UNIT).run(two_chips(2), inferences=0)


def codes(broken: LoweredProgram) -> list[str]:
    with pytest.raises(CompileError) as caught:
        ring_simulator(UNIT).run(broken)
    return [d.code for d in caught.value.diagnostics]


def test_overflow_is_diagnosed_per_chip():
    tight = replace(
        two_chips(2),
        overflows=(
            MemoryOverflow(0, 3 * 2**20, 2**20, (("w\n", 2**20),)),
            MemoryOverflow(1, 2 * 2**20, 2**20, ()),
        ),
    )
    assert codes(tight) == ["MCM-T011", "MCM-T011"]
    with pytest.raises(CompileError, match=r"chip 0 needs 3\.0 MiB, it has 1\.0 MiB"):
        ring_simulator(UNIT).run(tight)


@pytest.mark.parametrize(
    "broken",
    [
        replace(GOOD, chips=(GOOD.chips[0], GOOD.chips[0])),
        replace(GOOD, chips=(GOOD.chips[0], chip(9, (2.0, (1,), (2,))))),
        replace(GOOD, chips=(chip(0), chip(1))),
        replace(GOOD, chips=(chip(0, (float("nan"), (0,), (1,))), GOOD.chips[1])),
        replace(GOOD, chips=(chip(0, (-1.0, (0,), (1,))), GOOD.chips[1])),
        replace(GOOD, chips=(chip(0, (1.0, (7,), (1,))), GOOD.chips[1])),
        replace(GOOD, chips=(chip(0, (1.0, (1,), (1,))), GOOD.chips[1])),
        replace(GOOD, chips=(chip(0, (1.0, (0,), (2,))), GOOD.chips[1])),
        replace(GOOD, chips=(chip(0, (1.0, (0,), (1, 1))), GOOD.chips[1])),
        with_transfer(1, destination=3),
        with_transfer(1, source=1, destination=0),
        with_transfer(1, size_bytes=-1),
        with_transfer(1, slots=-1),
        with_transfer(2, after=9),
        with_transfer(2, after=0),
        with_transfer(0, destination=HOST),
        program([chip(0, (0.0, (), ()))], []),
    ],
)
def test_contradictions_are_diagnosed(broken):
    assert set(codes(broken)) == {"MCM-T012"}


def test_contract():
    simulator: Simulator = mcm36().simulator()
    assert simulator.name == "ring-event-graph"
