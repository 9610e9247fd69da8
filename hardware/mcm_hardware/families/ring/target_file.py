"""From the TOML description of a ring package to its numbers."""

from __future__ import annotations

from itertools import pairwise

from mcm_hardware.descriptions.chip_kinds import ChipKind
from mcm_hardware.descriptions.package_file import PackageFile
from mcm_hardware.families.ring.machine.ring_spec import RingSpec
from mcm_hardware.families.ring.ring_schema import ring_form


def read_ring(name: str, text: str, kind: ChipKind | None) -> PackageFile:
    """The description of a ring, with chips of a kind, None for arrays; faults are collected."""
    return PackageFile(name, text, ring_form(None if kind is None else kind.keys), kind)


def parse_ring(name: str, text: str, kind: ChipKind | None = None) -> RingSpec:
    """The package that a TOML text describes.

    Args:
        name: the file or target, for the place in diagnostics.
        text: the description; its keys are those of `ring_schema`.
        kind: of its chips; None for arrays.

    Raises:
        CompileError: with one diagnostic per fault: MCM-T001 to MCM-T008, as `PackageFile`.
    """
    file = read_ring(name, text, kind)
    _check_forwarding(file)
    common = file.common(file.values.get("package.num_chips"))
    hop_s = file.number("link.hop_latency_us", 1e-6)
    return RingSpec(
        **common,
        link_bytes_per_s=file.number("link.bandwidth_gb_per_s", 1e9),
        hop_latency_s=tuple((b - a) * hop_s for a, b in pairwise(common["physical"])),
        switching=file.values["link.switching"],
        host_io=file.values["package.host_io"],
        forwarding=file.values["link.forwarding"],
        host_total_bytes_per_s=file.number("host.total_bandwidth_gb_per_s", 1e9),
        stream_total_bytes_per_s=file.number("off_package_memory.total_bandwidth_gb_per_s", 1e9),
    )


def _check_forwarding(file: PackageFile) -> None:
    values = file.values
    ends = values.get("package.host_io") == "ends"
    if ends and values.get("link.forwarding") == "router":
        message = "routers pass nothing on between the ends, where the host is, and other chips"
        hint = 'set host_io = "any" in the table [package], or leave forwarding out'
        file.reader.fault("MCM-T008", message, ("link", "forwarding"), hint)
