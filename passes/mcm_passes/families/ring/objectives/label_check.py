"""An independent check of bounds on latencies over order ideals, in plain Python.

Windows are weighed by the check of bounds on periods; plays of one inference are written down here
once more. Instead of the best chain it asks whether there is one within a latency and below a
period.

Bounds on the energy of an inference have windows as well: those of `IdealCheck`, of a problem in
which a second is a joule.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.machines.package_limits import UnitEnergies
from mcm_passes.families.ring.exact import ideal_check
from mcm_passes.families.ring.exact.ideal_check import IdealCheck, Step, front, units_of
from mcm_passes.mapping.bound_checks.bound_checks import host_transfers
from mcm_passes.mapping.bound_checks.plain_need import host_sizes, needed_units, readers_of


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


_Arrivals = dict[int, float]
"""When tensors that cross a link are on the chip behind it."""


@dataclass(frozen=True)
class _Label:
    """A chain up to an ideal: what it has handed over when, and when it was done so far."""

    there_s: _Arrivals
    end_s: float

    def nowhere_later(self, other: _Label) -> bool:
        return self.end_s <= other.end_s and all(
            seconds <= other.there_s[t] for t, seconds in self.there_s.items()
        )

    def merged_with(self, other: _Label) -> _Label:
        """Label that is as early as either."""
        there_s = {t: min(seconds, other.there_s[t]) for t, seconds in self.there_s.items()}
        return _Label(there_s, min(self.end_s, other.end_s))


class LabelCheck(IdealCheck):
    """Asks whether a chain of order ideals answers within a latency, below a period.

    Args:
        problem: the problem.
        most_windows: gives up beyond this number.
        merges: whether all chains up to an ideal are one that has the best times of each. That
            none answers shows it of all chains; that one does shows nothing. Chips must be alike.
    """

    def __init__(
        self, problem: PartitionProblem, most_windows: int, *, merges: bool = False
    ) -> None:
        super().__init__(problem, most_windows)
        # As the check of periods has it: the host reaches every chip.
        self._play = _Play(self._problem, self.behind)
        self._rest_s = self._ways_to_the_end()
        delays_s = problem.limits.latencies_s
        # Which link a window is before is left open where chains are merged.
        least_s = [min(delays_s, default=0.0)] * problem.num_chips
        self._hops_s = least_s if merges else [*delays_s, 0.0]
        self._keep = _merge if merges else front(_Label.nowhere_later, alike=False)
        self._merges = merges

    def none_within(self, latency_s: float, period_s: float, *, strictly: bool) -> bool | None:
        """Return whether no chain answers within a latency; None where that takes too long.

        Args:
            latency_s: the latency.
            period_s: chains from this period on do not count; may be infinite.
            strictly: whether a chain must answer earlier, and not only as early.
        """
        if host_transfers(self._problem, period_s):
            return True
        late = operator.ge if strictly else operator.gt
        quick = self._merges and period_s == float("inf")
        most_s = latency_s * (1.0 + 1e-9) if quick else period_s

        def windows(chip: int, held: int, _: list[_Label]) -> Iterator[Step]:
            return self.steps_below(chip, held, most_s)

        def after(label: _Label, step: Step) -> _Label | None:
            new = self._play.chip(step, label, step.grown == self._all, self._hops_s[step.chip])
            return None if late(self._least_s(new, step.grown), latency_s) else new

        return self.no_chain(_Label({}, 0.0), windows, after, self._keep)

    def _ways_to_the_end(self) -> list[float]:
        """`[N]`, the longest way of ops from each unit on, on the fastest chip."""
        fastest = max(self._speed)
        rest_s = [0.0] * self._problem.num_units
        for u in reversed(self._fixed):
            longest = max((rest_s[v] for v in self._following[u]), default=0.0)
            rest_s[u] = longest + self._work[u] / fastest
        return rest_s

    def _least_s(self, label: _Label, held: int) -> float:
        """No inference of a chain that goes on from a label is answered earlier."""
        least_s = label.end_s
        for t, seconds in label.there_s.items():
            behind = [self._rest_s[v] for v in self._play.wanted_by[t] if not held >> v & 1]
            least_s = max(least_s, seconds + max(behind, default=0.0))
        return least_s


def _merge(known: dict[int, list[_Label]], chips: int, new: _Label) -> None:
    """Makes all chains up to an ideal one, with the fewest chips of all."""
    if known:
        fewest, (old,) = known.popitem()
        chips, new = min(chips, fewest), new.merged_with(old)
    known[chips] = [new]


class _Play:
    """One inference, chip by chip, as `docs/explanation/objectives.md` defines it.

    Attributes:
        wanted_by: of each tensor the units with a place of their own that read it, through copies
            as well.
    """

    def __init__(self, problem: PartitionProblem, behind: list[list[int]]) -> None:
        self._p = problem
        self._maker: list[int] = problem.tensor_producer.tolist()
        self._size: list[int] = problem.tensor_bytes.tolist()
        self._work: list[float] = problem.compute_s.tolist()
        fixed = np.flatnonzero(~problem.clonable).tolist()
        self._copied_for: dict[int, set[int]] = {u: set() for u in fixed}
        self._reads: dict[int, list[int]] = {u: [] for u in fixed}
        self._made: dict[int, list[int]] = {u: [] for u in fixed}
        self.wanted_by: list[set[int]] = []
        for c in np.flatnonzero(problem.clonable).tolist():
            for u in behind[c]:
                self._copied_for[u].add(c)
        for t, maker in enumerate(self._maker):
            self.wanted_by.append({v for u in readers_of(problem, t) for v in behind[u]})
            for u in self.wanted_by[t]:
                self._reads[u].append(t)
            if maker in self._made:
                self._made[maker].append(t)

    def chip(self, step: Step, label: _Label, last: bool, hop_s: float) -> _Label:
        """Label of a chip's hand-over times over a link with a delay, and of its end."""
        grown = step.grown
        there_s, clock = dict(label.there_s), _Clock(self._p, step.chip, hop_s)
        self._pass_on(clock, there_s, grown, last)
        have: set[int] = set()
        for u in units_of(grown & ~step.held):
            new = {u, *self._copied_for[u]} - have
            have |= new
            ready_s = self._ready_s(u, clock, there_s)
            clock.runs(sum(self._work[v] for v in new), ready_s)
            self._hand_on(u, clock, there_s, grown, last)
        return _Label(clock.handed_over_s, max(clock.end_s, clock.engine_s, label.end_s))

    def _pass_on(self, clock: _Clock, there_s: _Arrivals, grown: int, last: bool) -> None:
        """Pass on tensors that others have made, to the next or out."""
        for t in sorted(there_s):
            if not self._goes_on(t, grown, last):
                continue
            ready_s = there_s[t]
            if self._p.relays:
                clock.runs(float(self._p.relay_s[t]), ready_s)
                ready_s = clock.engine_s
            elif self._p.limits.cut_through:
                ready_s -= self._size[t] / self._p.limits.link_bytes_per_s
            clock.crosses(t, self._size[t], ready_s)

    def _ready_s(self, u: int, clock: _Clock, there_s: _Arrivals) -> float:
        """When all that a unit and its copies read is there."""
        ready_s = 0.0
        for t in self._reads[u]:
            if self._maker[t] < 0 and t not in there_s:
                there_s[t] = clock.enters(self._size[t])
            if t in there_s:
                ready_s = max(ready_s, there_s[t])
        return ready_s

    def _hand_on(self, u: int, clock: _Clock, there_s: _Arrivals, grown: int, last: bool) -> None:
        """Hand a unit's tensors to their readers."""
        for t in self._made[u]:
            there_s[t] = clock.engine_s
            if self._p.tensor_to_host[t]:
                clock.exits(self._size[t], clock.engine_s)
            if self._goes_on(t, grown, last):
                clock.crosses(t, self._size[t], clock.engine_s)

    def _goes_on(self, t: int, grown: int, last: bool) -> bool:
        """Return whether a tensor is needed behind an ideal."""
        return not last and any(not grown >> v & 1 for v in self.wanted_by[t])


