"""From the chips of a package and the links between them to its machine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcm_compiler.machines.machine import HOST, HOST_ROOT, OFF_PACKAGE, OFF_PACKAGE_ROOT, Machine
from mcm_compiler.machines.machine_builder import MachineBuilder
from mcm_compiler.machines.package_limits import Forwarding, HostIo
from mcm_hardware.chip.chip_spec import ACTIVATION_PACKING, STREAM_BUFFERS, PackageSpec


@dataclass(frozen=True)
class Surroundings:
    """How chips reach what is outside, and each other.

    Attributes:
        host_io: whether the host reaches every chip, or the first and the last one alone. What
            other chips read then enters at the first and goes on over links, and what they give
            leaves at the last.
        host_total_bytes_per_s: rate, each way, of one channel between the host and all chips
            together; 0 where chips share none.
        stream_total_bytes_per_s: likewise of all reads from off-package memory.
        forwarding: who passes on what a chip does not want itself.
    """

    host_io: HostIo = "any"
    host_total_bytes_per_s: float = 0.0
    stream_total_bytes_per_s: float = 0.0
    forwarding: Forwarding = "router"


def package_machine(
    family: str, spec: PackageSpec, links: MachineBuilder, around: Surroundings = Surroundings()
) -> Machine:
    """The machine of a package of chips.

    Each chip that the host reaches gets a channel from it and one to it, and each chip one from
    off-package memory where the package has it, unless `links` has a route for that.

    Args:
        family: name of the family.
        spec: the chips; device d is `spec.chips[d]`.
        links: channels and routes between the chips; ports are added to it.
        around: how the chips reach what is outside.

    Raises:
        MachineError: for routes that lead nowhere, or wait for each other in a circle.
    """
    last = spec.num_chips - 1
    reached = {0, last} if around.host_io == "ends" else set(range(spec.num_chips))
    ports: dict[tuple[int, int], int] = {}
    for chip in range(spec.num_chips):
        for ends in ((HOST, chip), (chip, HOST)):
            if chip in reached and not links.routed(*ends):
                rate, delay = spec.host_bytes_per_s, spec.host_latency_s
                ports[ends] = links.channel(*ends, rate, delay)
        ends = (OFF_PACKAGE, chip)
        if spec.stream_bytes_per_s > 0 and not links.routed(*ends):
            ports[ends] = links.channel(*ends, spec.stream_bytes_per_s, spec.stream_latency_s)
    before: dict[int, tuple[int, ...]] = {HOST: (), OFF_PACKAGE: ()}
    behind: tuple[int, ...] = ()
    if rate := around.host_total_bytes_per_s:
        before[HOST] = (links.channel(HOST_ROOT, HOST, rate),)
        behind = (links.channel(HOST, HOST_ROOT, rate),)
    if (rate := around.stream_total_bytes_per_s) and spec.stream_bytes_per_s > 0:
        before[OFF_PACKAGE] = (links.channel(OFF_PACKAGE_ROOT, OFF_PACKAGE, rate),)
    for (source, destination), port in ports.items():
        links.route(source, destination, (*before.get(source, ()), port, *behind[: source >= 0]))
    for chip in range(1, last) if around.host_io == "ends" else ():
        links.extend(HOST, chip, (HOST, 0), (0, chip))
        links.extend(chip, HOST, (chip, last), (last, HOST))
    return links.machine(
        family,
        [chip.sram_bytes for chip in spec.chips],
        [chip.speed for chip in spec.chips],
        channel_slots=spec.channel_slots,
        buffer_alignment_bytes=spec.reference.alignment_bytes,
        stream_buffers=STREAM_BUFFERS,
        activation_packing=ACTIVATION_PACKING,
        device_kind=np.array(spec.kind_of, np.int32) if len(spec.kinds) > 1 else None,
        relays=around.forwarding == "engine",
    )
