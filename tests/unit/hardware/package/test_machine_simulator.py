"""A mesh worked out by hand."""

from __future__ import annotations

import pytest

from mcm_compiler.contracts.program import (
    ChipProgram,
    Kernel,
    LoweredProgram,
    SimulationResult,
    Transfer,
)
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.machines.machine import HOST, OFF_PACKAGE
from mcm_hardware.package.machine_simulator import MachineSimulator
from tests.generators.small_mesh import SmallMesh, small_mesh


def kernel(seconds: float, reads: tuple[int, ...] = (), writes: tuple[int, ...] = ()) -> Kernel:
    return Kernel("k", (), seconds, reads, writes)


def play(
    mesh: SmallMesh, chips: dict[int, list[Kernel]], transfers: list[Transfer]
) -> SimulationResult:
    made = tuple(ChipProgram(c, tuple(kernels), (), 0, 0) for c, kernels in chips.items())
    return mesh.simulator().run(LoweredProgram("small", made, tuple(transfers)))


def carried(result: SimulationResult) -> list[tuple[int, int, int, float]]:
    return [(k.source, k.destination, k.bytes_per_inference, k.busy_s) for k in result.links]


MEETING = (
    {0: [kernel(1.0, (), (0,))], 1: [kernel(2.0, (), (1,))], 4: [kernel(1.0, (0, 1), (2,))]},
    [Transfer("a", 0, 4, 4, 8), Transfer("b", 1, 4, 3, 8), Transfer("y", 4, HOST, 1, 8)],
)


def test_two_tensors_meet_on_a_link():
    result = play(small_mesh(), *MEETING)
    # a: 1, over the row 4.5. b takes the column from 2 to 5, a from 5.5 to 9.5 and 0.5 on its way.
    assert result.latency_s == 1 + 4.5 + 4.5 + 1 + 1
    # The column carries both.
    assert result.period_s == 7.0
    assert carried(result) == [(0, 1, 4, 4.0), (1, 4, 7, 7.0), (4, HOST, 1, 1.0)]


def test_what_cuts_through_goes_on_at_once_and_so_comes_first():
    result = play(small_mesh(cuts=((0, 1), (1, 4))), *MEETING)
    # The head of a is at the column at 1.5, before b is made: a until 5.5, b until 8.5.
    assert result.latency_s == 8.5 + 0.5 + 1 + 1
    assert result.period_s == 7.0


@pytest.mark.parametrize("cuts", [((0, 1),), ((1, 4),)])
def test_a_tensor_is_stored_unless_both_links_cut_through(cuts):
    assert play(small_mesh(cuts=cuts), *MEETING).latency_s == 12.0


def test_there_and_back_take_ways_of_their_own():
    result = play(
        small_mesh(),
        {0: [kernel(1.0, (), (0,)), kernel(1.0, (1,), (2,))], 4: [kernel(2.0, (0,), (1,))]},
        [Transfer("a", 0, 4, 4, 2), Transfer("b", 4, 0, 2, 2), Transfer("y", 0, HOST, 1, 2)],
    )
    # Rows first: by 1 on the way there, by 3 on the way back.
    assert [(k.source, k.destination) for k in result.links] == [
        (0, HOST), (0, 1), (1, 4), (3, 0), (4, 3)
    ]  # fmt: skip
    assert result.latency_s == 1 + 2 * 4.5 + 2 + 2 * 2.5 + 1 + 1
    # Chip 0 waits for the answer before it begins the next inference.
    assert result.period_s == 1 + 2 * 4.5 + 2 + 2 * 2.5 + 1


def test_weights_come_to_a_chip_over_its_own_channel():
    mesh = small_mesh(stream_bytes_per_s=2.0, stream_latency_s=0.25)
    result = play(
        mesh,
        {4: [kernel(1.0, (0,), (1,))]},
        [Transfer("w", OFF_PACKAGE, 4, 8, 1, reuses=0), Transfer("y", 4, HOST, 1, 2)],
    )
    assert result.latency_s == 4 + 0.25 + 1 + 1
    # One buffer: read, and then filled again.
    assert result.period_s == 4 + 0.25 + 1
    assert carried(result)[0] == (OFF_PACKAGE, 4, 8, 4.0)


def test_a_transfer_that_is_passed_on_around_a_mesh():
    result = play(
        small_mesh(),
        {0: [kernel(1.0, (), (0,))], 1: [kernel(6.0, (0,), ())], 4: [kernel(1.0, (1,), (2,))]},
        [
            Transfer("a", 0, 1, 2, 2),
            Transfer("a", 1, 4, 2, 2, after=0),
            Transfer("y", 4, HOST, 1, 2),
        ],
    )
    assert result.latency_s == 1 + 2.5 + 2.5 + 1 + 1
    assert result.period_s == 6.0


def refusals(mesh: SmallMesh, transfers: list[Transfer], chips: tuple[int, ...]) -> list[str]:
    made = tuple(ChipProgram(c, (kernel(1.0),), (), 0, 0) for c in chips)
    with pytest.raises(CompileError) as caught:
        mesh.simulator().run(LoweredProgram("small", made, tuple(transfers)))
    assert {d.code for d in caught.value.diagnostics} == {"MCM-T012"}
    return [d.message.partition("itself: ")[2] for d in caught.value.diagnostics]


def test_transfers_that_pass_each_other_on_in_a_circle_are_refused():
    around = [
        Transfer("a", 0, 1, 1, 2, 2),
        Transfer("a", 1, 3, 1, 2, 0),
        Transfer("a", 3, 0, 1, 2, 1),
    ]
    after = [Transfer("b", 1, 4, 1, 2, 0)]
    assert refusals(small_mesh(), around + after, (0, 1, 3, 4)) == [
        "it passes on what it brings, in a circle"
    ]
    two = [*around, *(Transfer("c", t.source, t.destination, 1, 2, t.after + 3) for t in around)]
    assert len(refusals(small_mesh(), two, (0, 1, 3))) == 2


def test_nothing_goes_where_no_route_leads():
    assert refusals(small_mesh(), [Transfer("a", 4, 4, 1, 2)], (4,)) == [
        "no route leads from chip 4 to chip 4"
    ]
    assert refusals(small_mesh(), [Transfer("w", OFF_PACKAGE, 4, 1, 1)], (4,)) == [
        "it comes from off-package memory, which the package does not have"
    ]


def test_the_simulator_is_called_after_the_family():
    assert small_mesh().simulator().name == "small_mesh-event-graph"
    assert MachineSimulator(small_mesh().machine).name == "event-graph"
