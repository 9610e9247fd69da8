"""Bounds on the energy of an inference, shown once more in plain Python.

Windows are those of `IdealCheck`, of a problem in which a second is a joule.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Iterator

from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.machines.package_limits import UnitEnergies
from mcm_passes.families.ring.exact.checks import ideal_check
from mcm_passes.mapping.bound_checks.plain_need import host_sizes, needed_units


def least_rules_out(problem: PartitionProblem, joules: float) -> bool:
    """Return whether units, the host's traffic and weights without space use that much anywhere."""
    energy = problem.energy
    if energy is None:
        return False
    needed = needed_units(problem)
    spent = [float(energy.unit_j[u]) for u in needed]
    spent += [size * energy.host_byte_j for sizes in host_sizes(problem) for size in sizes]
    if problem.streams:
        block = problem.limits.buffer_alignment_bytes
        held = 0
        for w, size in enumerate(problem.weight_bytes.tolist()):
            users = problem.weight_users[problem.weight_ptr[w] : problem.weight_ptr[w + 1]]
            if any(v in needed for v in users.tolist()):
                held += size // block * block
        spent.append(max(held - sum(problem.limits.sram_bytes), 0) * energy.memory_byte_j)
    return math.fsum(spent) >= joules


class EnergyCheck(ideal_check.IdealCheck):
    """Asks whether a chain of order ideals takes less than some energy, the triangle rule left out.

    Args:
        problem: with its energy.
        energy: of the problem.
        most_windows: gives up beyond this many.
    """

    def __init__(self, problem: PartitionProblem, energy: UnitEnergies, most_windows: int) -> None:
        # Speeds count for nothing, so that chips which differ in them alone are alike.
        limits = dataclasses.replace(problem.limits, chip_speed=())
        joules = dataclasses.replace(
            problem, compute_s=energy.unit_j, relay_s=energy.relay_j, copies=None, limits=limits
        )
        super().__init__(joules, most_windows)
        self._energy = energy
        # Where the host reaches only the ends, what enters does so once, whoever reads it.
        self._entered_j = sum(host_sizes(problem)[0]) * energy.host_byte_j if self._ends else 0.0
        self._beyond: dict[int, float] = {self._all: 0.0}

    def none_takes_less(self, joules: float) -> bool | None:
        """Return whether no chain takes less than this; None where that takes too long."""

        def windows(chip: int, held: int, known: list[float]) -> Iterator[ideal_check.Step]:
            return self._steps_below(chip, held, joules - min(known))

        def after(spent_j: float, step: ideal_check.Step) -> float | None:
            total_j = spent_j + self._joules(step)
            return total_j if total_j + self._beyond_j(step.grown) < joules else None

        return self.no_chain(
            self._entered_j, windows, after, ideal_check.front(operator.le, self.alike)
        )

    def _steps_below(self, chip: int, held: int, left_j: float) -> Iterator[ideal_check.Step]:
        """The windows that a chip can hold for less than what is left."""
        most = max(self._limits.sram_bytes)

        def exceeds(window: ideal_check.Window, grown: int) -> bool:
            # What a larger window needs as well is not needed beyond.
            spent_j = self._kept_j(window) + self._units_j(self._all & ~grown)
            return self.too_large(window, most) or spent_j >= left_j

        for step in self.steps_from(chip, held, exceeds):
            if self.keeps_pins(step) and self.over(step) is not None:
                yield step

    def _joules(self, step: ideal_check.Step) -> float:
        """Joules of a window, of the link behind it, and of relays on its chip."""
        moved_j = self.passed_s(step)
        moved_j += self._link_bytes[step.grown] * self._energy.link_byte_j
        streamed_j = (self.over(step) or 0) * self._energy.memory_byte_j
        return self._kept_j(step.window) + moved_j + streamed_j

    def _kept_j(self, window: ideal_check.Window) -> float:
        """Joules of some units on one chip, with what the host sends there and gets from it."""
        host_bytes = window.out_bytes + (0 if self._ends else window.in_bytes)
        return window.work + window.once + host_bytes * self._energy.host_byte_j

    def _units_j(self, inside: int) -> float:
        """Joules of some units, with what they give to the host, wherever they are."""
        given = sum(
            t.link_bytes for u in ideal_check.units_of(inside) for t in self._made[u] if t.to_host
        )
        work_j = sum(self._work[u] for u in ideal_check.units_of(inside))
        return work_j + given * self._energy.host_byte_j

    def _beyond_j(self, held: int) -> float:
        """No chain that hands over at an ideal spends less behind it."""
        if held not in self._beyond:
            window = ideal_check.Window()
            for u in ideal_check.units_of(self._all & ~held):
                window = self._with(window, u)
            self._beyond[held] = self._kept_j(window)
        return self._beyond[held]
