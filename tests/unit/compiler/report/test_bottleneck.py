"""The busiest resource, and the words for it."""

from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir
import pytest

from mcm_compiler.contracts.program import LoweredProgram, Transfer
from mcm_compiler.contracts.simulation import ChipActivity, LinkActivity, SimulationResult
from mcm_compiler.contracts.target import OFF_PACKAGE
from mcm_compiler.report.activity import heaviest_tensors
from mcm_compiler.report.bottleneck import find_bottleneck
from tests.generators.example_result import MIB, example_result, ring_of

RING_OF_3 = ring_of(3)


def _simulation(**changes: object) -> SimulationResult:
    simulation = example_result().simulation
    assert simulation is not None
    return replace(simulation, **changes)  # type: ignore[arg-type]


def test_a_chip_with_its_heaviest_ops() -> None:
    found = find_bottleneck(_simulation(), example_result().program)
    assert found is not None
    assert (found["kind"], found["chip"], found["source"]) == ("chip", 1, None)
    assert found["share_of_period"] == pytest.approx(124.9 / 125)
    assert found["sets_period"] is True
    assert found["moves"] == []
    assert [op["name"] for op in found["heaviest_ops"]] == ["layer1.1", "layer1.2", "layer1.0"]
    assert found["text"] == (
        "chip 1 is busy 125 us of every 125 us (99.9 %), 48.8 % of it in 2 fused ops up to "
        "'layer1.1'; the next busiest is chip 2 with 90.0 us"
    )


def test_a_link_with_the_tensors_on_it_and_those_that_pass_through() -> None:
    links = (LinkActivity(0, 1, 125e-6, 800_000),)
    found = find_bottleneck(_simulation(links=links), example_result().program, machine=RING_OF_3)
    assert found is not None
    assert (found["kind"], found["chip"]) == ("link", None)
    assert (found["source"], found["destination"]) == (0, 1)
    # 'skip' goes from chip 0 to chip 2 and so over this link as well.
    assert [t["name"] for t in found["heaviest_tensors"]] == ["h0", "skip"]
    assert found["text"].startswith("the link from chip 0 to chip 1 is busy 125 us")


@pytest.mark.parametrize(
    ("link", "words", "tensor"),
    [
        (LinkActivity(-1, 0, 1.0, 1), "the host's link into chip 0", "image"),
        (LinkActivity(2, -1, 1.0, 1), "the link of chip 2 to the host", "logits"),
    ],
)
def test_a_host_link(link: LinkActivity, words: str, tensor: str) -> None:
    found = find_bottleneck(_simulation(links=(link,)), example_result().program)
    assert found is not None
    assert found["kind"] == "host"
    assert found["text"].startswith(words)
    assert [t["name"] for t in found["heaviest_tensors"]] == [tensor]


def test_a_chip_that_is_not_full_tells_what_it_waits_for() -> None:
    chips = (ChipActivity(0, 60e-6, {"input": 5e-6, "buffer": 60e-6}),)
    found = find_bottleneck(_simulation(chips=chips, links=()), None)
    assert found is not None
    assert found["sets_period"] is False
    assert found["text"] == (
        "chip 0 is busy 60.0 us of every 125 us (48.0 %); it waits 60.0 us for room in buffers; "
        "as nothing is busy all the time, a cycle of waits for buffers sets the period"
    )


def test_names_from_models_are_quoted() -> None:
    result = example_result()
    assert result.program is not None
    evil = replace(result.program.chips[1].kernels[1], name="a\x1b[31m\nb")
    chip = replace(result.program.chips[1], kernels=(evil,))
    program = replace(result.program, chips=(chip,))
    found = find_bottleneck(_simulation(), program)
    assert found is not None
    assert found["text"].isprintable()
    assert r"\x1b" in found["text"]


def test_a_tie_goes_to_the_first_chip_and_nothing_busy_has_no_bottleneck() -> None:
    chips = (ChipActivity(0, 1.0), ChipActivity(1, 1.0))
    found = find_bottleneck(_simulation(chips=chips, links=(LinkActivity(0, 1, 1.0, 1),)), None)
    assert found is not None
    assert found["chip"] == 0
    assert find_bottleneck(_simulation(chips=(), links=()), None) is None


def test_an_op_on_its_own_is_not_called_fused() -> None:
    result = example_result()
    assert result.program is not None
    single = replace(result.program.chips[1].kernels[1], nodes=("layer1.1",))
    chip = replace(result.program.chips[1], kernels=(single,))
    found = find_bottleneck(_simulation(), replace(result.program, chips=(chip,)))
    assert found is not None
    assert "48.8 % of it in 'layer1.1';" in found["text"]


def _graphs() -> dict[int, ir.Graph]:
    return {chip.chip: chip.model.graph for chip in example_result().chips or ()}


