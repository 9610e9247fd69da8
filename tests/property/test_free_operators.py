"""Operators, transfers and memory of size zero: an optimum all the same, or one true refusal."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcm_compiler.contracts.placement import PlacementRequest
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.placements.placement_file import placement_from_json
from mcm_compiler.registry import PLACEMENT_COSTS
from mcm_passes.mapping.device_placement.device_loads import device_loads
from mcm_passes.mapping.device_placement.device_placement import DevicePlacement
from tests.generators.placement_examples import least_period
from tests.oracles.training_oracle import least_load

NOTHING = {"time": st.sampled_from([0.0, 0.0, 1.0, 5.0]), "size": st.sampled_from([0.0, 0.0, 1.0])}


def _color(v: int, *, free: bool, backward: bool) -> st.SearchStrategy[int]:
    return st.just(0) if backward else st.sampled_from([v] if free else [v, v, v, 0])


@st.composite
def mostly_nothing(draw: st.DrawFn, *, training: bool) -> dict[str, Any]:
    """Up to 6 operators, many without time, size, transfers or neighbours; the first ones free."""
    n = draw(st.integers(1, 6))
    free = draw(st.integers(0, n))
    backward = [training and v >= free and draw(st.booleans()) for v in range(n)]
    nodes = [
        {
            "id": v,
            "fpgaLatency": 0.0 if v < free else draw(NOTHING["time"]),
            "cpuLatency": 0.0 if v < free else draw(NOTHING["time"]),
            "size": 0.0 if v < free else draw(NOTHING["size"]),
            "supportedOnFpga": 1 if v < free else draw(st.sampled_from([1, 1, 1, 0])),
            "isBackwardNode": int(backward[v]),
            # Colors without a forward operator have an order of their own: see the unit tests.
            "colorClass": draw(_color(v, free=v < free, backward=backward[v])),
        }
        for v in range(n)
    ]
    if any(backward):
        nodes[backward.index(False) if False in backward else 0]["colorClass"] = 0
    if all(backward):
        nodes[0]["isBackwardNode"] = 0
    cost = [0.0 if v < free else draw(st.sampled_from([0.0, 0.5, 2.0])) for v in range(n)]
    pairs = [pair for pair in itertools.combinations(range(n), 2) if draw(st.booleans())]
    return {
        "maxFPGAs": draw(st.integers(1, 3)),
        "maxCPUs": draw(st.sampled_from([0, 0, 1])),
        "maxSizePerFPGA": draw(st.sampled_from([0.0, 1.0, 2.0, 100.0])),
        "nodes": nodes,
        "edges": [{"sourceId": u, "destId": v, "cost": cost[u]} for u, v in pairs],
    }


def _period(data: dict[str, Any], rule: Any) -> tuple[float, float]:
    """Period and bound; infinite where the compiler proves that there is no placement."""
    problem = placement_from_json(data, "graph.json")
    try:
        found = DevicePlacement().place(PlacementRequest(problem=problem, rule=rule))
    except CompileError as error:
        if not {d.code for d in error.diagnostics} <= {"MCM-F006", "MCM-F007"}:
            raise
        return float("inf"), float("inf")
    assert not device_loads(problem, found.device_of, rule).violations
    return found.period, found.lower_bound


@pytest.mark.parametrize("training", [False, True])
def test_the_optimum_without_a_ring(training: bool) -> None:
    @given(mostly_nothing(training=training))
    @settings(max_examples=150)
    def holds(data: dict[str, Any]) -> None:
        want = least_load(data)
        assert _period(data, "none") == (pytest.approx(want), pytest.approx(want))

    holds()


@given(mostly_nothing(training=False), st.sampled_from(["relay", "strict"]))
@settings(max_examples=60)
def test_the_optimum_on_a_ring(data: dict[str, Any], rule: Any) -> None:
    data["maxCPUs"] = 0
    want = least_period(placement_from_json(data, "graph.json"), rule)
    period, bound = _period(data, rule)
    if rule == "relay" or want == float("inf"):
        assert period == pytest.approx(want)
    assert bound <= want * (1.0 + 1e-9) or period == float("inf")
    assert want <= period * (1.0 + 1e-9)


@given(mostly_nothing(training=False), st.sampled_from(["ring", "device-placement"]))
@settings(max_examples=60)
def test_strategies_end_in_a_placement_or_a_refusal(data: dict[str, Any], cost: str) -> None:
    data["maxCPUs"] = 0
    problem = placement_from_json(data, "graph.json")
    request = PlacementRequest(problem=problem, rule="relay", partitioner="dp")
    try:
        found = PLACEMENT_COSTS.get(cost)().place(request)
    except CompileError:
        return
    assert not device_loads(problem, found.device_of, "relay").violations
    assert found.lower_bound <= found.period
