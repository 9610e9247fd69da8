"""The busiest resource, and the words for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest

from mcm_compiler.certificate.claims import Certificate, Claim, ClaimScope
from mcm_compiler.contracts.program import (
    ChipActivity,
    LinkActivity,
    LoweredProgram,
    SimulationResult,
    Transfer,
)
from mcm_compiler.contracts.target import OFF_PACKAGE, PackageLimits
from mcm_compiler.machines import ring_machine
from mcm_compiler.report.activity import heaviest_tensors
from mcm_compiler.report.bottleneck import find_bottleneck
from mcm_compiler.report.records.activity import Bottleneck
from tests.generators.example_result import MIB, example_result, ring_of
from tests.generators.partition_problems import make_problem

RING_OF_3 = ring_of(3)


def _simulation(**changes: object) -> SimulationResult:
    simulation = example_result().simulation
    assert simulation is not None
    return replace(simulation, **changes)  # type: ignore[arg-type]


def test_a_chip_with_its_heaviest_ops() -> None:
    found = find_bottleneck(_simulation(), example_result().program, RING_OF_3)
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
    found = find_bottleneck(_simulation(links=links), example_result().program, RING_OF_3)
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
    found = find_bottleneck(_simulation(links=(link,)), example_result().program, RING_OF_3)
    assert found is not None
    assert found["kind"] == "host"
    assert found["text"].startswith(words)
    assert [t["name"] for t in found["heaviest_tensors"]] == [tensor]


@pytest.mark.parametrize(
    ("waits", "cause"),
    [
        ((), "a cycle of waits"),
        (("channel",), "the order in which links serve"),
        (("buffer", "channel"), "a cycle of waits for buffers, for which there is no memory,"),
        (("buffer", "step"), "the wait of a step for the step before of its sequence"),
    ],
)
def test_a_chip_that_is_not_full_has_what_it_waits_for(waits: tuple[str, ...], cause: str) -> None:
    chips = (ChipActivity(0, 60e-6, {"input": 5e-6, "buffer": 60e-6}),)
    simulation = replace(_simulation(chips=chips, links=()), cycle_waits=waits)
    found = find_bottleneck(simulation, None, RING_OF_3)
    assert found is not None
    assert found["sets_period"] is False
    assert found["text"] == (
        "chip 0 is busy 60.0 us of every 125 us (48.0 %); it waits 60.0 us for buffer space; "
        f"as nothing is busy all the time, {cause} sets the period"
    )


def test_names_from_models_are_quoted() -> None:
    result = example_result()
    assert result.program is not None
    evil = replace(result.program.chips[1].kernels[1], name="a\x1b[31m\nb")
    chip = replace(result.program.chips[1], kernels=(evil,))
    program = replace(result.program, chips=(chip,))
    found = find_bottleneck(_simulation(), program, RING_OF_3)
    assert found is not None
    assert found["text"].isprintable()
    assert r"\x1b" in found["text"]


def test_a_tie_goes_to_the_first_chip_and_nothing_busy_has_no_bottleneck() -> None:
    chips = (ChipActivity(0, 1.0), ChipActivity(1, 1.0))
    found = find_bottleneck(
        _simulation(chips=chips, links=(LinkActivity(0, 1, 1.0, 1),)), None, RING_OF_3
    )
    assert found is not None
    assert found["chip"] == 0
    assert find_bottleneck(_simulation(chips=(), links=()), None, RING_OF_3) is None


def test_an_op_on_its_own_is_not_called_fused() -> None:
    result = example_result()
    assert result.program is not None
    single = replace(result.program.chips[1].kernels[1], nodes=("layer1.1",))
    chip = replace(result.program.chips[1], kernels=(single,))
    found = find_bottleneck(_simulation(), replace(result.program, chips=(chip,)), RING_OF_3)
    assert found is not None
    assert "48.8 % of it in 'layer1.1';" in found["text"]


def _graphs() -> dict[int, ir.Graph]:
    return {chip.chip: chip.model.graph for chip in example_result().chips or ()}


LAYERS = ("layer0.0", "layer0.1", "layer1.0", "layer1.1", "layer1.2", "layer2.0")


def _certificate(
    given: tuple[tuple[str, int], ...] = (), pins: Sequence[tuple[int, int]] = ()
) -> Certificate:
    """What `example_result` placed: a chain of six kernels on three chips."""
    chain = [(i, i + 1) for i in range(5)]
    problem = replace(
        make_problem([40, 20, 30, 60.9, 34, 90], chain, chips=3, sram=64 * MIB, pins=pins),
        names=LAYERS,
        members=tuple((f"{name}/a", f"{name}/b") for name in LAYERS),
    )
    placement = np.array([0, 0, 1, 1, 1, 2], np.int32)
    scope = ClaimScope(3, 1, 3, any_number=False)
    return Certificate(
        problem, placement, 124.9e-6, "pipeline", "roofline", scope, claims=(), pins=given
    )


def _advised(certificate: Certificate, limits: PackageLimits | None = None) -> Bottleneck:
    result = example_result()
    found = find_bottleneck(
        _simulation(),
        result.program,
        RING_OF_3,
        limits or result.target.limits,
        _graphs(),
        certificate,
    )
    assert found is not None
    return found


def test_the_moves_that_help_and_what_they_take() -> None:
    """Kernels of chip 1 have 2 MiB of weights each; the plan has 2 slots."""
    found = _advised(_certificate())
    first = found["moves"][0]
    assert (first["name"], first.get("from_chip"), first["to_chip"]) == ("layer1.0", 1, 0)
    assert (first["along"], first.get("ops")) == (0, 2)
    assert first.get("period_s") == pytest.approx(94.9e-6)
    assert first.get("gain") == pytest.approx(1 - 94.9 / 124.9)
    # A weight, and send buffers for what leaves; what it reads is made there.
    assert first["need_bytes"] == (2 + 2 * 1) * MIB
    assert first["free_bytes"] == (64 - 12) * MIB
    assert first["busy_there_s"] == pytest.approx(60e-6 + 30e-6)
    assert first["busy_without_s"] == pytest.approx(94.9e-6)
    assert "pinned_moves" not in found
    assert found["text"] == (
        "chip 1 is busy 125 us of every 125 us (99.9 %), 48.8 % of it in MatMul+Relu of "
        "'layer1.1'; moving the 2 ops up to 'layer1.0' from chip 1 to chip 0 would shorten the "
        "period under the cost model by 24.0 % to 94.9 us; it needs up to 4.0 MiB there, where "
        "52.0 MiB are free; the next busiest is chip 2 with 90.0 us"
    )


def test_a_move_that_may_not_fit_is_no_advice() -> None:
    limits = replace(example_result().target.limits, sram_bytes=(14 * MIB,) * 3)
    found = _advised(_certificate(), limits)
    assert all(move["need_bytes"] <= move["free_bytes"] for move in found["moves"])
    assert "may not fit the SRAM where they go" in found["text"]


def test_a_pin_is_respected_and_named() -> None:
    pins = (("layer1.0", 1), ("layer1.1*", 1))
    found = _advised(_certificate(pins, pins=[(2, 1), (3, 1)]))
    assert all(move["name"] not in ("layer1.0", "layer1.1") for move in found["moves"])
    held = found.get("pinned_moves", [])
    assert (held[0]["name"], held[0]["pin"], held[0]["to_chip"]) == ("layer1.0", "layer1.0=1", 0)
    assert "the pin 'layer1.1*=1' holds it there" in found["text"]
    assert (
        "without the pin 'layer1.0=1', moving the 2 ops up to 'layer1.0' from chip 1 to chip 0 "
        "would shorten the period under the cost model by 24.0 % to 94.9 us" in found["text"]
    )


def test_where_nothing_helps_it_says_so() -> None:
    even = _certificate()
    loads = np.array([40, 84.9, 30, 60.9, 34, 90]) * 1e-6
    even = replace(even, problem=replace(even.problem, compute_s=loads))
    found = _advised(even)
    assert found["moves"] == []
    assert "no move of a single op to another chip makes it faster; the next" in found["text"]
    at_bound = replace(even, claims=(Claim("pipeline", 124.9e-6, "total_work", "made up"),))
    # The claim is the verdict's, with its scope.
    assert "placement" not in _advised(at_bound)["text"]


def test_a_chip_with_one_kernel_has_nothing_to_give() -> None:
    result = example_result()
    simulation = _simulation(chips=(ChipActivity(2, 125e-6),), links=())
    found = find_bottleneck(simulation, result.program, RING_OF_3)
    assert found is not None
    assert "in 2 fused ops up to 'layer2.0'; nothing else runs there, so that only" in found["text"]


def test_a_channel_from_off_package_memory() -> None:
    result = example_result()
    assert result.program is not None
    streamed = Transfer("w2.0", OFF_PACKAGE, 2, 3 * MIB, 1)
    program = replace(result.program, transfers=(*result.program.transfers, streamed))
    links = (LinkActivity(OFF_PACKAGE, 2, 125e-6, 4 * MIB),)
    streaming = ring_machine.ring_of(replace(result.target.limits, stream_bytes_per_s=1e9))
    found = find_bottleneck(_simulation(links=links), program, streaming)
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
