from __future__ import annotations

from dataclasses import replace

import pytest

from mcm_compiler.contracts.program import ChipProgram, Kernel, LoweredProgram, Transfer
from mcm_compiler.contracts.target import HOST, OFF_PACKAGE
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_hardware.families.ring.ring_machine import RingSpec
from mcm_hardware.families.ring.ring_target import mcm36
from tests.generators.small_rings import ring_simulator

SPEC = replace(mcm36().spec, stream_bytes_per_s=1e9)


def chip(index: int, *kernels: tuple[float, tuple[int, ...], tuple[int, ...]]) -> ChipProgram:
    made = tuple(
        Kernel(f"k{index}.{i}", (), seconds, reads, writes)
        for i, (seconds, reads, writes) in enumerate(kernels)
    )
    return ChipProgram(index, made, (), 0, 0)


def program(chips: list[ChipProgram], transfers: list[Transfer]) -> LoweredProgram:
    return LoweredProgram("unit", tuple(chips), tuple(transfers))


GOOD = program(
    [chip(0, (3e-6, (0,), (1,))), chip(1, (2e-6, (1, 3), (2,)), (1e-6, (4,), ()))],
    [
        Transfer("x", HOST, 0, 2, 2),
        Transfer("a", 0, 1, 4, 2),
        Transfer("y", 1, HOST, 1, 2),
        Transfer("v", OFF_PACKAGE, 1, 4, 1, reuses=4),
        Transfer("w", OFF_PACKAGE, 1, 4, 1, reuses=3),
    ],
)


def refusals(broken: LoweredProgram, spec: RingSpec = SPEC) -> tuple[Diagnostic, ...]:
    with pytest.raises(CompileError) as caught:
        ring_simulator(spec).run(broken)
    return caught.value.diagnostics


def with_transfer(index: int, **changes: int | str) -> LoweredProgram:
    transfers = list(GOOD.transfers)
    transfers[index] = replace(transfers[index], **changes)
    return replace(GOOD, transfers=tuple(transfers))


def with_kernel(**changes: float | str) -> LoweredProgram:
    first = GOOD.chips[0]
    kernel = replace(first.kernels[0], **changes)
    return replace(GOOD, chips=(replace(first, kernels=(kernel,)), GOOD.chips[1]))


def test_the_good_one_is_good():
    assert ring_simulator(SPEC).run(GOOD).period_s > 0


def test_no_slot_is_a_deadlock():
    (fault,) = refusals(with_transfer(1, slots=0))
    assert fault.code == "MCM-T010"
    assert fault.message == (
        "the program deadlocks: kernel 'k0.0' of chip 0 waits for transfer 1 of 'a' from chip 0 "
        "to chip 1, which waits for the first"
    )
    (fault,) = refusals(with_transfer(0, slots=0))
    assert "transfer 0 of 'x' from the host to chip 0" in fault.message


def test_a_transfer_may_wait_for_itself():
    nobody = program(
        [chip(0, (1e-6, (), ())), chip(1, (1e-6, (), ()))], [Transfer("a", 0, 1, 4, 0)]
    )
    (fault,) = refusals(nobody)
    assert fault.code == "MCM-T010"
    assert fault.message.endswith("transfer 0 of 'a' from chip 0 to chip 1 waits for itself")


def test_weights_that_come_in_the_wrong_order_are_a_deadlock():
    swapped = program(
        [chip(0, (1e-6, (1,), ()), (1e-6, (0,), ()))],
        [
            Transfer("v", OFF_PACKAGE, 0, 4, 1, reuses=1),
            Transfer("w", OFF_PACKAGE, 0, 4, 1, reuses=0),
        ],
    )
    (fault,) = refusals(swapped)
    # w waits for v's buffer, which the second kernel frees, which waits for the first, for w.
    assert fault.message == (
        "the program deadlocks: kernel 'k0.0' of chip 0 waits for transfer 1 of 'w' from "
        "off-package memory to chip 0, which waits for kernel 'k0.1' of chip 0, which waits for "
        "the first"
    )


def test_long_circles_are_shortened():
    # The first of many kernels reads what reuses the buffer that the last one frees.
    between = [(1e-6, (), ())] * 20
    stuck = program(
        [chip(0, (1e-6, (1,), ()), *between, (1e-6, (0,), ()))],
        [
            Transfer("v", OFF_PACKAGE, 0, 4, 1, reuses=1),
            Transfer("w", OFF_PACKAGE, 0, 4, 1, reuses=0),
        ],
    )
    (fault,) = refusals(stuck)
    assert "which waits for 15 more, which waits for the first" in fault.message


def test_a_chip_that_needs_more_than_it_has():
    full = replace(GOOD.chips[0], high_water_bytes=SPEC.chips[0].sram_bytes + 1)
    (fault,) = refusals(replace(GOOD, chips=(full, GOOD.chips[1])))
    assert fault.code == "MCM-T012"
    assert "bytes of SRAM" in fault.message


@pytest.mark.parametrize(
    "broken",
    [
        with_transfer(0, source=OFF_PACKAGE, destination=HOST),
        with_transfer(0, source=-3),
        with_transfer(0, source=2**70),
        with_transfer(1, destination=2**70),
        with_transfer(1, size_bytes=2**62),
        with_transfer(1, slots=10**12),
        with_transfer(1, after=-2),
        with_transfer(0, after=2),
        with_transfer(2, after=2**40),
        with_transfer(1, reuses=9),
        with_transfer(1, reuses=-2),
        with_transfer(1, reuses=0),
        with_transfer(1, reuses=3),
        with_transfer(0, reuses=1),
        with_transfer(3, lag=2),
        with_transfer(2, reuses=3),
        with_transfer(2, after=3),
        with_transfer(3, reuses=0),
        with_transfer(3, reuses=1),
        with_transfer(4, tensor="a", source=0),
        with_kernel(duration_s=float("inf")),
        with_kernel(duration_s=1e300),
        with_kernel(duration_s=5e-324),
        with_kernel(launch_s=float("nan")),
        with_kernel(launch_s=-1e-9),
        with_kernel(launch_s=1.0),
        with_kernel(engine="\x1b[31mturbo"),
        replace(GOOD, chips=GOOD.chips[::-1]),
    ],
)
def test_contradictions(broken):
    faults = refusals(broken)
    assert {fault.code for fault in faults} == {"MCM-T012"}
    assert all("\x1b" not in fault.message for fault in faults)


def test_a_package_without_memory_streams_nothing():
    faults = refusals(GOOD, mcm36().spec)
    assert {fault.code for fault in faults} == {"MCM-T012"}
    assert "off-package memory" in faults[0].message


@pytest.mark.parametrize(
    ("huge", "what"),
    [
        (replace(GOOD, transfers=GOOD.transfers * 300_000), "kernels and hops"),
        (replace(GOOD, chips=(chip(0, (1.0, tuple(range(5)) * 900_000, ())),)), "reads and writes"),
        (with_transfer(1, slots=2**20), "start times"),
    ],
)
def test_too_large(huge, what):
    if what == "start times":
        huge = replace(huge, transfers=huge.transfers * 20)
    (fault,) = refusals(huge)
    assert fault.code == "MCM-T013"
    assert what in fault.message


def test_too_long_a_timeline():
    with pytest.raises(CompileError, match=r"MCM-T013.*too many for a timeline"):
        ring_simulator(SPEC).timeline(GOOD, 2**26)


def test_faults_without_end_are_cut():
    broken = replace(GOOD.transfers[0], slots=-1)
    many = replace(GOOD, transfers=GOOD.transfers + (broken,) * 1000)
    assert len(refusals(many)) == 20
