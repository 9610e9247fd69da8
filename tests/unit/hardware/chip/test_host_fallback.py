from __future__ import annotations

import onnx_ir as ir
import pytest

from mcm_compiler.contracts.cost import KnowsHostOps, KnowsViews
from mcm_compiler.machines.machine import Machine
from mcm_hardware.chip.op_support import HostFallbackCosts, HostLink, host_link
from mcm_hardware.families.ring.ring_target import RingTarget, mcm4, mcm36_shared
from tests.oracles.host_trips import Numbers, trip_seconds

NUMBERS = Numbers(
    rate=32e9,
    latency=1e-6,
    launch=150e-9,
    host_launch=2e-6,
    host_ops=5e9,
    host_bytes=40e9,
    widths={"FLOAT": 16, "INT64": 32},
)


def target(ops: str, more: str = "", text: str = "") -> RingTarget:
    given = (text or mcm4().source_text).replace(
        "[chip.mac_array]", f"unsupported_ops = [{ops}]\n[chip.mac_array]", 1
    )
    host = "\n[host]\npeak_tflop_per_s = 0.005\nmemory_bandwidth_gb_per_s = 40\n"
    given = given.replace("\n[host]\n", f"{host}launch_overhead_us = 2\n", 1)
    return RingTarget.from_text("lacking", given + more)


def named(graph: ir.Graph, *names: str) -> list[ir.Node]:
    return [node for node in graph if node.name in names]


LONG = """
g (float[64,128] x, float[64,128] z) => (float[64,128] y, float[128,64] v)
<float[128] w = {0}, int64[2] tall = {128, 64}> {
    a = Relu(x)
    b = Erf(a)
    c = Add(b, z)
    u = Erf(c)
    y = Mul(u, b)
    v = Reshape(u, tall)
}
"""


@pytest.mark.parametrize(
    "names",
    [["Erf_1"], ["Erf_3"], ["Erf_1", "Add_2"], ["Erf_1", "Add_2", "Erf_3"],
     ["Erf_3", "Reshape_5"], ["Erf_1", "Add_2", "Erf_3", "Mul_4", "Reshape_5"]],
)  # fmt: skip
def test_bytes_and_seconds_are_those_of_the_oracle(model, names):
    whole = model(LONG.replace("<float[128] w = {0}, ", "<"))
    costs = target('"Erf", "Add", "Mul"').cost_model()
    # Elementwise formulas, by hand: 16 lane operations of Erf are asked of the table.
    per = {"Erf": 0, "Add": 0, "Mul": 0}
    for op in per:
        node = next(n for n in whole.graph if n.op_type == op)
        per[op] = int(costs.node_cost(node).flops)
    assert (per["Add"], per["Mul"]) == (64 * 128, 64 * 128)
    ops = {n.name or "": per.get(n.op_type, 0) for n in whole.graph}
    cost = costs.group_cost(named(whole.graph, *names))
    up, down, seconds = trip_seconds(whole, names, ops, NUMBERS)
    assert cost.trip is not None
    assert (cost.trip.up_bytes, cost.trip.down_bytes) == (up, down)
    assert (cost.read_bytes, cost.write_bytes, cost.weight_bytes) == (up, down, 0)
    assert cost.seconds == pytest.approx(seconds, rel=1e-12)
    assert cost.bound_by == "host"


def test_weights_stay_with_the_host(model):
    whole = model(
        "g (float[4,8] x) => (float[4,8] y) <float[8] w = {1, 2, 3, 4, 5, 6, 7, 8}>"
        " { y = Add(x, w) }"
    )
    (node,) = whole.graph
    trip = target('"Add"').cost_model().node_cost(node).trip
    assert trip is not None
    assert (trip.up_bytes, trip.down_bytes) == (64, 64)


def test_what_a_branch_captures_goes_up(model):
    whole = model(
        "g (float[4] x, float[8] z, bool c) => (float[4] y) {"
        " y = If (c) <then_branch = t () => (float[4] a) { a = Erf(x) },"
        " else_branch = e () => (float[4] b) { b = Relu(x) }> }"
    )
    (node,) = whole.graph
    trip = target('"Erf"').cost_model().node_cost(node).trip
    assert trip is not None
    assert (trip.up_bytes, trip.down_bytes) == (4 * 2 + 1, 4 * 2)


def test_chips_cost_what_they_did(model):
    (node, *_) = model(LONG.replace("<float[128] w = {0}, ", "<")).graph
    own, beside = mcm4(), target('"Erf"')
    assert beside.cost_model().node_cost(node) == own.cost_model().node_cost(node)
    costs = beside.cost_model()
    assert isinstance(costs, KnowsHostOps)
    assert isinstance(costs, KnowsViews)
    assert not isinstance(own.cost_model(), KnowsHostOps)


def test_no_chip_is_charged_less_than_the_trip_takes(model):
    (_, erf, *_) = model(LONG.replace("<float[128] w = {0}, ", "<")).graph
    fast = target('"Erf"', "\n[[override]]\nchips = [2]\nspeed = 4.0\n")
    trip = target('"Erf"').cost_model().node_cost(erf).seconds
    assert fast.cost_model().node_cost(erf).seconds / 4.0 == pytest.approx(trip, rel=1e-12)
    # What is searched and what is played are the same here.
    assert fast.costs.played.node_cost(erf).seconds == fast.cost_model().node_cost(erf).seconds


def test_links_to_the_host():
    assert host_link(mcm4().machine) == HostLink(32e9, 1e-6)
    # 64 GB/s for 36 chips together: an equal part each, so that all can go up at once.
    assert host_link(mcm36_shared().machine) == HostLink(64e9 / 36, 1e-6)


def test_chips_that_reach_the_host_through_others():
    ends = mcm4().source_text.replace('host_io = "any"', 'host_io = "ends"')
    through: Machine = target('"Erf"', text=ends).machine
    assert host_link(through) is None
    assert not isinstance(target('"Erf"', text=ends).cost_model(), HostFallbackCosts)
