"""Random machines whose devices all reach each other, and problems that are placed on them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, permutations

import numpy as np
from hypothesis import strategies as st

from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.machines.machine import HOST, OFF_PACKAGE, Machine
from mcm_compiler.machines.machine_builder import MachineBuilder
from tests.generators.partition_problems import connected_problems


@st.composite
def machines(draw: st.DrawFn, devices: int, rates: tuple[float, ...] = (1.0,)) -> Machine:
    """All devices have links to each other; routes take any way on which links ascend.

    The host, and off-package memory, reach all of them, or those that another device is the gate
    of.
    """
    pairs = draw(st.permutations(list(permutations(range(devices), 2))))
    links = MachineBuilder(devices)
    rate = st.sampled_from(rates)
    channel = {pair: links.channel(*pair, draw(rate)) for pair in pairs}
    ways_of: dict[tuple[int, int], list[int]] = {}
    for source, destination in pairs:
        between = [d for d in range(devices) if d not in (source, destination)]
        ways = [
            [channel[hop] for hop in pairwise((source, *middle, destination))]
            for count in range(len(between) + 1)
            for middle in permutations(between, count)
        ]
        ascending = [way for way in ways if way == sorted(way)]
        ways_of[source, destination] = draw(st.sampled_from(ascending))
        links.route(source, destination, ways_of[source, destination])
    gate, behind = draw(st.integers(0, devices - 1)), draw(st.sets(st.integers(0, devices - 1)))
    into = [links.channel(HOST, device, draw(rate)) for device in range(devices)]
    out = [links.channel(device, HOST, draw(rate)) for device in range(devices)]
    memory = [links.channel(OFF_PACKAGE, device, draw(rate)) for device in range(devices)]
    for device in range(devices):
        port = gate if device in behind else device
        links.route(HOST, device, [into[port], *ways_of.get((port, device), [])])
        links.route(device, HOST, [*ways_of.get((device, port), []), out[port]])
        links.route(OFF_PACKAGE, device, [memory[port], *ways_of.get((port, device), [])])
    return links.machine("drawn", [1 << 30] * devices, [1.0] * devices)


@st.composite
def placed_on_machines(draw: st.DrawFn) -> PartitionProblem:
    """Problems with everything that a problem can have but pins, on three devices."""
    problem = draw(connected_problems())
    limits = replace(problem.limits, host_io="any", forwarding="router")
    return replace(
        problem,
        machine=draw(machines(3, (2e8, 1e9, 4e9))),
        routing="strict",
        limits=limits,
        pinned_chip=np.full_like(problem.pinned_chip, -1),
    )
