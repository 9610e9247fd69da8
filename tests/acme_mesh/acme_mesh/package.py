"""The family `acme_mesh`: what a description says, and the machine that follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from acme_mesh.grid import Grid
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.machine import HOST, OFF_PACKAGE, Machine
from mcm_compiler.routes import routes_of
from mcm_hardware.chip_spec import ACTIVATION_PACKING, STREAM_BUFFERS, PackageSpec
from mcm_hardware.chips_package import ChipsPackage
from mcm_hardware.package_file import PackageFile
from mcm_hardware.package_schema import BANDWIDTH, LATENCY_US, PackageForm, package_form
from mcm_hardware.target_schema import Choice, Key, Number

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
            CompileError: MCM-T001 to MCM-T008; the last one also for chips that are off.
        """
        file = PackageFile(name, text, MESH)
        rows, cols = file.values.get("mesh.rows"), file.values.get("mesh.cols")
        known = isinstance(rows, int) and isinstance(cols, int)
        common = file.common(rows * cols if known else None)
        grid = Grid(rows, cols, file.values["mesh.turns"])
        if len(common["chips"]) < grid.rows * grid.cols:
            message = "a chip of a mesh is off, and tensors have no way around it"
            hint = "leave `off` out, or describe a smaller mesh"
            raise CompileError(Diagnostic("MCM-T008", message, at=f"{name}: override", hint=hint))
        spec = MeshSpec(
            **common,
            grid=grid,
            link_bytes_per_s=file.number("link.bandwidth_gb_per_s", 1e9),
            hop_latency_s=file.number("link.hop_latency_us", 1e-6),
        )
        return cls(name, spec, text)

    def connected(self) -> Machine:
        """A channel for each link, and for each chip one from and one to the host."""
        spec, grid = self.spec, self.spec.grid
        chips, links = range(spec.num_chips), grid.links
        ends = links + [(HOST, chip) for chip in chips] + [(chip, HOST) for chip in chips]
        rates = [spec.link_bytes_per_s] * len(links) + [spec.host_bytes_per_s] * 2 * len(chips)
        delays = [spec.hop_latency_s] * len(links) + [spec.host_latency_s] * 2 * len(chips)
        if spec.stream_bytes_per_s > 0:
            ends += [(OFF_PACKAGE, chip) for chip in chips]
            rates += [spec.stream_bytes_per_s] * len(chips)
            delays += [spec.stream_latency_s] * len(chips)
        channel = {pair: index for index, pair in enumerate(ends)}
        ways = [[channel[step] for step in pairwise(grid.way(a, b))] for a in chips for b in chips]
        ways += [[channel[HOST, chip]] for chip in chips]
        ways += [[channel[chip, HOST]] for chip in chips]
        ways += [[channel[OFF_PACKAGE, c]] if (OFF_PACKAGE, c) in channel else [] for c in chips]
        return Machine(
            family="acme_mesh",
            memory_bytes=np.array([chip.sram_bytes for chip in spec.chips], np.int64),
            speed=np.array([chip.speed for chip in spec.chips], np.float64),
            channel_bytes_per_s=np.array(rates, np.float64),
            channel_latency_s=np.array(delays, np.float64),
            channel_ends=np.array(ends, np.int32),
            channel_cuts=np.zeros(len(ends), np.bool_),
            routes=routes_of(ways),
            channel_slots=spec.channel_slots,
            buffer_alignment_bytes=spec.reference.alignment_bytes,
            stream_buffers=STREAM_BUFFERS,
            activation_packing=ACTIVATION_PACKING,
        )
