"""A mesh of two rows for tests: devices 0 1 2 / 3 4 5, rows first, one byte per second."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

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
from mcm_hardware.families.ring.ring_target import mcm36
from mcm_hardware.package.chips_package import ChipsPackage
from mcm_hardware.package.package_machine import package_machine

FORM = package_form(
    "small_mesh",
    "a small mesh",
    {
        "mesh.rows": Key(Number(1, 8, whole=True), "rows of chips"),
        "mesh.columns": Key(Number(1, 8, whole=True), "columns of chips"),
        "link.bandwidth_gb_per_s": Key(BANDWIDTH, "rate of one link"),
        "link.latency_us": Key(LATENCY_US, "delay of one link"),
    },
)


@dataclass(frozen=True, kw_only=True)
class MeshSpec(PackageSpec):
    rows: int
    columns: int
    link_bytes_per_s: float
    link_latency_s: float
    cuts: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class SmallMesh(ChipsPackage):
    spec: MeshSpec
    form: ClassVar[PackageForm] = FORM

    @classmethod
    def from_text(cls, name: str, text: str) -> SmallMesh:
        file = PackageFile(name, text, FORM)
        rows, columns = file.values.get("mesh.rows"), file.values.get("mesh.columns")
        common = file.common(rows * columns if rows and columns else None, all_on=True)
        rate = file.number("link.bandwidth_gb_per_s", 1e9)
        delay = file.number("link.latency_us", 1e-6)
        spec = MeshSpec(
            **common, rows=rows, columns=columns, link_bytes_per_s=rate, link_latency_s=delay
        )
        return cls(name, spec, text)

    def connected(self) -> Machine:
        spec = self.spec
        links = MachineBuilder(spec.num_chips)
        channel: dict[tuple[int, int], int] = {}
        for source in range(spec.num_chips):
            for destination in range(spec.num_chips):
                way = self._way(source, destination)
                if len(way) == 2:
                    channel[source, destination] = links.channel(
                        source,
                        destination,
                        spec.link_bytes_per_s,
                        spec.link_latency_s,
                        cuts=(source, destination) in spec.cuts,
                    )
        for source in range(spec.num_chips):
            for destination in range(spec.num_chips):
                way = self._way(source, destination)
                links.route(source, destination, [channel[hop] for hop in pairwise(way)])
        return package_machine("small_mesh", spec, links)

    def _way(self, source: int, destination: int) -> list[int]:
        """Along the row, then along the column."""
        width = self.spec.columns
        way = [source]
        while way[-1] % width != destination % width:
            way.append(way[-1] + (1 if way[-1] % width < destination % width else -1))
        while way[-1] != destination:
            way.append(way[-1] + (width if way[-1] < destination else -width))
        return way


def small_mesh(rows: int = 2, columns: int = 3, **numbers: object) -> SmallMesh:
    """A mesh with links of 1 byte per second that are 0.5 s long, and a host without delay."""
    reference = mcm36().spec.reference
    chips = rows * columns
    fields: dict[str, object] = {
        "summary": "",
        "reference": reference,
        "chips": (reference,) * chips,
        "physical": tuple(range(chips)),
        "host_bytes_per_s": 1.0,
        "host_latency_s": 0.0,
        "channel_slots": 2,
        "rows": rows,
        "columns": columns,
        "link_bytes_per_s": 1.0,
        "link_latency_s": 0.5,
    }
    return SmallMesh("small", MeshSpec(**(fields | numbers)), "")