class _Clock:
    """When engine, link and the host's channels of one chip are free."""

    def __init__(self, problem: PartitionProblem, chip: int, hop_s: float) -> None:
        self._limits, self._hop_s = problem.limits, hop_s
        self._speed = float(problem.chip_speed[chip])
        self._root = problem.limits.host_total_bytes_per_s or float("inf")
        self.engine_s = self.link_s = self.in_s = self.out_s = self.end_s = 0.0
        self.shared_in_s = self.shared_out_s = 0.0
        self.handed_over_s: _Arrivals = {}

    def runs(self, work_s: float, ready_s: float) -> None:
        """The engine does some work once it is ready."""
        self.engine_s = max(self.engine_s, ready_s) + work_s / self._speed

    def enters(self, size: int) -> float:
        """When this many bytes more from the host are there."""
        self.shared_in_s += size / self._root
        self.in_s = max(self.in_s, self.shared_in_s) + size / self._limits.host_bytes_per_s
        return self.in_s + self._limits.host_latency_s

    def exits(self, size: int, ready_s: float) -> None:
        """This many bytes go to the host."""
        self.out_s = max(self.out_s, ready_s) + size / self._limits.host_bytes_per_s
        there_s = self.out_s + self._limits.host_latency_s
        self.shared_out_s = max(self.shared_out_s, there_s) + size / self._root
        self.end_s = max(self.end_s, self.shared_out_s)

    def crosses(self, t: int, size: int, ready_s: float) -> None:
        """A tensor goes to the next chip."""
        self.link_s = max(self.link_s, ready_s) + size / self._limits.link_bytes_per_s
        self.handed_over_s[t] = self.link_s + self._hop_s
