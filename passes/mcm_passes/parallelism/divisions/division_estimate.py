"""Estimates of the period that a division can reach, without rewriting the graph.

A division turns units into pieces. A pipeline is estimated as a packing of the pieces, in their
order, on consecutive chips with a limit of seconds and of bytes. Where rounds may be, chips take
turns with what they hold, or two inferences leave a chip at different pieces. Where weights are
heavy behind most of the work, inferences follow each other up to there, and take turns behind it.
Transfers count as nothing, so that estimates rank divisions and stand for no period.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from mcm_compiler.arrays.types import Floats
from mcm_compiler.contracts.partition import PartitionProblem
from mcm_passes.parallelism.copies.stage_windows import heavy_from
from mcm_passes.parallelism.replicas.in_flight import InFlight, way_s

HALVINGS = 12
"""Steps by which a period is found, between the work of each chip and `MOST` times that."""

MOST = 64.0

Memory = tuple[Sequence[float], Sequence[float]]
"""Bytes before each piece, and the most up to which a chip that begins there holds pieces."""


@dataclass(frozen=True)
class Pieces:
    """Pieces of one unit.

    Attributes:
        count: how many.
        each_s: seconds of each.
        each_bytes: weights of each; None where all of them hold those of the unit.
        joins_s: seconds that a chip takes to hand all of them on.
        behind_s: seconds of what puts them together, and of what was fused behind them.
    """

    count: int
    each_s: float
    each_bytes: float | None = None
    joins_s: float = 0.0
    behind_s: float = 0.0


class PeriodEstimate:
    """Estimates for divisions of one model.

    Args:
        problem: of the model as it is.
        launch_s: seconds of a kernel that does nothing, which each piece takes once more.
        numbers: of replicas that count, with the chips of each.
        parts: of ops that are in pieces already, each unit by unit.
        rounds: most inferences that a pipeline may compute together.
        flight: sequences whose states chips hold, as many as a period needs; None without states.
    """

    def __init__(
        self,
        problem: PartitionProblem,
        launch_s: float,
        numbers: Sequence[tuple[int, int]],
        parts: Iterable[Sequence[int]],
        rounds: int,
        flight: InFlight | None = None,
    ) -> None:
        self._problem, self._launch_s, self._numbers = problem, launch_s, numbers
        self._copies = [count for count in range(1, rounds + 1) if rounds % count == 0]
        self._speed = float(problem.chip_speed.mean())
        self._least_s = float(problem.compute_s.sum()) / float(problem.chip_speed.sum())
        weights, joins, sent = (np.zeros(problem.num_units) for _ in range(3))
        sizes = np.repeat(problem.weight_bytes, np.diff(problem.weight_ptr))
        np.add.at(weights, problem.weight_users, sizes)
        inner = (made := problem.tensor_producer) >= 0
        np.maximum.at(joins, made[inner], problem.relay_s[inner])
        leaves = inner & problem.tensor_to_host
        joins[made[leaves]] = 0.0
        slots = problem.limits.channel_slots
        np.add.at(sent, made[leaves], slots * problem.tensor_bytes[leaves])
        self._flight, states = flight, np.zeros(problem.num_units)
        if flight is not None:
            rows = np.repeat(flight.each_bytes, np.diff(problem.weight_ptr))
            np.add.at(states, problem.weight_users, rows)
        self._states: list[float] = states.tolist()
        self._weights, self._joins, self._sent = weights.tolist(), joins.tolist(), sent.tolist()
        self._seconds: list[float] = problem.compute_s.tolist()
        last, tensors = made.copy(), np.repeat(np.arange(made.size), np.diff(problem.tensor_ptr))
        np.maximum.at(last, tensors, problem.tensor_consumers)
        behind = np.zeros(problem.num_units + 1)
        np.add.at(behind, made[inner], problem.tensor_bytes[inner])
        np.add.at(behind, last[inner], -problem.tensor_bytes[inner])
        self._read_behind: list[float] = np.cumsum(behind).tolist()
        self._relayed = {
            unit: sum(self._joins[one] for one in units[:at])
            for units in parts
            for at, unit in enumerate(units)
        }

    def sliced(
        self, units: Sequence[int], count: int, seconds: float, *, joined: bool, behind_s: float
    ) -> dict[int, Pieces]:
        """Pieces of an op with a part of its weights each, which is these units now.

        Args:
            units: of the op.
            count: of pieces.
            seconds: of the op alone.
            joined: whether a chip puts them together.
            behind_s: seconds of that, and of what was fused with the op.
        """
        each_s = self._each_s(seconds, count)
        each_bytes = sum(self._weights[unit] for unit in units) / count
        joins_s = sum(self._joins[unit] for unit in units) if joined else 0.0
        found: dict[int, Pieces] = {}
        for at, unit in enumerate(units):
            here = count * (at + 1) // len(units) - count * at // len(units)
            found[unit] = Pieces(here, each_s, each_bytes, joins_s, behind_s)
        return found

    def cut(self, unit: int, count: int, each_s: float, *, sliced: bool) -> Pieces:
        """Tiles of a unit that is one kernel, with a part of its weights or all of them each.

        What takes operands apart and puts results together runs as part of the tiles.
        """
        each_bytes = self._weights[unit] / count if sliced else None
        return Pieces(count, each_s, each_bytes)

    def in_heads(self, units: Iterable[int], count: int) -> dict[int, Pieces]:
        """Pieces of those of the units that hold caches, with a part of these each."""
        seconds, weights = self._seconds, self._weights
        return {
            unit: Pieces(count, self._each_s(seconds[unit], count), weights[unit] / count)
            for unit in units
            if self._states[unit]
        }

    def reachable_s(self, pieces: Mapping[int, Pieces]) -> float:
        """Seconds between inferences that some number of replicas may reach.

        Infinity if no number fits, or none is within `MOST` times the work of each chip.
        """
        seconds, relayed, held, states, behind = self._sums(pieces)
        room, flight = min(self._problem.limits.sram_bytes), self._flight
        slots, rounds = self._problem.limits.channel_slots, self._copies[-1]
        staggers = flight is None and rounds > 1
        heavy = heavy_from(seconds, held) if staggers else 0

        def packs(period_s: float, count: int, each: int) -> bool:
            taken = one
            if flight is not None:
                work_s = float(seconds[-1]) / self._speed
                latency_s = work_s + way_s(self._problem.limits, each)
                if (more := flight.further(latency_s, period_s * count)) is None:
                    return False
                needed = held + more * states
                taken = needed.tolist(), (needed + room).tolist()
            most_s = period_s * count * self._speed
            # Copies of heavy pieces pass on so much that estimates without transfers mislead.
            return (not heavy and _packs(alone[count], taken, most_s, each, self._copies)) or any(
                _packs(own[count], memory, classes * most_s, each, [1])
                for classes, own, memory in turns
            )

        def fits(period_s: float) -> bool:
            return any(packs(period_s, count, each) for count, each in self._numbers)

        def in_turns(classes: int) -> tuple[int, dict[int, list[float]], Memory]:
            first, last = np.tile(np.arange(heavy), classes), np.arange(heavy, held.size - 1)
            order = np.concatenate([first, np.repeat(last, classes)])
            before = np.minimum(np.arange(order.size) // max(heavy, 1), classes - 1) * held[heavy]
            # A chip receives and sends for all classes between which it may end.
            free = room - np.where(order < heavy, 0, 2 * classes * slots) * behind[order]
            full = [*(held[order] + before + free).tolist(), inf]
            ends = {n: [0.0, *np.diff(row)[order].cumsum().tolist()] for n, row in spent.items()}
            return classes, ends, ([0.0, *(held[order + 1] + before).tolist()], full)

        # A chip hands on once what is made of all the pieces before those that it runs.
        spent = {n: seconds + relayed / n for n, _ in self._numbers}
        alone = {n: row.tolist() for n, row in spent.items()}
        one = held.tolist(), (held + room).tolist()
        many = (rounds, (rounds + 1) // 2) if heavy else (2,)
        turns = [in_turns(classes) for classes in many] if staggers else []
        low, high = self._least_s, self._least_s * MOST
        if not fits(high):
            return inf
        for _ in range(HALVINGS):
            middle = (low * high) ** 0.5
            low, high = (low, middle) if fits(middle) else (middle, high)
        return high

    def _each_s(self, whole_s: float, count: int) -> float:
        return self._launch_s + max(whole_s - self._launch_s, 0.0) / count

    def _sums(self, pieces: Mapping[int, Pieces]) -> tuple[Floats, ...]:
        """Seconds, relays for one pipeline, bytes, and bytes of a further sequence.

        Each of all pieces up to each, in order; then bytes made up to each and read behind it.
        """
        rows: list[tuple[float, ...]] = [(0.0,) * 5]
        for unit, copied in enumerate(self._problem.clonable.tolist()):
            if copied:
                continue
            seconds, weights, sent = self._seconds[unit], self._weights[unit], self._sent[unit]
            behind = self._read_behind[unit]
            if (cut := pieces.get(unit)) is None:
                relayed_s = self._relayed.get(unit, 0.0) * seconds / self._least_s
                states = self._states[unit]
                rows.append((seconds, relayed_s, weights + sent, states, behind))
                continue
            for piece in range(cut.count):
                own = cut.each_bytes
                own = (0.0 if piece else weights) if own is None else own
                before_s = cut.joins_s * piece / cut.count
                relayed_s = before_s * cut.each_s / self._least_s
                states = self._states[unit] / cut.count
                rows.append((cut.each_s, relayed_s, own + sent / cut.count, states, behind))
            if cut.behind_s:
                rows.append((cut.behind_s, 0.0, 0.0, 0.0, behind))
        table = np.array(rows)
        seconds, relayed, held, states = np.cumsum(table[:, :4], axis=0).T
        return seconds, relayed, held, states, table[:, 4]


def _packs(
    seconds: Sequence[float], memory: Memory, period_s: float, chips: int, copies: Sequence[int]
) -> bool:
    """Return whether chips have memory and time for all pieces, each for the next in order.

    Several chips may hold the same pieces and take turns, as many as one of `copies`.
    """
    reached, last = [0], len(seconds) - 1
    held, full = memory
    for used in range(1, chips + 1):
        furthest = reached[-1]
        for count in copies[: bisect_right(copies, used)]:
            at = reached[used - count]
            by_time = bisect_right(seconds, seconds[at] + period_s * count * (1 + 1e-9)) - 1
            furthest = max(furthest, min(by_time, bisect_right(held, full[at]) - 1))
        if furthest == last:
            return True
        reached.append(furthest)
    return False
