"""A step on hosts with more and less of a resource."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from click.testing import CliRunner

from mcm_compiler.cli.main import cli
from mcm_compiler.components.target_loading import package_from_text
from mcm_compiler.contracts.boxes.placers import PlacerAnswer, PlacerRequest
from mcm_compiler.placed.device_costs import given_box
from mcm_compiler.placed.place_options import PlaceOptions
from mcm_compiler.placed.placed_model import PlacedModel
from mcm_compiler.placed.placing import place_model
from mcm_compiler.registry import register
from tests.generators.placed_models import small_model

SLACK = 1e-9
MODELS = ("bert-tiny", "unet-cnn")
RESOURCES = ("arithmetic rate", "memory rate", "memory", "rate of copies")


def assert_monotone(found: PlacedModel) -> None:
    """Twice of a resource is not slower, half not faster."""
    assert [one.resource for one in found.changes[::2]] == list(RESOURCES)
    for one in found.changes:
        if one.speedup is None:
            assert one.note
            continue
        assert one.seconds is not None
        assert (one.speedup - 1.0) * (one.factor - 1.0) >= -SLACK, one
        assert one.speedup == pytest.approx(found.seconds / one.seconds)


@pytest.mark.parametrize("model", MODELS)
def test_twice_is_never_slower_and_half_never_faster(model: str) -> None:
    options = PlaceOptions(placer="local_search", evaluations=20, segments="none")
    plain = place_model(f"zoo:{model}", "box-2gpu", options)
    found = place_model(f"zoo:{model}", "box-2gpu", options, sensitivities=True)
    assert not plain.changes
    assert_monotone(found)
    # Nor is the placement for the host slower, which may be one for less of a resource.
    assert found.bound.seconds * (1.0 - SLACK) <= found.seconds <= plain.seconds
    assert found.trace.end_s.max() == pytest.approx(found.seconds)


def test_what_does_not_fit_says_so() -> None:
    """The weights fill more than half of the memory of the only device."""
    target = given_box(
        package_from_text(
            "one",
            """
family = "box"
[kind.small]
role = "cpu"
memory_mib = 1
reserved_memory_mib = 0.65
memory_bandwidth_gb_per_s = 50
peak_tflop_per_s = 0.4
launch_overhead_us = 2
[[device]]
kind = "small"
[copy]
host_bandwidth_gb_per_s = 8
device_bandwidth_gb_per_s = 6
latency_us = 20
""",
        )  # pyright: ignore[reportArgumentType]
    )
    found = place_model(small_model(), target, PlaceOptions(segments="none"), sensitivities=True)
    assert_monotone(found)
    (half,) = [one for one in found.changes if (one.resource, one.factor) == ("memory", 0.5)]
    assert half.seconds is None
    assert "needs" in half.note
    assert found.changes[0].speedup is not None
    assert found.changes[0].speedup > 1.0


def test_the_verb_prints_them() -> None:
    plain = ["place", "zoo:bert-tiny", "--target", "box-2gpu", "-O0", "--evaluations", "4"]
    command = [*plain, "--segments", "none", "--sensitivities"]
    text = CliRunner().invoke(cli, command).stdout
    assert "twice the arithmetic rate" in text
    assert "half the rate of copies" in text
    found = json.loads(CliRunner().invoke(cli, [*command, "--format", "json"]).stdout)
    assert [row["resource"] for row in found["sensitivities"][::2]] == list(RESOURCES)
    assert "sensitivities" not in json.loads(
        CliRunner().invoke(cli, [*plain, "--format", "json"]).stdout
    )


@pytest.mark.parametrize("op", ["Identity (x)", "Flatten (x)", "Unsqueeze (x, axis)"])
def test_a_step_that_takes_no_time_is_as_fast_on_any_host(op: str) -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> m (float[2,2] x) => (float[] y)'
        f" <int64[1] axis = {{0}}> {{ y = {op} }}"
    )
    del proto.graph.output[0].type.tensor_type.shape.dim[:]
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    options = PlaceOptions(segments="none")
    found = place_model(ir.from_proto(proto), "box-2gpu", options, sensitivities=True)
    assert found.seconds == 0.0
    assert {one.speedup for one in found.changes} == {1.0}


@register("placer")
@dataclass(frozen=True)
class BetterOnSmallHosts:
    """Divides the ops on a host as described, and keeps them together on one with less memory."""

    name: ClassVar[str] = "better_on_small_hosts"
    summary: ClassVar[str] = "two devices, or one where memory is small"

    def place(self, request: PlacerRequest) -> PlacerAnswer:
        """Has scores of the host that it is asked for."""
        small = request.box.memory_bytes.sum() < BOX.box.memory_bytes.sum()
        device_of = np.zeros(request.problem.num_ops, np.int32)
        device_of[1::2] = 0 if small else 1
        device_of[~request.problem.allowed[:, 1]] = 0
        return PlacerAnswer(device_of, "by memory", 3, ((3, 7.0 if small else 5.0),))


BOX = given_box("box-2gpu")


def test_a_placement_for_another_host_comes_without_the_scores_of_its_search() -> None:
    options = PlaceOptions(placer="better_on_small_hosts", segments="none")
    plain = place_model(small_model(), BOX, options)
    found = place_model(small_model(), BOX, options, sensitivities=True)
    assert plain.answer.history == ((3, 5.0),)
    assert found.seconds < plain.seconds
    assert found.answer.history == ()
    assert_monotone(found)
