"""A step played a second time, plainly: one heap of ends, sets of blocks, no tables.

Written from the text of `mcm_compiler.contracts.boxes.evaluation` alone.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepConditions

Block = tuple[int, int]
"""The value that a block was taken for, and the device."""


@dataclass
class PlayedStep:
    """What came of it; lists go by device.

    Attributes:
        seconds: of the step.
        peak_bytes: most that is held at once.
        busy_s: of ops.
        copy_s: of copies that leave.
        starts: of ops.
        copies: pairs of a value and its destination, in the order of their starts.
    """

    seconds: float
    peak_bytes: list[int]
    busy_s: list[float]
    copy_s: list[float]
    starts: dict[int, float]
    copies: list[tuple[int, int]]


@dataclass
class _Memory:
    """Blocks by what still needs them."""

    held: list[int]
    peak: list[int]
    needs: dict[Block, set[tuple[object, ...]]] = field(default_factory=dict)
    size: dict[Block, int] = field(default_factory=dict)

    def take(self, block: Block, size: int) -> None:
        self.size[block] = size
        self.held[block[1]] += size

    def note(self, device: int) -> None:
        self.peak[device] = max(self.peak[device], self.held[device])

    def done(self, block: Block, who: tuple[object, ...]) -> None:
        self.needs[block].discard(who)
        if not self.needs[block]:
            self.held[block[1]] -= self.size[block]


class _Step:
    def __init__(
        self, problem: StepProblem, box: Box, place: list[int], conditions: StepConditions
    ) -> None:
        self.problem, self.place = problem, place
        self.devices = box.num_devices
        factors = conditions.time_factors if len(conditions.time_factors) else None
        self.took = [
            float(problem.time_s[n, box.kind_of[d]] * (1.0 if factors is None else factors[n]))
            for n, d in enumerate(place)
        ]
        self.box = box
        self.reads = [
            problem.reads[problem.read_begin[n] : problem.read_begin[n + 1]].tolist()
            for n in range(problem.num_ops)
        ]
        self.makes: dict[int, list[int]] = defaultdict(list)
        for v, maker in enumerate(problem.producer.tolist()):
            self.makes[maker].append(v)
        self.readers: dict[int, list[int]] = defaultdict(list)
        for n, values in enumerate(self.reads):
            for v in values:
                self.readers[v].append(n)
        self.urgency = self._urgency(conditions, factors)
        self.memory = self._memory()

    def _urgency(self, conditions: StepConditions, factors: np.ndarray | None) -> list[float]:
        """What comes first among ready ops is least."""
        if conditions.order == "fifo":
            return [0.0] * self.problem.num_ops
        longest = [0.0] * self.problem.num_ops
        for n in reversed(range(self.problem.num_ops)):
            allowed = np.flatnonzero(self.problem.allowed[n])
            fastest = min(self.problem.time_s[n, self.box.kind_of[d]] for d in allowed)
            behind = [longest[r] for v in self.makes[n] for r in self.readers[v]]
            scale = 1.0 if factors is None else factors[n]
            longest[n] = float(fastest * scale) + max(behind, default=0.0)
        return [-length for length in longest]

    def block(self, value: int, device: int) -> Block | None:
        """Where a value lies on a device; None in a weight that lies ready."""
        maker = int(self.problem.producer[value])
        if maker < 0:
            return None
        if self.place[maker] != device:
            return value, device
        parent = int(self.problem.view_of[value])
        return (value, device) if parent < 0 else self.block(parent, device)

    def done(self, values: list[int], device: int, who: tuple[object, ...]) -> None:
        """Somebody needs no longer what he needed of the blocks of some values on a device."""
        for block in {self.block(v, device) for v in values}:
            if block is not None:
                self.memory.done(block, who)

    def _memory(self) -> _Memory:
        memory = _Memory([0] * self.devices, [0] * self.devices)
        needs: dict[Block, set[tuple[object, ...]]] = defaultdict(set)
        for v, maker in enumerate(self.problem.producer.tolist()):
            size = int(self.problem.value_bytes[v])
            if maker < 0:
                for d in {self.place[r] for r in self.readers[v]}:
                    memory.held[d] += size
                continue
            home = self.place[maker]
            block = self.block(v, home)
            if block is not None:
                needs[block].add(("maker", maker))
                if self.problem.kept[v] or self.problem.stays[v]:
                    needs[block].add(("end",))
            if self.problem.stays[v]:
                memory.take((v, home), size)
            for reader in self.readers[v]:
                there = self.block(v, self.place[reader])
                if there is not None:
                    needs[there].add(("reader", reader))
                if self.place[reader] != home and block is not None:
                    needs[block].add(("copy", v, self.place[reader]))
        memory.needs = needs
        for d in range(self.devices):
            memory.note(d)
        return memory


class _Player:
    """What happens, event by event."""

    def __init__(self, step: _Step, by_round: bool) -> None:
        self.step, self.by_round = step, by_round
        devices = range(step.devices)
        self.missing = [
            sum(int(step.problem.producer[v] >= 0) for v in values) for values in step.reads
        ]
        self.ready: list[list[tuple[int, float, int]]] = [[] for _ in devices]
        self.waiting: list[list[tuple[int, int]]] = [[] for _ in devices]
        self.running: list[int | None] = [None for _ in devices]
        self.carrying: list[tuple[int, int] | None] = [None for _ in devices]
        self.due: list[tuple[float, int, int]] = []
        self.out = PlayedStep(0.0, [], [0.0 for _ in devices], [0.0 for _ in devices], {}, [])
        self.rounds, self.now = 0, 0.0

    def run(self) -> PlayedStep:
        for n, count in enumerate(self.missing):
            if count == 0:
                self.queue(n)
        self.starts()
        while self.due:
            self.rounds += 1
            self.now = self.due[0][0]
            while self.due and self.due[0][0] == self.now:
                _, what, device = heapq.heappop(self.due)
                (self.end_copy if what else self.end_op)(device)
            self.starts()
        self.out.peak_bytes = self.step.memory.peak
        return self.out

    def starts(self) -> None:
        for device in range(self.step.devices):
            if self.running[device] is None and self.ready[device]:
                self.start_op(device)
        for device in range(self.step.devices):
            if self.carrying[device] is None and self.waiting[device]:
                self.start_copy(device)

    def queue(self, op: int) -> None:
        first = self.rounds if self.by_round else 0
        heapq.heappush(self.ready[self.step.place[op]], (first, self.step.urgency[op], op))

    def arrived(self, value: int, device: int) -> None:
        for reader in self.step.readers[value]:
            if self.step.place[reader] == device:
                self.missing[reader] -= 1
                if self.missing[reader] == 0:
                    self.queue(reader)

    def start_op(self, device: int) -> None:
        step, problem = self.step, self.step.problem
        op = self.running[device] = heapq.heappop(self.ready[device])[-1]
        self.out.starts[op] = self.now
        self.out.busy_s[device] += step.took[op]
        heapq.heappush(self.due, (self.now + step.took[op], 0, device))
        for v in step.makes[op]:
            if problem.view_of[v] < 0 and not problem.stays[v]:
                step.memory.take((v, device), int(problem.value_bytes[v]))
        step.memory.note(device)

    def start_copy(self, device: int) -> None:
        box = self.step.box
        value, to = self.carrying[device] = self.waiting[device].pop(0)
        rate, size = box.copy_bytes_per_s[device, to], int(self.step.problem.value_bytes[value])
        took = float(box.copy_latency_s[device, to] + size / rate)
        self.out.copies.append((value, to))
        self.out.copy_s[device] += took
        heapq.heappush(self.due, (self.now + took, 1, device))
        self.step.memory.take((value, to), size)
        self.step.memory.note(to)

    def end_op(self, device: int) -> None:
        step, op = self.step, self.running[device]
        assert op is not None
        self.running[device] = None
        self.out.seconds = max(self.out.seconds, self.now)
        step.done(step.reads[op], device, ("reader", op))
        for v in step.makes[op]:
            self.arrived(v, device)
            for to in sorted({step.place[r] for r in step.readers[v]} - {device}):
                self.waiting[device].append((v, to))
        step.done(step.makes[op], device, ("maker", op))

    def end_copy(self, device: int) -> None:
        moved = self.carrying[device]
        assert moved is not None
        self.carrying[device] = None
        self.step.done([moved[0]], device, ("copy", *moved))
        self.arrived(*moved)


def play(
    problem: StepProblem, box: Box, placement: np.ndarray, conditions: StepConditions
) -> PlayedStep:
    """Plays one step.

    Args:
        problem: what is placed.
        box: where.
        placement: `[N]`.
        conditions: of the step.
    """
    step = _Step(problem, box, placement.tolist(), conditions)
    return _Player(step, conditions.order == "fifo").run()
