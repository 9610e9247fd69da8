"""Random machines whose devices all reach each other, and problems that are placed on them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise, permutations

import numpy as np
from hypothesis import strategies as st

from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.machines.machine import HOST, OFF_PACKAGE, Machine
from mcm_compiler.machines.machine_builder import MachineBuilder
from mcm_hardware.families.package.package_target import TopologyPackage, mesh36
from tests.generators.chip_kinds import with_kinds
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


_TOPOLOGIES = (
    'kind = "line"\nsize = [3]',
    'kind = "mesh"\nsize = [2, 2]',
    'kind = "ring"\nsize = [4]\nvirtual_channels = 2',
    'kind = "line"\nsize = [3]\nforwarding = "engine"',
    'kind = "mesh"\nsize = [2, 2]\nforwarding = "engine"',
)


@cache
def described(topology: str) -> Machine:
    """The machine of a package with some topology, from its lines in a description."""
    head, _, rest = mesh36().source_text.partition("[topology]")
    chips = rest[rest.index("[chip]") :]
    return TopologyPackage.from_text("drawn", f"{head}[topology]\n{topology}\n\n{chips}").machine


@st.composite
def placed_on_machines(draw: st.DrawFn) -> PartitionProblem:
    """Problems with everything that a problem can have but pins, on three devices."""
    problem = draw(connected_problems())
    drawn = machines(3, (2e8, 1e9, 4e9)) | st.sampled_from(_TOPOLOGIES).map(described)
    machine = draw(drawn)
    problem = replace(
        problem,
        given_machine=machine,
        routing="strict",
        limits=replace(
            problem.limits,
            host_io="any",
            forwarding="engine" if machine.relays else "router",
            stream_bytes_per_s=problem.limits.stream_bytes_per_s if machine.streams else 0.0,
        ),
        pinned_chip=np.full_like(problem.pinned_chip, -1),
    )
    seed = draw(st.integers(0, 99))
    if seed % 2:
        copies = problem.copies
        # A copy may take no longer than the kernel on chips of one kind alone.
        shares = [float(seed % 3 > 0), 2.0]
        both = copies and replace(copies, seconds=np.outer(shares, copies.seconds).ravel())
        problem = replace(with_kinds(problem, seed), copies=both)
    return problem
