"""The family `acme_mesh`: what a description says, and the machine that follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from acme_mesh.grid import Grid
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
from mcm_hardware.descriptions.target_schema import Choice, Key, Number
from mcm_hardware.package.chips_package import ChipsPackage
from mcm_hardware.package.package_machine import package_machine

MESH = package_form(
    "acme_mesh",
    "a mesh package",
    {
        "mesh.rows": Key(Number(1, 64, whole=True), "rows of chips"),
        "mesh.cols": Key(Number(1, 64, whole=True), "columns of chips"),
        "mesh.turns": Key(
            Choice(("xy", "yx", "alternating")), "which way tensors go first", default="xy"
        ),
        "link.bandwidth_gb_per_s": Key(BANDWIDTH, "rate of one link, each way"),
        "link.hop_latency_us": Key(LATENCY_US, "delay of one hop"),
    },
)
"""The form of a description of a mesh package."""


@dataclass(frozen=True, kw_only=True)
class MeshSpec(PackageSpec):
    """A package of chips that form a mesh.

    Attributes:
        grid: how they are connected.
        link_bytes_per_s: rate of each link.
        hop_latency_s: delay of each link.
    """

    grid: Grid
    link_bytes_per_s: float
    hop_latency_s: float


@dataclass(frozen=True)
class MeshPackage(ChipsPackage):
    """A mesh of chips, each of which the host reaches.

    Attributes:
        spec: its numbers.
    """

    spec: MeshSpec
    form: ClassVar[PackageForm] = MESH

    @classmethod
    def from_text(cls, name: str, text: str) -> MeshPackage:
        """Makes the package from a description.

        Raises:
            CompileError: MCM-T001 to MCM-T008, as `PackageFile`.
        """
        file = PackageFile(name, text, MESH)
        rows, cols = file.values.get("mesh.rows"), file.values.get("mesh.cols")
        known = isinstance(rows, int) and isinstance(cols, int)
        spec = MeshSpec(
            **file.common(rows * cols if known else None, all_on=True),
            grid=Grid(rows, cols, file.values["mesh.turns"]),
            link_bytes_per_s=file.number("link.bandwidth_gb_per_s", 1e9),
            hop_latency_s=file.number("link.hop_latency_us", 1e-6),
        )
        return cls(name, spec, text)

    def connected(self) -> Machine:
        """A channel for each link; those to the host and to off-package memory are the base's."""
        spec, grid = self.spec, self.spec.grid
        links = MachineBuilder(spec.num_chips)
        channel = {
            (a, b): links.channel(a, b, spec.link_bytes_per_s, spec.hop_latency_s)
            for a, b in grid.links
        }
        for a in range(spec.num_chips):
            for b in range(spec.num_chips):
                links.route(a, b, [channel[hop] for hop in pairwise(grid.way(a, b))])
        return package_machine("acme_mesh", spec, links)
