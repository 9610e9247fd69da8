"""The rules of a machine: whether a placement of nodes is valid on it.

On every machine, tensors must have a way to where they are read, and the graph of devices must
have no cycle. With a bounded number of buffers, two devices that wait for each other within one
inference deadlock. A ring has further rules, in `ring_rules`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from mcm_compiler.arrays.dags import find_circle
from mcm_compiler.contracts.mapping import Violation
from mcm_compiler.contracts.partition import Ints, Longs, PartitionProblem
from mcm_compiler.diagnostics import quote
from mcm_compiler.machines.machine import HOST, Machine
from mcm_compiler.placements import ring_rules


def find_machine_violations(
    chip_of: Ints,
    edge_source: Ints,
    edge_target: Ints,
    machine: Machine,
    num_devices: int,
    names: Sequence[str] | None = None,
) -> list[Violation]:
    """The rules that a placement breaks; empty where it is valid.

    Args:
        chip_of: `[N]`, device of each node.
        edge_source: `[E]`, the node that each dependency comes from.
        edge_target: `[E]`, the node that each dependency goes to.
        machine: what they are placed on.
        num_devices: how many of its devices may be used, the first ones.
        names: `[N]`, for the messages; indices where None.
    """
    if found := ring_rules.out_of_range(chip_of, num_devices, names):
        return found
    source, target = chip_of[edge_source], chip_of[edge_target]
    hops, edges = _edges_between(machine, source, target)
    # Engines of devices that may not be used pass nothing on.
    unused = edges[(hops >= num_devices).any(axis=1)]
    lost = np.union1d(np.flatnonzero(~machine.reaches[source, target]), unused)
    found = [
        Violation(
            "unreachable",
            f"{_name(int(edge_target[e]), names)} on device {target[e]} reads "
            f"{_name(int(edge_source[e]), names)} on device {source[e]}, and no route leads there",
            (int(edge_source[e]), int(edge_target[e])),
            (int(source[e]), int(target[e])),
        )
        for e in lost[: ring_rules.MAX_REPORTED].tolist()
    ]
    if circle := circle_of_devices(hops[:, 0], hops[:, 1]):
        at = dict(zip(map(tuple, hops.tolist()), edges.tolist(), strict=True))
        steps = [at[step] for step in pairwise(circle)]
        path = tuple((int(edge_source[e]), int(edge_target[e])) for e in steps)
        way = " -> ".join(map(str, circle[: ring_rules.MAX_REPORTED]))
        message = (
            f"devices wait for each other in a circle, {way}: {_name(path[0][1], names)} reads "
            f"{_name(path[0][0], names)}"
        )
        nodes = tuple(dict.fromkeys(node for step in path for node in step))
        found.append(Violation("acyclic", message, nodes, tuple(circle), path))
    return found


def hops_of(machine: Machine, pairs: Ints) -> Ints:
    """`[H, 2]`, the devices that pass a tensor to each other on routes between pairs of devices.

    Args:
        machine: one whose engines pass tensors on.
        pairs: `[P, 2]`.
    """
    return _edges_between(machine, pairs[:, 0], pairs[:, 1])[0]


def _edges_between(machine: Machine, source: Ints, target: Ints) -> tuple[Ints, Longs]:
    """`[H, 2]`, devices that wait for each other, and `[H]`, the dependency that each is for.

    Where engines pass tensors on, each device on a route waits for the one before it.
    """
    edges = np.arange(len(source))
    pairs = np.stack([source, target], axis=1)
    if not machine.relays:
        return pairs, edges
    apart, first = np.unique(pairs[source != target], axis=0, return_index=True)
    dependency = edges[source != target][first]
    found = [
        (a, b, edge)
        for (start, end), edge in zip(apart.tolist(), dependency.tolist(), strict=True)
        for a, b in pairwise(machine.places(start, end))
    ]
    table = np.array(found, np.int64).reshape(len(found), 3)
    return table[:, :2].astype(np.int32), table[:, 2]


def find_placement_violations(
    problem: PartitionProblem, chip_of: Ints, demand_bytes: Longs | None = None
) -> list[Violation]:
    """The rules that a placement of a problem breaks, with memory and the user's pins.

    Args:
        problem: what was to be placed.
        chip_of: `[N]`; entries of clonable units hold the first device with a copy.
        demand_bytes: `[D]`, memory that each device needs, or None.
    """
    edges, count = ring_rules.dependency_edges(problem), problem.num_chips
    if problem.on_ring:
        found = ring_rules.find_violations(
            chip_of, *edges, num_chips=count, routing=problem.routing, names=problem.names
        )
    else:
        found = find_machine_violations(chip_of, *edges, problem.machine, count, problem.names)
    in_range = not found or found[0].rule != "range"
    if in_range and not problem.on_ring:
        found += _out_of_reach_of_the_host(problem, problem.machine, chip_of)
        found += _unsupported(problem, chip_of)
    if in_range and demand_bytes is not None:
        found += ring_rules.find_overflows(problem, chip_of, demand_bytes)
    return found + ring_rules.misplaced_pins(problem, chip_of)


def unreached_by_host(
    machine: Machine, entering: Iterable[tuple[int, str]], leaving: Iterable[tuple[int, str]]
) -> list[Violation]:
    """Exchanges of the host with devices that it has no way to, or they to it.

    Args:
        machine: what is placed on.
        entering: devices and names of the tensors that they want from the host.
        leaving: devices and names of the tensors that the host wants from them.
    """
    lost = [
        (device, f"no route leads from the host to device {device}, which reads {quote(tensor)}")
        for device, tensor in sorted(set(entering))
        if not machine.route(HOST, device)
    ]
    lost += [
        (device, f"no route leads to the host from device {device}, which makes {quote(tensor)}")
        for device, tensor in sorted(set(leaving))
        if not machine.route(device, HOST)
    ]
    return [
        Violation("unreachable", message, (), (device,))
        for device, message in lost[: ring_rules.MAX_REPORTED]
    ]


def _out_of_reach_of_the_host(
    problem: PartitionProblem, machine: Machine, chip_of: Ints
) -> list[Violation]:
    devices = np.arange(machine.num_devices)
    into = [bool(machine.route(HOST, d)) for d in devices.tolist()]
    out = [bool(machine.route(d, HOST)) for d in devices.tolist()]
    if all(into) and all(out):
        return []
    names = problem.tensor_names
    entering = [
        (int(chip_of[u]), names[t])
        for t in np.flatnonzero(problem.tensor_producer < 0).tolist()
        for u in problem.placed_readers.row(t).tolist()
    ]
    makes = problem.tensor_to_host & (problem.tensor_producer >= 0)
    leaving = [
        (int(chip_of[problem.tensor_producer[t]]), names[t]) for t in np.flatnonzero(makes).tolist()
    ]
    return unreached_by_host(machine, entering, leaving)


def _unsupported(problem: PartitionProblem, chip_of: Ints) -> list[Violation]:
    """Units, and copies of them, on devices of kinds that cannot run them."""
    kinds = problem.kinds
    if kinds is None or bool(kinds.runs.all()):
        return []
    found: list[Violation] = []
    lacking = np.flatnonzero(~kinds.can_run.all(axis=0))
    for unit in lacking.tolist():
        users = problem.clone_closure.row(unit)
        for device in np.unique(chip_of[users]).tolist():
            kind = int(problem.kind_of[device])
            if not kinds.can_run[kind, unit]:
                message = (
                    f"{quote(problem.names[unit])} is on device {device}, and devices of the kind "
                    f"{quote(kinds.names[kind])} cannot run it"
                )
                found.append(Violation("unsupported", message, (unit,), (device,)))
    return found[: ring_rules.MAX_REPORTED]


def circle_of_devices(source: Ints, target: Ints) -> list[int]:
    """A circle among dependencies between devices, its first device once more at the end.

    Args:
        source: device that each dependency comes from.
        target: device that each goes to.
    """
    between = source != target
    pairs = np.unique(np.stack([source[between], target[between]], axis=1), axis=0)
    circle = find_circle(pairs.tolist())
    return [*circle, *circle[:1]]


def _name(node: int, names: Sequence[str] | None) -> str:
    return f"node {node}" if names is None else quote(names[node])
