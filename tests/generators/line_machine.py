"""A one-way line of chips as a plain machine: a ring's hardware in a family without a mapping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mcm_compiler import register
from mcm_compiler.machines.machine import Machine
from mcm_compiler.machines.machine_builder import MachineBuilder
from mcm_hardware.chip.chip_spec import PackageSpec
from mcm_hardware.descriptions.package_file import PackageFile
from mcm_hardware.descriptions.package_schema import (
    BANDWIDTH,
    LATENCY_US,
    PackageForm,
    package_form,
)
from mcm_hardware.descriptions.target_schema import Key, Number
from mcm_hardware.package.chips_package import ChipsPackage
from mcm_hardware.package.package_machine import package_machine

LINE = package_form(
    "line",
    "a one-way line",
    {
        "line.chips": Key(Number(1, 4096, whole=True), "chips"),
        "link.bandwidth_gb_per_s": Key(BANDWIDTH, "rate of one link"),
        "link.hop_latency_us": Key(LATENCY_US, "delay of one hop"),
    },
)


@dataclass(frozen=True, kw_only=True)
class LineSpec(PackageSpec):
    """Chips, and the links between neighbours."""

    link_bytes_per_s: float
    hop_latency_s: float


@dataclass(frozen=True)
class LinePackage(ChipsPackage):
    """Chips on a line."""

    spec: LineSpec
    form: ClassVar[PackageForm] = LINE

    @classmethod
    def from_text(cls, name: str, text: str) -> LinePackage:
        """The package of a description."""
        file = PackageFile(name, text, LINE)
        spec = LineSpec(
            **file.common(file.values.get("line.chips"), all_on=True),
            link_bytes_per_s=file.number("link.bandwidth_gb_per_s", 1e9),
            hop_latency_s=file.number("link.hop_latency_us", 1e-6),
        )
        return cls(name, spec, text)

    def connected(self) -> Machine:
        """Routes lead to higher chips alone."""
        spec = self.spec
        links = MachineBuilder(spec.num_chips)
        channels = [
            links.channel(c, c + 1, spec.link_bytes_per_s, spec.hop_latency_s)
            for c in range(spec.num_chips - 1)
        ]
        for a in range(spec.num_chips):
            for b in range(a, spec.num_chips):
                links.route(a, b, channels[a:b])
        return package_machine("line", spec, links)


def line_text(ring_text: str) -> str:
    """The description of a line with the chips and links of a ring."""
    return (
        ring_text.replace('family = "ring"', 'family = "line"')
        .replace("num_chips =", "# num_chips =")
        .replace('host_io = "any"', "")
        .replace("[link]", f"[line]\nchips = {_chips(ring_text)}\n\n[link]")
    )


def _chips(ring_text: str) -> int:
    line = next(one for one in ring_text.splitlines() if one.startswith("num_chips ="))
    return int(line.partition("=")[2])


register("target-family", "line")(LinePackage.from_text)
