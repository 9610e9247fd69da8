"""The simulator of steps in a box: placements in, times and memory out."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from mcm_compiler.arrays.types import Floats, Ints, Longs
from mcm_compiler.contracts.boxes.box import Box
from mcm_compiler.contracts.boxes.evaluation import StepConditions, StepResults, StepTrace
from mcm_compiler.contracts.boxes.step import StepProblem
from mcm_hardware.families.box.critical_chain import critical_chain
from mcm_hardware.families.box.step_kernels import StepArrays, StepRecord, simulate_all


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
        self._box = box
        self._conditions = conditions

    @cached_property
    def arrays(self) -> StepArrays:
        """The problem and the box, as kernels read them."""
        problem, box = self._problem, self._box
        duration = problem.time_s[:, box.kind_of]
        if len(self._conditions.time_factors):
            duration = duration * self._conditions.time_factors[:, None]
        made = np.argsort(problem.producer, kind="stable").astype(np.int32)
        made = made[int((problem.producer < 0).sum()) :]
        order = np.argsort(problem.reads, kind="stable")
        reader = np.repeat(np.arange(problem.num_ops, dtype=np.int32), np.diff(problem.read_begin))
        by_priority = self._conditions.order == "critical_path"
        return StepArrays(
            value_bytes=_own(problem.value_bytes),
            producer=_own(problem.producer),
            view_of=_own(problem.view_of),
            stays=_own(problem.stays),
            kept=_own(problem.kept),
            read_begin=_own(problem.read_begin),
            reads=_own(problem.reads),
            made_begin=_begins(problem.producer[made], problem.num_ops),
            made=made,
            reader_begin=_begins(problem.reads, problem.num_values),
            readers=reader[order],
            duration=np.ascontiguousarray(duration),
            priority=longest_paths(problem, duration) if by_priority else np.empty(0),
            rate=_own(box.copy_bytes_per_s),
            latency=_own(box.copy_latency_s),
        )

    def evaluate(self, placements: Ints) -> StepResults:
        """Simulates each placement `[B, N]`.

        Raises:
            ValueError: for a device that does not exist or that an op may not run on, and for ops
                that should run together and do not.
        """
        placements = self._checked(np.atleast_2d(placements))
        seconds, peaks, busy, copying, _ = self._run(placements, 0)
        memory = self._box.memory_bytes
        overflow = (np.maximum(peaks - memory, 0) / np.maximum(memory, 1)).sum(axis=1)
        return StepResults(seconds, peaks, busy, copying, overflow)

    def trace(self, placement: Ints) -> StepTrace:
        """Simulates one placement `[N]`, and tells when what happens.

        Raises:
            ValueError: as `evaluate`.
        """
        placements = self._checked(placement[None])
        most = self._problem.num_values * self._box.num_devices
        _, peaks, _, _, (record, copies) = self._run(placements, most)
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
        self, placements: Ints, most_copies: int
    ) -> tuple[Floats, Longs, Floats, Floats, tuple[StepRecord, int]]:
        count, devices = len(placements), self._box.num_devices
        seconds, peaks = np.empty(count), np.empty((count, devices), np.int64)
        busy, copying = np.empty((count, devices)), np.empty((count, devices))
        ops = self._problem.num_ops if most_copies else 0
        record = StepRecord(
            np.empty(ops),
            np.empty(ops),
            np.empty((most_copies, 3), np.int32),
            np.empty((most_copies, 2)),
        )
        copies = simulate_all(self.arrays, placements, seconds, peaks, busy, copying, record)
        return seconds, peaks, busy, copying, (record, int(copies))

    def _checked(self, placements: Ints) -> Ints:
        problem = self._problem
        placements = np.ascontiguousarray(placements, dtype=np.int32)
        if placements.shape[1] != problem.num_ops:
            raise ValueError(f"placements of {placements.shape[1]} ops, not {problem.num_ops}")
        if placements.size and not 0 <= placements.min() <= placements.max() < len(
            self._box.devices
        ):
            raise ValueError("a placement names a device that does not exist")
        if not problem.allowed[np.arange(problem.num_ops), placements].all():
            raise ValueError("a placement puts an op on a device that it may not run on")
        first = np.unique(problem.together, return_index=True)[1]
        if not np.array_equal(placements, placements[:, first[problem.together]]):
            raise ValueError("a placement divides ops that run together")
        return placements


def longest_paths(problem: StepProblem, duration: Floats) -> Floats:
    """`[N]`, the longest path from each op to the end of the step, the op itself included.

    Args:
        problem: what is placed.
        duration: `[N, D]`; the fastest of the devices on which an op may run counts.
    """
    fastest = np.where(problem.allowed, duration, np.inf).min(axis=1)
    longest = fastest.copy()
    for source, target in problem.edges[::-1].tolist():
        longest[source] = max(longest[source], fastest[source] + longest[target])
    return longest


def _begins(keys: Ints, count: int) -> Longs:
    begins = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(keys, minlength=count), out=begins[1:])
    return begins


def _own(array: np.ndarray) -> np.ndarray:
    """A copy that may be written: kernels are compiled for such arrays alone."""
    return array.copy()
