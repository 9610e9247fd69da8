"""Training graphs: contiguous parts of both passes, against enumeration and a published program."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from mcm_compiler.contracts.placement import PlacementRequest
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.placements.placement_file import placement_from_json, read_placement, with_devices
from mcm_passes.mapping.device_placement.device_loads import device_loads
from mcm_passes.mapping.device_placement.device_placement import DevicePlacement
from mcm_passes.mapping.device_placement.training_order import listed_along
from tests.generators.placement_examples import PUBLISHED, example, node, random_file
from tests.generators.training_graphs import training_graph
from tests.oracles.training_oracle import least_load

TRAINING = PUBLISHED / "training"
ANSWERS = json.loads((TRAINING / "published_answers.json").read_text(encoding="utf-8"))


def period(data: dict[str, Any]) -> float:
    """What the compiler finds and proves; infinite where it proves that there is nothing."""
    problem = placement_from_json(data, "graph.json")
    try:
        found = DevicePlacement().place(PlacementRequest(problem=problem))
    except CompileError as error:
        codes = {d.code for d in error.diagnostics}
        if not codes <= {"MCM-F006", "MCM-F007"} or "no proof" in str(error):
            raise
        return float("inf")
    assert found.proof == "ideals"
    assert found.gap == 0.0
    assert not device_loads(problem, found.device_of, "none").violations
    return found.period


@pytest.mark.parametrize("name", ANSWERS["files"])
def test_published_training_inputs_reach_the_published_optimum(name: str) -> None:
    problem = with_devices(read_placement(TRAINING / name), None, 0)
    found = DevicePlacement().place(PlacementRequest(problem=problem))
    assert found.proof == "ideals"
    assert found.gap == 0.0
    assert found.period == pytest.approx(ANSWERS["files"][name], abs=5e-4)


@pytest.mark.parametrize("part", range(4))
def test_the_optimum_is_that_of_the_published_program(part: int) -> None:
    fields = ("fpgaLatency", "cpuLatency", "size", "supportedOnFpga", "isBackwardNode")
    graphs = ANSWERS["graphs"][part::4]
    assert len(graphs) >= 50
    for graph in graphs:
        data = {
            "maxFPGAs": graph["accelerators"],
            "maxCPUs": graph["cpus"],
            "maxSizePerFPGA": graph["memory"],
            "nodes": [
                {"id": v, **dict(zip((*fields, "colorClass"), values, strict=True))}
                for v, values in enumerate(graph["nodes"])
            ],
            "edges": [
                dict(zip(("sourceId", "destId", "cost"), edge, strict=True))
                for edge in graph["edges"]
            ],
        }
        assert period(data) == pytest.approx(graph["max_load"], rel=1e-6)


@pytest.mark.parametrize("mirrored", [True, False])
@pytest.mark.parametrize("part", range(4))
def test_the_optimum_is_that_of_all_placements(mirrored: bool, part: int) -> None:
    for seed in range(part, 140, 4):
        data, _ = training_graph(seed, mirrored=mirrored)
        assert period(data) == pytest.approx(least_load(data)), seed


@pytest.mark.parametrize("backward", [False, True])
def test_small_files_are_answered_as_all_their_placements_are(backward: bool) -> None:
    for seed in range(80):
        data = random_file(seed, backward=backward)
        assert period(data) == pytest.approx(least_load(data), rel=1e-9), seed


def test_the_direction_of_the_listing_changes_nothing() -> None:
    turned = 0
    for seed in range(60):
        data, along = training_graph(seed, mirrored=True)
        problem = placement_from_json(data, "graph.json")
        colors = [n["colorClass"] for n in data["nodes"]]
        back = {n["id"] for n in data["nodes"] if n["isBackwardNode"]}
        edges = [e for e in data["edges"] if e["sourceId"] in back]
        if not any(colors[e["sourceId"]] != colors[e["destId"]] for e in edges):
            continue
        mated = {n["colorClass"] for n in data["nodes"] if not n["isBackwardNode"]}
        if all(colors[v] in mated for e in edges for v in (e["sourceId"], e["destId"])):
            assert listed_along(problem) == along
            # Nothing is transferred backwards, so that only the order of devices could differ.
            for e in edges:
                e["cost"] = 0.0
            other = {**data, "edges": [e for e in data["edges"] if e not in edges]}
            other["edges"] = other["edges"] + [
                {"sourceId": e["destId"], "destId": e["sourceId"], "cost": 0.0} for e in edges
            ]
            assert period(other) == period(data)
            turned += 1
    assert turned >= 20


def test_operators_without_a_forward_operator_follow_the_listing() -> None:
    # Forward 0 -> 1 -> 2; backward along it as 3 -> 4 -> 5, then 6, which has a color of its own.
    nodes = [node(v, 1.0, colorClass=v) for v in range(3)]
    nodes += [node(3 + v, 1.0, colorClass=v, isBackwardNode=1) for v in range(3)]
    nodes += [node(6, 2.0, colorClass=9, isBackwardNode=1)]
    edges = [(0, 1, 0.0), (1, 2, 0.0), (3, 4, 0.0), (4, 5, 0.0), (5, 6, 0.0)]
    problem = example(nodes, edges, maxFPGAs=4)
    found = DevicePlacement().place(PlacementRequest(problem=problem))
    assert listed_along(problem)
    assert found.period == found.lower_bound == 2.0
    assert found.device_of[6] == 3


def test_a_torn_part_of_the_backward_pass_is_not_allowed() -> None:
    nodes = [node(v, 1.0, colorClass=v) for v in range(3)]
    nodes += [node(3 + v, 1.0, colorClass=v, isBackwardNode=1) for v in range(3)]
    # No order between forward operators, so that only the backward pass forbids anything.
    problem = example(nodes, [(3, 4, 0.5), (4, 5, 0.5)])
    torn = device_loads(problem, np.array([0, 1, 0, 0, 1, 0], np.int32), "none")
    assert len(torn.violations) == 1
    assert "before and behind 'node4'" in torn.violations[0]
    whole = device_loads(problem, np.array([0, 0, 1, 0, 0, 1], np.int32), "none")
    assert not whole.violations
