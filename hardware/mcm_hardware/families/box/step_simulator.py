"""The simulator of steps in a box: placements in, times and memory out.

Steps have a simulator of their own. In the event graph of packages the order of all kernels and
transfers is known before; here a device starts what is ready first, or most urgent, and memory
follows from when things happen.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from mcm_compiler.arrays.types import Bools, Floats, Ints, Longs
from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepConditions, StepResults, StepTrace
from mcm_hardware.families.box.step_arrays import StepArrays, StepRecord, scratch, step_arrays
from mcm_hardware.families.box.step_kernels import first_fault, longest_paths, simulate_all


def critical_chain(problem: StepProblem, placement: Ints, record: StepRecord, copies: int) -> Ints:
    """The ops of a chain that ends with the step, found backwards from the op that ends last.

    What an op waited for is what ended when it started: a copy, an op that made what it reads, or
    the op that its device ran before. Where nothing did, the chain begins.

    Args:
        problem: what is placed.
        placement: `[N]`.
        record: when what happened.
        copies: how many of its copies there were.
    """
    if not problem.num_ops:
        return np.empty(0, np.int32)
    by_device = np.lexsort((record.end, record.start, placement))
    before = np.full(problem.num_ops, -1, np.int64)
    same = placement[by_device[1:]] == placement[by_device[:-1]]
    before[by_device[1:][same]] = by_device[:-1][same]
    arrival = {(int(v), int(to)): c for c, (v, _, to) in enumerate(record.copies[:copies].tolist())}
    leaving = np.lexsort((record.copy_times[:copies, 0], record.copies[:copies, 1]))
    copy_before = np.full(copies, -1, np.int64)
    same = record.copies[leaving[1:], 1] == record.copies[leaving[:-1], 1]
    copy_before[leaving[1:][same]] = leaving[:-1][same]
    chain: list[int] = []
    at = int(np.argmax(record.end))
    while at >= 0:
        chain.append(at)
        at = _waited_for(problem, placement, record, at, before, arrival, copy_before)
    return np.array(chain[::-1], np.int32)


def _waited_for(
    problem: StepProblem,
    placement: Ints,
    record: StepRecord,
    op: int,
    before: np.ndarray,
    arrival: dict[tuple[int, int], int],
    copy_before: np.ndarray,
) -> int:
    """The op whose end, or whose copies, let `op` start; -1 where it started at once."""
    start = record.start[op]
    if start == 0.0:
        return -1
    device = int(placement[op])
    for v in problem.reads[problem.read_begin[op] : problem.read_begin[op + 1]].tolist():
        maker = int(problem.producer[v])
        if maker < 0:
            continue
        if placement[maker] == device:
            if record.end[maker] == start:
                return maker
            continue
        copy = arrival[v, device]
        if record.copy_times[copy, 1] != start:
            continue
        # The channel may have been busy: then it is the copy before that was waited for.
        while True:
            maker = int(problem.producer[record.copies[copy, 0]])
            if record.end[maker] == record.copy_times[copy, 0]:
                return maker
            copy = int(copy_before[copy])
    return int(before[op])


class StepSimulator:
    """Implements `mcm_compiler.contracts.boxes.evaluation.StepEvaluator`.

    Args:
        problem: what is placed.
        box: where.
        conditions: of the step.
    """

    name = "step-simulator"

    def __init__(self, problem: StepProblem, box: Box, conditions: StepConditions) -> None:
        self._problem = problem
        self.box = box
        self._conditions = conditions

    @cached_property
    def arrays(self) -> StepArrays:
        """The problem and the box, as kernels read them."""
        problem, box = self._problem, self.box
        times = problem.time_s
        if len(self._conditions.time_factors):
            times = times * self._conditions.time_factors[:, None]
        step = step_arrays(problem, box, times, np.empty(0))
        if self._conditions.order == "fifo":
            return step
        on_devices = np.where(problem.allowed, times[:, box.kind_of], np.inf)
        longest = np.empty(problem.num_ops)
        longest_paths(step, on_devices.min(axis=1), longest)
        return step._replace(priority=longest)

    @cached_property
    def _rules(self) -> tuple[Bools, Ints]:
        """Where ops may run, and one op of each set that runs together, for each op."""
        problem = self._problem
        return problem.allowed.copy(), problem.leader[problem.together].astype(np.int32)

    def evaluate(self, placements: Ints) -> StepResults:
        """Simulates each placement `[B, N]`.

        Raises:
            ValueError: for a device that does not exist or that an op may not run on, and for ops
                that should run together and do not.
        """
        placements = self._checked(np.atleast_2d(placements))
        seconds, peaks, (busy, copying), _ = self._run(placements)
        memory = self.box.memory_bytes
        overflow = (np.maximum(peaks - memory, 0) / np.maximum(memory, 1)).sum(axis=1)
        return StepResults(seconds, peaks, busy, copying, overflow)

    def trace(self, placement: Ints) -> StepTrace:
        """Simulates one placement `[N]`, and reports when what happens.

        Raises:
            ValueError: as `evaluate`.
        """
        placements = self._checked(placement[None])
        _, peaks, _, (record, copies) = self._run(placements, recorded=True)
        moved, times = record.copies[:copies], record.copy_times[:copies]
        return StepTrace(
            device_of=placements[0],
            start_s=record.start,
            end_s=record.end,
            copy_value=moved[:, 0],
            copy_from=moved[:, 1],
            copy_to=moved[:, 2],
            copy_start_s=times[:, 0],
            copy_end_s=times[:, 1],
            peak_bytes=peaks[0],
            critical_ops=critical_chain(self._problem, placements[0], record, copies),
        )

    def _run(
        self, placements: Ints, *, recorded: bool = False
    ) -> tuple[Floats, Longs, Floats, tuple[StepRecord, int]]:
        count, devices = len(placements), self.box.num_devices
        seconds, peaks = np.empty(count), np.empty((count, devices), np.int64)
        by_device = np.empty((2, count, devices))
        ops, most_copies = 0, 0
        if recorded:
            ops, most_copies = self._problem.num_ops, len(self._problem.reads)
        record = StepRecord(
            np.empty(ops),
            np.empty(ops),
            np.empty((most_copies, 3), np.int32),
            np.empty((most_copies, 2)),
        )
        copies = simulate_all(
            self.arrays, placements, scratch(self.arrays), seconds, peaks, by_device, record
        )
        return seconds, peaks, by_device, (record, int(copies))

    def _checked(self, placements: Ints) -> Ints:
        placements = np.array(placements, np.int32, order="C", ndmin=2)
        if placements.shape[1] != self._problem.num_ops:
            raise ValueError(
                f"placements of {placements.shape[1]} ops, not {self._problem.num_ops}"
            )
        if fault := first_fault(placements, *self._rules):
            raise ValueError(_FAULTS[fault - 1])
        return placements


_FAULTS = (
    "a placement names a device that does not exist",
    "a placement puts an op on a device that it may not run on",
    "a placement divides ops that run together",
)
