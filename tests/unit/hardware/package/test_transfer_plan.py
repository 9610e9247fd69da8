"""Who sends what to whom, on a ring and on a mesh."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mcm_compiler.contracts.target import Wire
from mcm_compiler.machines.machine import HOST, Machine
from mcm_hardware.families.ring.ring_machine import ring_machine
from mcm_hardware.families.ring.ring_target import mcm4
from mcm_hardware.package.transfer_plan import plan_transfers
from tests.generators.small_mesh import small_mesh

RING = mcm4().machine
MESH = small_mesh().machine  # 0 1 2 / 3 4 5, rows first


def planned(machine: Machine, *wires: Wire) -> list[tuple[int, int, int]]:
    """Source, destination and `after` of each transfer."""
    plan = plan_transfers(wires, {}, machine)
    return [(t.source, t.destination, t.after) for t in plan.transfers]


def test_on_a_ring_the_nearest_chip_passes_on():
    assert planned(RING, Wire("a", 0, (1, 2, 3))) == [(0, 1, -1), (1, 2, 0), (2, 3, 1)]
    assert planned(RING, Wire("a", 0, (1, 3)), Wire("b", 1, (3,))) == [
        (0, 1, -1), (1, 3, 0), (1, 3, -1)
    ]  # fmt: skip


def test_the_host_sends_to_each_and_gets_from_the_maker():
    assert planned(RING, Wire("x", HOST, (0, 2, 3))) == [
        (HOST, 0, -1), (HOST, 2, -1), (HOST, 3, -1)
    ]  # fmt: skip
    assert planned(RING, Wire("a", 1, (2,)), Wire("a", 1, (HOST,))) == [
        (1, 2, -1), (1, HOST, -1)
    ]  # fmt: skip
    assert planned(RING, Wire("x", HOST, (HOST,))) == []


def test_behind_the_ends_who_has_it_passes_on():
    machine = ring_machine(replace(mcm4().spec, host_io="ends"))
    # The last chip reaches the host itself.
    assert planned(machine, Wire("x", HOST, (0, 2, 3))) == [
        (HOST, 0, -1), (HOST, 3, -1), (0, 2, 0)
    ]  # fmt: skip
    assert planned(machine, Wire("a", 1, (2,)), Wire("a", 1, (HOST,))) == [
        (1, 2, -1), (2, HOST, 0)
    ]  # fmt: skip
    assert planned(machine, Wire("a", 0, (1,)), Wire("a", 0, (HOST,))) == [
        (0, 1, -1), (0, HOST, -1)
    ]  # fmt: skip


def test_on_a_mesh_who_lies_on_the_way_passes_on():
    # 5 is reached over 1 and 2; 2 is the last of those that want it.
    assert planned(MESH, Wire("a", 0, (1, 2, 5))) == [(0, 1, -1), (1, 2, 0), (2, 5, 1)]
    assert planned(MESH, Wire("a", 0, (1, 5))) == [(0, 1, -1), (1, 5, 0)]


def test_on_a_mesh_who_lies_beside_the_way_does_not():
    # Rows first: 4 is reached over 1, and 3 is on no other way.
    assert planned(MESH, Wire("a", 0, (3, 4))) == [(0, 3, -1), (0, 4, -1)]
    assert planned(MESH, Wire("a", 0, (1, 3, 4))) == [(0, 1, -1), (0, 3, -1), (1, 4, 0)]


def test_whoever_passes_on_comes_first():
    # From 5 to 0 over 4 and 3, so that the lower number is further away.
    assert planned(MESH, Wire("a", 5, (0, 3, 4))) == [(5, 4, -1), (4, 3, 0), (3, 0, 1)]
    plan = plan_transfers([Wire("a", 5, (0, 3, 4))], {"a": 7}, MESH)
    assert plan.arriving == {(4, "a"): 0, (3, "a"): 1, (0, "a"): 2}
    assert plan.leaving == {(5, "a"): (0,)}
    assert {(t.size_bytes, t.slots) for t in plan.transfers} == {(7, 2)}


def test_no_route_is_used_twice_by_one_tensor():
    for source in range(6):
        others = tuple(d for d in range(6) if d != source)
        crossed = [
            c for a, b, _ in planned(MESH, Wire("a", source, others)) for c in MESH.route(a, b)
        ]
        assert len(crossed) == len(set(crossed)) == 5


def test_wires_that_lead_nowhere_are_faults_of_the_splitter():
    with pytest.raises(ValueError, match="no route leads wire 'a' from chip 2 to chip 1"):
        planned(RING, Wire("a", 2, (1,)))
    with pytest.raises(ValueError, match="comes to chip 2 twice"):
        planned(RING, Wire("a", 0, (2,)), Wire("a", 1, (2,)))
