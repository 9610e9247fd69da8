"""The cost of latency: the published greedy's values, all placements of small problems, faults."""

from __future__ import annotations

import pytest

from mcm_compiler.contracts.placement import PlacementRequest, objective_of
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.placements.placement_file import read_placement
from mcm_passes.mapping.device_placement.device_placement import DevicePlacement
from mcm_passes.mapping.latency_placement import latency_placement
from mcm_passes.mapping.latency_placement.latency_placement import DeviceLatency
from mcm_passes.mapping.latency_placement.latency_referee import latency_outcome
from tests.generators.placement_examples import PUBLISHED, example, latency_problem, node
from tests.oracles.plain_latency import least_latency

FEW = PlacementRequest(evaluations=200)


@pytest.mark.parametrize("seed", range(40))
def test_no_placement_of_a_small_problem_is_faster(seed):
    problem = latency_problem(seed)
    least = least_latency(problem)
    if least == float("inf"):
        with pytest.raises(CompileError) as caught:
            DeviceLatency().place(problem, FEW)
        assert {d.code for d in caught.value.diagnostics} <= {"MCM-F006", "MCM-F007"}
        return
    found = DeviceLatency().place(problem, FEW)
    outcome = latency_outcome(problem, found.device_of)
    assert not outcome.violations
    assert found.period == outcome.latency
    assert found.period == pytest.approx(least, rel=1e-12)
    assert found.lower_bound <= found.period


def test_a_published_input_is_solved_to_the_optimum():
    problem = read_placement(PUBLISHED / "latency" / "layer_bert24.json")
    found = DeviceLatency().place(problem, FEW)
    assert found.period == pytest.approx(100.2185, abs=5e-5)
    assert found.gap == 0.0
    assert found.proof == "chain"


def test_results_are_the_same_again_and_depend_on_the_seed(monkeypatch):
    monkeypatch.setattr(latency_placement, "MOST_MODELLED", 0)
    problem = read_placement(PUBLISHED / "latency" / "layer_gnmt.json")
    once, again = (DeviceLatency().place(problem, FEW) for _ in range(2))
    other = DeviceLatency().place(problem, PlacementRequest(evaluations=200, seed=5))
    assert (once.device_of == again.device_of).all()
    assert (once.device_of != other.device_of).any()


def test_fewer_cores_than_operators_are_waited_for():
    nodes = [node(v, 1.0, supportedOnFpga=0, cpuLatency=4.0) for v in range(4)]
    problem = example(nodes, [], maxFPGAs=0, maxCPUs=2)
    found = DeviceLatency().place(problem, FEW)
    assert found.period == 8.0
    assert found.lower_bound == 8.0
    assert found.device_load.tolist() == [8.0, 8.0]


def test_the_objective_is_known():
    assert objective_of(DeviceLatency()) == "latency"
    assert objective_of(DevicePlacement()) == "period"


@pytest.mark.parametrize(
    ("changes", "request_"),
    [
        ({}, PlacementRequest(rule="relay")),
        ({}, PlacementRequest(partitioner="dp")),
        ({"isBackwardNode": 1}, PlacementRequest()),
    ],
)
def test_requests_without_an_answer_are_refused(changes, request_):
    problem = example([node(0, 1.0), node(1, 1.0, **changes)], [(0, 1, 1.0)])
    with pytest.raises(CompileError) as caught:
        DeviceLatency().place(problem, request_)
    assert [d.code for d in caught.value.diagnostics] == ["MCM-F021"]


def test_no_device_is_refused():
    with pytest.raises(CompileError) as caught:
        DeviceLatency().place(example([node(0, 1.0)], [], maxFPGAs=0), FEW)
    assert [d.code for d in caught.value.diagnostics] == ["MCM-F006"]
