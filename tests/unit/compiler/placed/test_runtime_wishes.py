"""What runtimes are told, and what they did."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

from mcm_compiler.contracts.boxes.box import Box
from mcm_compiler.placed.runtime_wishes import (
    RULES,
    ReadBack,
    annotation_names,
    assignment_of,
    onnxruntime_settings,
    openvino_affinities,
    read_back,
)
from tests.generators.placed_models import place_small
from tests.generators.step_problems import box_of


def _box(gpus: int) -> Box:
    devices = 1 + gpus
    return box_of(
        kinds=("haswell", "k40"),
        devices=("cpu:0", *(f"gpu:{g}" for g in range(gpus))),
        kind_of=np.array([0] + [1] * gpus, np.int32),
        memory_bytes=np.full(devices, 100),
        copy_bytes_per_s=np.full((devices, devices), np.inf),
        copy_latency_s=np.zeros((devices, devices)),
    )


@pytest.mark.parametrize("devices", [1, 2, 10, 11, 101])
def test_no_name_is_the_beginning_of_another(devices: int) -> None:
    names = annotation_names(devices)
    assert len(set(names)) == devices
    assert not any(a.startswith(b) for a, b in permutations(names, 2))


def _rules_that_fit(settings: str, name: str) -> set[str]:
    """Devices of the rules that fit a name, as onnxruntime reads them: `=` for all of it."""
    fits: set[str] = set()
    for device, patterns in re.findall(r"([^;(]+)\(([^)]*)\)", settings):
        for pattern in patterns.split(","):
            exact = pattern.startswith("=")
            if name == pattern[1:] if exact else name.startswith(pattern):
                fits.add(device)
    return fits


@pytest.mark.parametrize("exact", [True, False])
def test_a_name_fits_the_rule_of_its_device_alone(exact: bool) -> None:
    box = _box(11)
    settings = onnxruntime_settings(box, range(12))["session_config"][RULES]
    if not exact:
        settings = settings.replace("=", "")
    names = annotation_names(12)
    assert [_rules_that_fit(settings, name) for name in names] == [
        {"cpu"},
        *({f"gpu:{g}"} for g in range(11)),
    ]


def test_one_session_has_one_provider_besides_the_cpu() -> None:
    assert onnxruntime_settings(_box(2), [0, 1])["one_session"]
    assert not onnxruntime_settings(_box(2), [1, 2])["one_session"]
    renamed = onnxruntime_settings(_box(1), [0, 1], {"gpu:0": "AcmeProvider"})
    assert renamed["session_config"][RULES] == "cpu(=d0);AcmeProvider(=d1)"


def test_affinities_name_openvinos_devices() -> None:
    found = openvino_affinities(_box(2), {"a": "gpu:1", "b": "cpu:0", "c": "gpu:0"})
    assert found["device"] == "HETERO:GPU.0,GPU.1,CPU"
    assert found["affinity"] == {"a": "GPU.1", "b": "CPU", "c": "GPU.0"}


def test_reading_back_tells_what_is_elsewhere() -> None:
    planned = {"a": "cpu:0", "b": "gpu:0", "c": "gpu:0"}
    providers = {"cpu:0": "CPU", "gpu:0": "CUDA"}
    found = read_back(planned, providers, {"a": "CPU", "b": "CPU"})
    assert found == ReadBack(1, (("b", "CUDA", "CPU"),), ("c",))
    assert not found.holds
    assert read_back(planned, providers, {"a": "CPU", "b": "CUDA", "c": "CUDA"}).holds


@dataclass(frozen=True)
class _Node:
    name: str


@dataclass(frozen=True)
class _Part:
    ep_name: str
    nodes: tuple[str, ...]

    def get_nodes(self) -> list[_Node]:
        return [_Node(name) for name in self.nodes]


class _Session:
    def get_provider_graph_assignment_info(self) -> list[_Part]:
        return [_Part("CUDA", ("a", "b")), _Part("CPU", ("c",))]


def test_an_assignment_is_read_node_by_node() -> None:
    assert assignment_of(_Session()) == {"a": "CUDA", "b": "CUDA", "c": "CPU"}


def test_onnxruntime_takes_the_settings_and_runs_what_it_can(tmp_path: Path) -> None:
    """Without a GPU, its nodes go to the CPU: a wish for a device that is not there."""
    if not hasattr(ort.InferenceSession, "get_provider_graph_assignment_info"):
        pytest.skip("this onnxruntime has no record of assignments")
    folder = tmp_path / "out"
    placed = place_small(folder)
    settings = onnxruntime_settings(placed.target.box, [0, 1])
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    for key, value in settings["session_config"].items():
        options.add_session_config_entry(key, value)
    session = ort.InferenceSession(
        str(folder / "annotated.onnx"), options, providers=["CPUExecutionProvider"]
    )
    providers = {"cpu:0": "CPUExecutionProvider", "gpu:0": "CUDAExecutionProvider"}
    found = read_back(placed.device_of_node, providers, assignment_of(session))
    assert not found.unknown
    assert {node for node, _, _ in found.elsewhere} == {"op_c", "op_d"}
    assert found.as_planned == 6