def test_what_it_would_take_to_move_the_heaviest_op() -> None:
    """Chip 1 runs kernels 0 -> 1 -> 2 with 2 MiB of weights each; the plan has 2 slots."""
    result = example_result()
    found = find_bottleneck(
        _simulation(), result.program, result.target.limits, _graphs(), RING_OF_3
    )
    assert found is not None
    back, on = found["moves"]
    assert (back["name"], back["to_chip"], back["along"]) == ("layer1.1", 0, 1)
    # Two weights, one result within, one that leaves; what they read is made there.
    assert back["need_bytes"] == (2 * 2 + 1 + 2 * 1) * MIB
    assert back["free_bytes"] == (64 - 12) * MIB
    assert back["busy_there_s"] == pytest.approx(60e-6 + 90.9e-6)
    assert back["busy_without_s"] == pytest.approx(34e-6)
    assert (on["to_chip"], on["along"]) == (2, 1)
    # Two weights, one result within, one that leaves, and receive buffers for one that comes.
    assert on["need_bytes"] == (2 * 2 + 1 + 2 * 1 + 2 * 1) * MIB
    assert found["text"] == (
        "chip 1 is busy 125 us of every 125 us (99.9 %), 48.8 % of it in 2 fused ops up to "
        "'layer1.1'; moving them, and 1 kernel that must go along, to chip 0 would need up to "
        "7.0 MiB there, where 52.0 MiB are free, but make that chip busy 151 us; "
        "the next busiest is chip 2 with 90.0 us"
    )


def test_a_move_that_does_not_fit_and_one_that_helps() -> None:
    result = example_result()
    limits = replace(result.target.limits, sram_bytes=(14 * MIB,) * 3, chip_speed=(4.0, 1.0, 1.0))
    found = find_bottleneck(_simulation(), result.program, limits, _graphs(), RING_OF_3)
    assert found is not None
    # Chip 0 runs four times as fast as chip 1.
    assert found["moves"][0]["busy_there_s"] == pytest.approx(60e-6 + 90.9e-6 / 4)
    assert "where only 2.0 MiB are free, and make that chip busy 82.7 us" in found["text"]


def test_moves_go_to_chips_of_the_ring_and_leave_something_behind() -> None:
    result = example_result()
    simulation = _simulation(chips=(ChipActivity(2, 125e-6),), links=())
    limits = result.target.limits
    found = find_bottleneck(simulation, result.program, limits, _graphs(), RING_OF_3)
    assert found is not None
    assert found["moves"] == []
    assert "in 2 fused ops up to 'layer2.0'; nothing else runs there, so that only" in found["text"]
    simulation = _simulation(chips=(ChipActivity(0, 125e-6),), links=())
    found = find_bottleneck(simulation, result.program, limits, _graphs(), RING_OF_3)
    assert found is not None
    assert [move["to_chip"] for move in found["moves"]] == []  # with all that depends on it


def test_a_channel_from_off_package_memory() -> None:
    result = example_result()
    assert result.program is not None
    streamed = Transfer("w2.0", OFF_PACKAGE, 2, 3 * MIB, 1)
    program = replace(result.program, transfers=(*result.program.transfers, streamed))
    links = (LinkActivity(OFF_PACKAGE, 2, 125e-6, 4 * MIB),)
    found = find_bottleneck(_simulation(links=links), program)
    assert found is not None
    assert (found["kind"], found["source"]) == ("memory", OFF_PACKAGE)
    assert found["text"].startswith(
        "the channel from off-package memory to chip 2 is busy 125 us of every 125 us (100.0 %), "
        "75.0 % of its 4.0 MiB is 'w2.0'"
    )


@pytest.mark.parametrize(
    ("source", "destination", "tensors"),
    [
        (-1, 0, ["image", "mask"]),
        (0, 1, ["mask", "h0", "skip"]),
        (2, 3, ["logits"]),
        (3, -1, ["logits"]),
        (-1, 3, ["late"]),
    ],
)
def test_the_host_at_the_ends_of_the_ring(
    source: int, destination: int, tensors: list[str]
) -> None:
    """In from chip 0, but directly to the last chip; out by the last."""
    program = LoweredProgram(
        "t",
        (),
        (
            Transfer("image", -1, 0, 9, 2),
            Transfer("mask", -1, 1, 8, 2),
            Transfer("h0", 0, 1, 7, 2),
            Transfer("skip", 0, 2, 6, 2),
            Transfer("logits", 2, -1, 5, 2),
            Transfer("late", -1, 3, 4, 2),
        ),
    )
    found = heaviest_tensors(program, source, destination, 9, ring_of(4, "ends"))
    assert [tensor["name"] for tensor in found] == tensors
