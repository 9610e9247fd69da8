"""Which chain of ops the time of a step is the sum of."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.types import Ints
from mcm_compiler.contracts.boxes.step import StepProblem
from mcm_hardware.families.box.step_arrays import StepRecord


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
