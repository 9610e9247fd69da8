"""Bounds on the energy of an inference, shown once more in plain Python.

Joules are read off the problem here; sets of units and memory are those of `IdealCheck`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.machines.package_limits import UnitEnergies
from mcm_passes.families.ring.exact.checks import ideal_check
from mcm_passes.mapping.bound_checks.plain_need import readers_of


def least_rules_out(problem: PartitionProblem, joules: float) -> bool:
    """Whether units, the host's traffic and weights without room take that much anywhere."""
    energy = problem.energy
    if energy is None:
        return False
    needed = _needed(problem)
    spent = [float(energy.unit_j[u]) for u in needed]
    for t, maker in enumerate(problem.tensor_producer.tolist()):
        if maker < 0:
            crosses = any(v in needed for v in readers_of(problem, t))
        else:
            crosses = bool(problem.tensor_to_host[t]) and not problem.clonable[maker]
        if crosses:
            spent.append(int(problem.tensor_bytes[t]) * energy.host_byte_j)
    if problem.streams:
        block = problem.limits.buffer_alignment_bytes
        room = sum(size // block * block for size in problem.limits.sram_bytes)
        held = 0
        for w, size in enumerate(problem.weight_bytes.tolist()):
            users = problem.weight_users[problem.weight_ptr[w] : problem.weight_ptr[w + 1]]
            if any(v in needed for v in users.tolist()):
                held += size // block * block
        spent.append(max(held - room, 0) * energy.memory_byte_j)
    return math.fsum(spent) >= joules


def _needed(problem: PartitionProblem) -> set[int]:
    """Units with a place of their own, and clonable ones that some of them read from."""
    needed = set(np.flatnonzero(~problem.clonable).tolist())
    for t in reversed(range(len(problem.tensor_bytes))):
        maker = int(problem.tensor_producer[t])
        # Readers stand behind makers, so that it is known of them.
        if maker >= 0 and any(v in needed for v in readers_of(problem, t)):
            needed.add(maker)
    return needed


class EnergyCheck(ideal_check.IdealCheck):
    """Asks whether a chain of order ideals takes less than some energy, the triangle rule left out.

    Args:
        problem: with its energy.
        energy: of the problem.
        most_windows: gives up beyond so many.
    """

    def __init__(self, problem: PartitionProblem, energy: UnitEnergies, most_windows: int) -> None:
        super().__init__(problem, most_windows)
        self._energy = energy
        self._unit_j: list[float] = energy.unit_j.tolist()
        self._shared = self._once_per_chip()
        self._least_beyond: dict[int, float] = {}

    def none_takes_less(self, joules: float) -> bool | None:
        """Whether no chain takes less than so many joules; None where that takes too long."""
        limits = self._limits
        alike = len(set(limits.sram_bytes)) == 1 and not (self._problem.pinned_chip >= 0).any()
        least: dict[int, float] = {0: self._by_the_ends()}
        known: dict[int, float] = {}
        for chip in range(self._problem.num_chips):
            further: dict[int, float] = {}
            for held in sorted(least):
                for grown, window_j in self._windows_from(held, chip, joules - least[held]):
                    total_j = least[held] + window_j
                    if total_j + self._beyond(grown) >= joules:
                        continue
                    if grown == self._all:
                        return False
                    further[grown] = min(further.get(grown, math.inf), total_j)
                if self.windows > self._most_windows:
                    return None
            if alike:
                # What fewer chips do for no more need not be done by more.
                further = {g: j for g, j in further.items() if j < known.get(g, math.inf)}
                known |= further
            least = further
        return True

    def _once_per_chip(self) -> list[tuple[int, float]]:
        """Bits of the users of what each of their chips pays once, and its joules."""
        p, found = self._problem, list[tuple[int, float]]()
        behind = self._behind_clones()
        for u in np.flatnonzero(p.clonable).tolist():
            found.append((_bits(behind[u]), self._unit_j[u]))
        if not self._ends:
            for t in np.flatnonzero(p.tensor_producer < 0).tolist():
                users = {v for u in readers_of(p, t) for v in behind[u]}
                found.append((_bits(users), int(p.tensor_bytes[t]) * self._energy.host_byte_j))
        return [(users, joules) for users, joules in found if users]

    def _by_the_ends(self) -> float:
        """What enters where the host reaches only the ends: once, whoever reads it."""
        if not self._ends:
            return 0.0
        p, needed = self._problem, _needed(self._problem)
        size = sum(
            int(p.tensor_bytes[t])
            for t in np.flatnonzero(p.tensor_producer < 0).tolist()
            if any(v in needed for v in readers_of(p, t))
        )
        return size * self._energy.host_byte_j

    def _beyond(self, held: int) -> float:
        """No chain that hands over at an ideal spends less behind it."""
        if held not in self._least_beyond:
            rest = self._all & ~held
            self._least_beyond[held] = self._of_units(rest) + self._of_shared(rest)
        return self._least_beyond[held]

    def _of_units(self, inside: int) -> float:
        """Joules of some units, with what they give to the host."""
        joules = 0.0
        for u in ideal_check.units_of(inside):
            joules += self._unit_j[u]
            leaving = sum(t.link_bytes for t in self._made[u] if t.to_host)
            joules += leaving * self._energy.host_byte_j
        return joules

    def _of_shared(self, inside: int) -> float:
        """Joules of what some units on one chip need once."""
        return sum(once_j for users, once_j in self._shared if users & inside)

    def _windows_from(self, held: int, chip: int, left_j: float) -> Iterator[tuple[int, float]]:
        """The ideals that a chip can hand over at for less than what is left, and its joules."""
        arriving = self._arriving(held)
        most = max(self._limits.sram_bytes)

        def exceeds(grown: int, window: ideal_check.Window) -> bool:
            # What a larger window needs as well is not needed beyond.
            spent_j = self._spent(grown & ~held) + self._of_units(self._all & ~grown)
            return (window.weights > most and not self._problem.streams) or spent_j >= left_j

        for grown, window in self._grown_from(held, exceeds):
            inside = grown & ~held
            over = None
            if self._keeps_pins(inside, grown, chip):
                over = self._over(held, grown, window, chip)
            if over is not None:
                moved_j = self._moved(held, grown, arriving)
                yield grown, self._spent(inside) + moved_j + over * self._energy.memory_byte_j

    def _spent(self, inside: int) -> float:
        """Joules of some units on one chip, but for what crosses its links."""
        return self._of_units(inside) + self._of_shared(inside)

    def _moved(self, held: int, grown: int, arriving: list[ideal_check.PlainWay]) -> float:
        """Joules of the link behind a window, and of relays on its chip."""
        leaving = self._crossing(grown)
        passed = [t for t in arriving if t.relayed and t.readers & ~grown]
        relays = 0.0
        if self._limits.forwarding == "engine":
            relays = sum(float(self._energy.relay_j[t.number]) for t in passed)
        return relays + sum(t.link_bytes for t in leaving) * self._energy.link_byte_j


def _bits(units: set[int] | list[int]) -> int:
    return sum(1 << u for u in units)
