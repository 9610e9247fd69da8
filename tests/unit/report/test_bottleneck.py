"""The busiest resource, and the words for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mcm_compiler.report.bottleneck import find_bottleneck
from mcm_compiler.simulation import ChipActivity, LinkActivity, SimulationResult
from tests.unit.report.example_result import example_result


def _simulation(**changes: object) -> SimulationResult:
    simulation = example_result().simulation
    assert simulation is not None
    return replace(simulation, **changes)  # type: ignore[arg-type]


def test_a_chip_with_its_heaviest_ops() -> None:
    found = find_bottleneck(_simulation(), example_result().program)
    assert found is not None
    assert (found["kind"], found["chip"], found["source"]) == ("chip", 1, None)
    assert found["share_of_period"] == pytest.approx(124 / 125)
    assert [op["name"] for op in found["heaviest_ops"]] == ["layer1.1", "layer1.2", "layer1.0"]
    assert found["text"] == (
        "chip 1 is busy 124 us of every 125 us (99.2 %), 60.0 us of it in 2 fused ops up to "
        "'layer1.1'; the next busiest is chip 2 with 90.0 us"
    )


def test_a_link_with_the_tensors_on_it_and_those_that_pass_through() -> None:
    links = (LinkActivity(0, 1, 125e-6, 800_000),)
    found = find_bottleneck(_simulation(links=links), example_result().program)
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
    assert (
        found["text"]
        == "chip 0 is busy 60.0 us of every 125 us (48.0 %); it waits 60.0 us for buffer"
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
    assert "60.0 us of it in 'layer1.1';" in found["text"]
