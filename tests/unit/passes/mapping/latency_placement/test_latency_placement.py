"""The cost of latency: the published greedy's values, all placements of small problems, faults."""

from __future__ import annotations

import pytest
from ortools.sat.python import cp_model

from mcm_compiler.contracts.partition import LowerBound
from mcm_compiler.contracts.placement import PlacementRequest, objective_of
from mcm_compiler.contracts.requests import PlacementOptions
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.placements.placement_file import placement_from_json, read_placement
from mcm_passes.mapping.device_placement.device_placement import DevicePlacement
from mcm_passes.mapping.latency_placement import latency_placement
from mcm_passes.mapping.latency_placement.latency_placement import EFFORT_S, DeviceLatency
from tests.generators.placement_examples import PUBLISHED, example, node, problem_data, random_file
from tests.oracles.least_latency import latency, least_latency

FEW = 200


@pytest.mark.parametrize("part", range(4))
def test_small_files_are_answered_as_all_their_placements_are(part):
    for seed in range(part, 240, 4):
        data = random_file(seed)
        problem, least = placement_from_json(data, "graph.json"), least_latency(data)
        if least == float("inf"):
            with pytest.raises(CompileError) as caught:
                DeviceLatency().place(PlacementRequest(problem=problem, evaluations=FEW))
            assert {d.code for d in caught.value.diagnostics} <= {"MCM-F006", "MCM-F007"}
            continue
        found = DeviceLatency().place(PlacementRequest(problem=problem, evaluations=FEW))
        assert found.period == pytest.approx(latency(data, found.device_of.tolist())), seed
        assert found.lower_bound <= least * (1.0 + 1e-9), seed
        assert least <= found.period * (1.0 + 1e-9), seed
        if data["maxCPUs"] == 0 or data["maxCPUs"] >= len(data["nodes"]):
            assert found.period == pytest.approx(least, rel=1e-9), seed


@pytest.mark.parametrize("inner", ["accelerator", "chain", "two accelerators"])
def test_colors_on_a_cycle_are_on_a_cpu_and_an_accelerator(inner):
    # The color of the ends needs a CPU; all between them is much faster on an accelerator.
    count = {"accelerator": 1, "chain": 3, "two accelerators": 2}[inner]
    between = [
        node(v + 1, 0.0, cpuLatency=3.0, colorClass=8 if inner == "chain" else v)
        for v in range(count)
    ]
    ends = [
        node(v, 0.0, cpuLatency=time, supportedOnFpga=0, colorClass=90)
        for v, time in ((0, 1.0), (count + 1, 6.0))
    ]
    edges = [(v, v + 1, 0.5) for v in range(count + 1)]
    if inner == "two accelerators":
        edges = [(0, 1, 0.5), (0, 2, 0.5), (1, 3, 0.5), (2, 3, 0.5)]
    data = problem_data([ends[0], *between, ends[1]], edges, maxCPUs=4)
    found = DeviceLatency().place(
        PlacementRequest(problem=placement_from_json(data, "graph.json"), evaluations=FEW)
    )
    assert found.period == found.lower_bound == least_latency(data) == 8.0


def test_a_published_input_is_solved_to_the_optimum():
    problem = read_placement(PUBLISHED / "latency" / "layer_bert24.json")
    found = DeviceLatency().place(PlacementRequest(problem=problem, evaluations=FEW))
    assert found.period == pytest.approx(100.2185, abs=5e-5)
    assert found.gap == 0.0
    assert found.proof == "chain"


def test_results_are_the_same_again_and_depend_on_the_seed(monkeypatch):
    monkeypatch.setattr(latency_placement, "MOST_MODELLED", 0)
    problem = read_placement(PUBLISHED / "latency" / "layer_gnmt.json")
    once, again = (
        DeviceLatency().place(PlacementRequest(problem=problem, evaluations=FEW)) for _ in range(2)
    )
    other = DeviceLatency().place(PlacementRequest(problem=problem, evaluations=200, seed=5))
    assert (once.device_of == again.device_of).all()
    assert (once.device_of != other.device_of).any()


def test_fewer_cores_than_operators_are_waited_for():
    nodes = [node(v, 1.0, supportedOnFpga=0, cpuLatency=4.0) for v in range(4)]
    problem = example(nodes, [], maxFPGAs=0, maxCPUs=2)
    found = DeviceLatency().place(PlacementRequest(problem=problem, evaluations=FEW))
    assert found.period == 8.0
    assert found.lower_bound == 8.0
    assert found.device_load.tolist() == [8.0, 8.0]


def test_the_objective_is_known():
    assert objective_of(DeviceLatency()) == "latency"
    assert objective_of(DevicePlacement()) == "period"


@pytest.mark.parametrize(
    ("changes", "request_"),
    [({}, {"rule": "relay"}), ({}, {"partitioner": "dp"}), ({"isBackwardNode": 1}, {})],
)
def test_requests_without_an_answer_are_refused(changes, request_):
    problem = example([node(0, 1.0), node(1, 1.0, **changes)], [(0, 1, 1.0)])
    with pytest.raises(CompileError) as caught:
        DeviceLatency().place(PlacementRequest(problem=problem, **request_))
    assert [d.code for d in caught.value.diagnostics] == ["MCM-F021"]


def test_no_device_is_refused():
    with pytest.raises(CompileError) as caught:
        DeviceLatency().place(
            PlacementRequest(problem=example([node(0, 1.0)], [], maxFPGAs=0), evaluations=FEW)
        )
    assert [d.code for d in caught.value.diagnostics] == ["MCM-F006"]


@pytest.mark.parametrize(("level", "least_s"), [(0, 1.0), (2, 5.0), (3, 60.0)])
def test_effort_of_the_solver_is_that_of_the_level(level, least_s, monkeypatch):
    limits = []

    def solve(solver, _model):
        limits.append(solver.parameters.max_deterministic_time)
        return cp_model.UNKNOWN

    monkeypatch.setattr(cp_model.CpSolver, "solve", solve)
    monkeypatch.setattr(cp_model.CpSolver, "best_objective_bound", 0.0)
    monkeypatch.setattr(latency_placement, "chain_bound", lambda _: LowerBound(0.0, "", "path"))
    data = problem_data([node(v, 1.0, cpuLatency=1.0) for v in range(4)], [(0, 3, 0.5)])
    options = PlacementOptions(level=level, evaluations=FEW)
    DeviceLatency().place(PlacementRequest.of(placement_from_json(data, "graph.json"), options))
    assert limits == [max(least_s, EFFORT_S)]
