"""Small placement problems on small machines of every topology, with all placements by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.machines.machine import Machine
from mcm_hardware.families.package.package_target import TopologyPackage, mesh36
from tests.acme_mesh.tests.plain_mesh import all_placements, is_valid, period_s
from tests.acme_mesh.tests.random_meshes import mesh_case
from tests.generators.chip_kinds import with_kinds

TOPOLOGIES = (
    'kind = "line"\nsize = [3]\ntwo_way = false',
    'kind = "line"\nsize = [4]',
    'kind = "ring"\nsize = [3]\nvirtual_channels = 2',
    'kind = "ring"\nsize = [4]\nvirtual_channels = 2\ntwo_way = false',
    'kind = "mesh"\nsize = [2, 2]',
    'kind = "torus"\nsize = [1, 4]\nvirtual_channels = 2',
    'kind = "links"\nlinks = [[0, 1], [0, 2], [1, 3], [2, 3], [3, 0]]\nvirtual_channels = 3',
)
SPEEDS = (
    "",
    "\n\n[[override]]\nchips = [1]\nspeed = 0.5",
    "\n\n[[override]]\nchips = [0]\nspeed = 2.0\nsram_mib = 32",
)

ACTIVATIONS = 400_000
"""More bytes than the tensors of a case take on one chip with all their buffers."""


@dataclass(frozen=True)
class ByHand:
    """A machine as `plain_mesh` reads one: the way of a tensor as pairs of places."""

    machine: Machine
    link: float
    host: float

    def way(self, source: int, target: int) -> list[tuple[int, int]]:
        ends = self.machine.channel_ends
        return [tuple(ends[c].tolist()) for c in self.machine.route(source, target)]


@dataclass(frozen=True)
class MachineCase:
    problem: PartitionProblem
    machine: ByHand
    topology: str

    @property
    def best_s(self) -> float:
        """The least period of all placements that fit with room for every tensor."""
        limits = self.problem.limits
        least = tuple(size - ACTIVATIONS for size in limits.sram_bytes)
        tight = replace(
            self, problem=replace(self.problem, limits=replace(limits, sram_bytes=least))
        )
        valid = (row for row in all_placements(self.problem) if tight.holds(row))
        return min((period_s(self.problem, self.machine, row) for row in valid), default=np.inf)

    def holds(self, row) -> bool:
        """Whether a placement has no circle, weights that fit, and a route for every tensor."""
        problem, reaches = self.problem, self.machine.machine.reaches
        for t, maker in enumerate(problem.tensor_producer.tolist()):
            first, last = problem.tensor_ptr[t], problem.tensor_ptr[t + 1]
            readers = problem.tensor_consumers[first:last].tolist() if maker >= 0 else []
            if not all(reaches[row[maker], row[reader]] for reader in readers):
                return False
        return is_valid(problem, row)


def machine_case(seed: int, kinds: int = 1) -> MachineCase:
    """A problem of 2 to 4 units on 3 or 4 chips.

    Args:
        seed: of all numbers.
        kinds: kinds of chips; with several, a fifth of the pairs of kind and unit cannot run.
    """
    draw = np.random.default_rng(seed)
    head, _, rest = mesh36().source_text.partition("[topology]")
    rate = draw.choice([1, 8, 64])
    rest = rest[rest.index("[chip]") :].replace(
        "[link]\nbandwidth_gb_per_s = 32", f"[link]\nbandwidth_gb_per_s = {rate}"
    )
    topology, speed = draw.choice(TOPOLOGIES), draw.choice(SPEEDS)
    package = TopologyPackage.from_text("small", f"{head}[topology]\n{topology}\n\n{rest}{speed}")
    few = mesh_case(seed, shape=(1, 2), units=int(draw.integers(2, 5))).problem
    limits = package.limits
    if draw.random() < 0.5:
        room = int(few.weight_bytes.max() + draw.integers(0, few.weight_bytes.sum())) + ACTIVATIONS
        limits = replace(limits, sram_bytes=(room,) * limits.num_chips)
    problem = replace(few, limits=limits, given_machine=package.machine)
    if kinds > 1:
        problem = with_kinds(problem, seed, kinds, lacking=0.2)
    link = 1.0 / package.spec.link_bytes_per_s
    by_hand = ByHand(package.machine, link, 1.0 / limits.host_bytes_per_s)
    return MachineCase(problem, by_hand, str(topology))
