"""The family `package`: chips on a line, a ring, a mesh, a torus, or any list of links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mcm_compiler.arrays.dags import following_lists, strong_components
from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.machines.machine import HOST, MOST_LANES, Machine
from mcm_compiler.machines.machine_builder import MachineBuilder
from mcm_compiler.registry import ROUTINGS
from mcm_compiler.text.toml_description import KeyPath, parse_description
from mcm_hardware.chip.chip_spec import PackageSpec
from mcm_hardware.descriptions import package_schema
from mcm_hardware.descriptions.package_file import PackageFile
from mcm_hardware.descriptions.packaged_targets import packaged
from mcm_hardware.descriptions.target_schema import Choice, Flag, Key, Listed, Number, Text
from mcm_hardware.families.package.topologies import Grid, LinkList, Topology
from mcm_hardware.package.chips_package import ChipsPackage
from mcm_hardware.package.package_machine import Surroundings, package_machine

MOST_CHIPS = 512
"""Chips of a package: routes between all pairs of them are stored."""

MOST_LISTED = 4096
"""Chips along a dimension, or in a list of links, beyond which a number is an error of its own."""

DIMENSIONS = {"line": 1, "ring": 1, "mesh": 2, "torus": 2}
"""Dimensions of the topologies that are grids."""

_PLACE = Number(0, MOST_LISTED - 1, whole=True)

_ROUTING: KeyPath = ("topology", "routing")

_HOST_IO: KeyPath = ("package", "host_io")

_KEYS: Mapping[str, Key] = {
    "topology.kind": Key(
        Choice((*DIMENSIONS, "links")), "how the chips are connected; `links` lists each link"
    ),
    "topology.size": Key(
        Listed(Number(1, MOST_LISTED, whole=True), 1, 2),
        "chips along each dimension: `[36]` for a line or a ring, rows and columns for a mesh or a "
        f"torus; at most {MOST_CHIPS} chips in all",
        otherwise="for `links` alone",
    ),
    "topology.links": Key(
        Listed(Listed(_PLACE, 2, 2), 1, 8 * MOST_CHIPS),
        "the two chips that each link leads from and to",
        otherwise="for the other topologies",
    ),
    "topology.two_way": Key(
        Flag(), "whether links of a line or a ring lead both ways; others always do", default=True
    ),
    "topology.routing": Key(
        Text(),
        "the links that tensors take, by a name of the kind `routing`: `xy`, along the row first; "
        "`yx`, along the column first; `shortest`; or that of a plug-in",
        otherwise="`shortest` for `links`, `xy` elsewhere",
    ),
    "topology.forwarding": Key(
        Choice(("router", "engine")),
        "who passes on what a chip does not want itself: its router, which takes no time and no "
        "memory of the chip, or its compute engine, with a copy",
        default="router",
    ),
    "topology.virtual_channels": Key(
        Number(1, MOST_LANES, whole=True),
        "virtual channels of each link, which share its rate; a tensor takes the next one where "
        "it passes the end of a circle",
        default=1,
    ),
    "link.bandwidth_gb_per_s": Key(package_schema.BANDWIDTH, "rate of one link, one way"),
    "link.hop_latency_us": Key(package_schema.LATENCY_US, "delay of one hop"),
    "link.switching": package_schema.SWITCHING,
    "package.host_io": Key(
        Choice(("any", "ends")),
        "where the host reaches the package: at every chip, or at the first and the last one; over "
        "these, inputs of other chips enter at the first, and outputs leave at the last",
        default="any",
    ),
    "host.total_bandwidth_gb_per_s": package_schema.HOST_TOTAL,
    "off_package_memory.total_bandwidth_gb_per_s": package_schema.STREAM_TOTAL,
}

PACKAGE = package_schema.package_form("package", "a package", _KEYS, kinds=True)
"""The form of a description of a package."""


@dataclass(frozen=True, kw_only=True)
class TopologySpec(PackageSpec):
    """A package of chips with their links.

    Attributes:
        topology: chips and links.
        kind: its name in the description.
        routing: name of the routing.
        lanes: virtual channels of each link.
        link_bytes_per_s: rate of each link.
        hop_latency_s: delay of each link.
        cuts: whether a tensor goes on over the next link as soon as its head has arrived.
        around: how the chips reach what is outside, and each other.
    """

    topology: Topology
    kind: str
    routing: str
    lanes: int
    link_bytes_per_s: float
    hop_latency_s: float
    cuts: bool
    around: Surroundings


@dataclass(frozen=True)
class TopologyPackage(ChipsPackage):
    """A package of chips on links of any topology.

    Attributes:
        spec: its numbers.
    """

    spec: TopologySpec
    form: ClassVar[package_schema.PackageForm] = PACKAGE

    @classmethod
    def from_text(cls, name: str, text: str) -> TopologyPackage:
        """Makes the package from a description.

        Raises:
            CompileError: MCM-T001 to MCM-T008, as `PackageFile`; MCM-U003 for a routing that is
                not installed.
        """
        file = PackageFile(name, text, PACKAGE)
        topology = _topology(file)
        routing = _routing(file, topology)
        spec = TopologySpec(
            **file.common(None if topology is None else topology.chips, all_on=True),
            topology=topology or LinkList(()),
            kind=file.values["topology.kind"],
            routing=routing,
            lanes=file.values["topology.virtual_channels"],
            link_bytes_per_s=file.number("link.bandwidth_gb_per_s", 1e9),
            hop_latency_s=file.number("link.hop_latency_us", 1e-6),
            cuts=file.values["link.switching"] == "cut_through",
            around=Surroundings(
                file.values["package.host_io"],
                file.number("host.total_bandwidth_gb_per_s", 1e9),
                file.number("off_package_memory.total_bandwidth_gb_per_s", 1e9),
                file.values["topology.forwarding"],
            ),
        )
        return cls(name, spec, text)

    @property
    def summary(self) -> str:
        """One line for `mcmc targets`."""
        return self.spec.summary or f"{self.spec.num_chips} chips, {self.spec.kind}"

    def details(self) -> Mapping[str, Mapping[str, str | float]]:
        """All numbers of the package by section and key, and the name of its routing."""
        sections = {section: dict(keys) for section, keys in super().details().items()}
        sections["topology"]["routing"] = self.spec.routing
        return sections

    def connected(self) -> Machine:
        """A channel for each link; those to the host and to off-package memory are the base's.

        Raises:
            CompileError: MCM-T008 for chips out of reach of a host at the ends; MCM-T018 for a
                routing that has no valid routes for the topology,
                MCM-X007 for one that fails.
        """
        spec = self.spec
        links = MachineBuilder(spec.num_chips)
        for a, b in spec.topology.ends.tolist():
            links.channel(a, b, spec.link_bytes_per_s, spec.hop_latency_s, cuts=spec.cuts)
        with ROUTINGS.at_work(spec.routing):
            try:
                for source, ways in enumerate(ROUTINGS.get(spec.routing)(spec.topology)):
                    taken = np.minimum(ways.lanes, spec.lanes - 1)
                    for chip in range(spec.num_chips):
                        row = slice(ways.ptr[chip], ways.ptr[chip + 1])
                        links.route(source, chip, ways.links[row], taken[row])
            except ValueError as error:
                raise CompileError.of(
                    "MCM-T018",
                    f"routing {quote(spec.routing)} has no valid routes for this topology: {error}",
                    at=parse_description(self.name, self.source_text).place(_ROUTING),
                ) from error
        machine = package_machine("package", spec, links, spec.around)
        self._check_host(machine)
        return machine

    def _check_host(self, machine: Machine) -> None:
        """Refuses chips that exchange nothing with a host at the ends: MCM-T008."""
        last = machine.num_devices - 1
        for chip in range(machine.num_devices):
            for ends, way in (((HOST, chip), (0, chip)), ((chip, HOST), (chip, last))):
                if machine.route(*ends):
                    continue
                raise CompileError.of(
                    "MCM-T008",
                    f"the host reaches the ends alone, and no route leads from chip {way[0]} to "
                    f"chip {way[1]}",
                    at=parse_description(self.name, self.source_text).place(_HOST_IO),
                    hint="add links, or connect the host with every chip",
                )


def _topology(file: PackageFile) -> Topology | None:
    """The topology that a description has; None where it has faults, which are noted."""
    values = file.values
    kind = values.get("topology.kind")
    if kind is None:
        return None
    wanted, other = ("links", "size") if kind == "links" else ("size", "links")
    if f"topology.{other}" in values:
        message = f"the topology '{kind}' has no {other}"
        file.reader.fault("MCM-T008", message, ("topology", other), f"give {wanted} instead")
        return None
    found = values.get(f"topology.{wanted}")
    if found is None:
        if wanted not in file.data.data.get("topology", {}):
            example = "[[0, 1], [1, 2]]" if kind == "links" else str([6] * DIMENSIONS[kind])
            message = f"the topology '{kind}' needs {wanted}"
            hint = f"add {wanted} = {example} to the table [topology]"
            file.reader.fault("MCM-T003", message, ("topology", wanted), hint)
        return None
    return _link_list(file, found) if kind == "links" else _grid(file, kind, found)


def _grid(file: PackageFile, kind: str, size: list[int]) -> Grid | None:
    at = ("topology", "size")
    if len(size) != DIMENSIONS[kind]:
        wanted = "1 dimension" if DIMENSIONS[kind] == 1 else f"{DIMENSIONS[kind]} dimensions"
        message = f"a {kind} has {wanted}, not {len(size)}"
        file.reader.fault("MCM-T008", message, at, f"such as {[6] * DIMENSIONS[kind]}")
        return None
    two_way = file.values.get("topology.two_way", True)
    if len(size) > 1 and not two_way:
        message = f"links of a {kind} lead both ways"
        file.reader.fault("MCM-T008", message, ("topology", "two_way"), "leave it out")
        return None
    grid = Grid(tuple(size), kind in ("ring", "torus"), two_way)
    if grid.chips > MOST_CHIPS:
        file.reader.fault("MCM-T005", _too_many(grid.chips), at)
        return None
    return grid


def _too_many(chips: int) -> str:
    """The fault of a package with more chips than it stores routes for."""
    return (
        f"{chips} chips are more than {MOST_CHIPS}: a package stores a route for each pair of "
        f"chips, {chips**2:,} for these, and at most {MOST_CHIPS**2:,}"
    )


def _routing(file: PackageFile, topology: Topology | None) -> str:
    """The name of the routing; that of one that is not installed is noted."""
    name = file.values.get("topology.routing")
    if name is None:
        return "shortest" if isinstance(topology, LinkList) else "xy"
    try:
        ROUTINGS.get(name)
    except CompileError as error:
        for found in error.diagnostics:
            file.reader.fault(found.code, found.message, _ROUTING, found.hint)
    return str(name)


def _link_list(file: PackageFile, pairs: list[list[int]]) -> LinkList | None:
    seen: set[tuple[int, int]] = set()
    for index, (a, b) in enumerate(pairs):
        if a == b or (a, b) in seen:
            fault = "leads to itself" if a == b else f"to chip {b} is listed before"
            message = f"this link from chip {a} {fault}"
            file.reader.fault("MCM-T008", message, ("topology", "links", index), "leave it out")
        seen.add((a, b))
    if (chips := 1 + max(map(max, pairs))) > MOST_CHIPS:
        file.reader.fault("MCM-T005", _too_many(chips), ("topology", "links"))
        return None
    missing = sorted(set(range(1 + max(map(max, pairs)))) - {c for pair in pairs for c in pair})
    if missing:
        message = f"no link names chip {missing[0]}"
        hint = "number the chips from 0 without gaps"
        file.reader.fault("MCM-T008", message, ("topology", "links"), hint)
    elif apart := _apart(seen):
        message = f"no links connect chip {apart} with chip 0"
        file.reader.fault("MCM-T008", message, ("topology", "links"), "connect it, or leave it out")
    return LinkList(tuple((a, b) for a, b in pairs))


def _apart(links: set[tuple[int, int]]) -> int:
    """The first chip that no links connect with chip 0, in any direction; 0 where there is none."""
    both = [*links, *((b, a) for a, b in links)]
    part = strong_components(following_lists(1 + max(map(max, links)), both))
    return next((chip for chip, own in enumerate(part) if own != part[0]), 0)


mesh36, torus36, simba36, mixed16 = packaged(
    TopologyPackage.from_text,
    "mcm_hardware.families.package",
    *("mesh36", "torus36", "simba36", "mixed16"),
)
"""The other packages that come with the compiler."""
