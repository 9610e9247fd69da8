"""From the chips of a package and the links between them to its machine."""

from __future__ import annotations

import numpy as np

from mcm_compiler.machines.machine import HOST, OFF_PACKAGE, Machine
from mcm_compiler.machines.machine_builder import MachineBuilder
from mcm_hardware.chip.chip_spec import ACTIVATION_PACKING, STREAM_BUFFERS, PackageSpec


def package_machine(family: str, spec: PackageSpec, links: MachineBuilder) -> Machine:
    """The machine of a package of chips.

    Each chip gets a channel from the host, one to it, and one from off-package memory where the
    package has it, unless `links` has a route for that.

    Args:
        family: name of the family.
        spec: the chips; device d is `spec.chips[d]`.
        links: channels and routes between the chips; ports are added to it.

    Raises:
        MachineError: for routes that lead nowhere, or wait for each other in a circle.
    """
    for chip in range(spec.num_chips):
        for source, destination in ((HOST, chip), (chip, HOST)):
            if not links.routed(source, destination):
                port = links.channel(
                    source, destination, spec.host_bytes_per_s, spec.host_latency_s
                )
                links.route(source, destination, (port,))
        if spec.stream_bytes_per_s > 0 and not links.routed(OFF_PACKAGE, chip):
            port = links.channel(OFF_PACKAGE, chip, spec.stream_bytes_per_s, spec.stream_latency_s)
            links.route(OFF_PACKAGE, chip, (port,))
    return links.machine(
        family,
        [chip.sram_bytes for chip in spec.chips],
        [chip.speed for chip in spec.chips],
        channel_slots=spec.channel_slots,
        buffer_alignment_bytes=spec.reference.alignment_bytes,
        stream_buffers=STREAM_BUFFERS,
        activation_packing=ACTIVATION_PACKING,
        device_kind=np.array(spec.kind_of, np.int32) if len(spec.kinds) > 1 else None,
    )
