"""Segments: ops of one device that run without waiting for another, as a runtime can have them.

A placement goes back and forth between devices, and no runtime that holds one runs it whole.
Cut into segments it is a list of models, each on one device, that run one after another. Few large
segments cost few dispatches; but what reads from a segment waits for all of it. How fine to cut is
therefore tried: the step is first cut into several numbers of windows. For each, the time of the
step with segments in place of ops is simulated, and the fastest is taken (our derivation).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inner_njit
from mcm_compiler.arrays.types import Bools, Ints
from mcm_compiler.contracts.boxes.box import Box, BoxTarget, StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepConditions, StepTrace
from mcm_compiler.placed.place_options import SegmentChoice

WINDOWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Numbers of windows that are tried."""

MAX_SEGMENTS = 1000
"""Segments of a folder; what would be cut finer is no candidate."""


@dataclass(frozen=True, eq=False)
class Segments:
    """S segments, in an order in which they can run.

    Attributes:
        of_op: `[N]`, the segment of each op, -1 for inputs and variables, which nobody runs.
        device: `[S]`.
        windows: that the step was cut into before.
        seconds: time of a step that runs segments in place of ops, dispatches included; None where
            it was not simulated.
    """

    of_op: Ints
    device: Ints
    windows: int
    seconds: float | None = None

    @property
    def count(self) -> int:
        """S."""
        return len(self.device)


def cut_segments(problem: StepProblem, trace: StepTrace, runs: Bools, windows: int) -> Segments:
    """Cuts a placed step into segments.

    Args:
        problem: what was placed.
        trace: where and when each op runs.
        runs: `[N]`, whether the op is work that a runtime does.
        windows: of about the same number of ops, in the order in which they start.
    """
    num_ops = problem.num_ops
    # An op starts when what it reads has ended; among equals its number is larger.
    order = np.lexsort((np.arange(num_ops), trace.start_s)).astype(np.int32)
    edges = problem.edges
    begin = np.searchsorted(edges[:, 0], np.arange(num_ops + 1)).astype(np.int32)
    ends = np.linspace(0, num_ops, windows + 1).astype(np.int32)
    readers = np.ascontiguousarray(edges[:, 1])
    device_of = np.array(trace.device_of, np.int32)
    of_op, device = cut_windows(begin, readers, device_of, np.array(runs), order, ends)
    return Segments(of_op, device, windows)


def segment_step(
    problem: StepProblem, box: Box, trace: StepTrace, segments: Segments, dispatch_s: float
) -> tuple[StepProblem, Ints]:
    """The step whose ops are the segments, and its placement.

    A value leaves a segment when all of it has run, and what it reads is there before it starts.

    Args:
        problem: what was placed.
        box: where.
        trace: where and when each op runs.
        segments: of it.
        dispatch_s: time that the start of a segment takes.
    """
    idle = np.flatnonzero(segments.of_op < 0)
    of_op = segments.of_op + len(idle)
    of_op[idle] = np.arange(len(idle))
    device = np.concatenate([trace.device_of[idle], segments.device]).astype(np.int32)
    time = np.zeros(len(device))
    np.add.at(time, of_op, trace.end_s - trace.start_s)
    time[len(idle) :] += dispatch_s
    made = problem.producer[problem.reads]
    home = np.where(made >= 0, of_op[made], -1)
    crossing = (made < 0) | (home != of_op[problem.reader])
    values, index = np.unique(problem.reads[crossing], return_inverse=True)
    keys = np.unique(of_op[problem.reader[crossing]].astype(np.int64) * max(len(values), 1) + index)
    reader, read = keys // max(len(values), 1), keys % max(len(values), 1)
    producer = problem.producer[values]
    allowed = np.zeros((len(device), box.num_devices), np.bool_)
    allowed[np.arange(len(device)), device] = True
    names = tuple(f"idle {n}" for n in range(len(idle)))
    names += tuple(f"segment {s}" for s in range(segments.count))
    types = tuple(problem.op_types[n] for n in idle) + ("Segment",) * segments.count
    step = StepProblem(
        names=names,
        op_types=types,
        time_s=np.repeat(time[:, None], len(box.kinds), axis=1),
        value_names=tuple(problem.value_names[v] for v in values),
        value_bytes=problem.value_bytes[values].copy(),
        producer=np.where(producer >= 0, of_op[producer], -1).astype(np.int32),
        view_of=np.full(len(values), -1, np.int32),
        stays=problem.stays[values].copy(),
        kept=problem.kept[values].copy(),
        read_begin=np.searchsorted(reader, np.arange(len(device) + 1)).astype(np.int64),
        reads=read.astype(np.int32),
        together=np.arange(len(device), dtype=np.int32),
        allowed=allowed,
    )
    return step, device


def best_segments(
    target: BoxTarget,
    problem: StepProblem,
    trace: StepTrace,
    runs: Bools,
    choice: SegmentChoice,
    dispatch_s: float,
    conditions: StepConditions,
) -> Segments:
    """The segments of a placed step that are asked for, with the time of the step.

    Args:
        target: whose simulator times them.
        problem: what was placed.
        trace: where and when each op runs.
        runs: as in `cut_segments`.
        choice: `fastest` or `fewest`.
        dispatch_s: time that the start of a segment takes.
        conditions: in which the step was simulated; its factors are in the trace already.
    """
    best: Segments | None = None
    known = (True, 0.0)
    for windows in WINDOWS if choice == "fastest" else WINDOWS[:1]:
        found = cut_segments(problem, trace, runs, windows)
        if best is not None and found.count > MAX_SEGMENTS:
            break
        step, placement = segment_step(problem, target.box, trace, found, dispatch_s)
        evaluator = target.step_evaluator(step, StepConditions(order=conditions.order))
        results = evaluator.evaluate(placement[None, :])
        seconds, fits = float(results.seconds[0]), bool(results.fits[0])
        if best is None or (not fits, seconds) < known:
            best, known = Segments(found.of_op, found.device, windows, seconds), (not fits, seconds)
    if best is None:
        raise AssertionError("one number of windows is always tried")
    return best


@entry_njit
def cut_windows(
    begin: Ints, readers: Ints, device_of: Ints, runs: Bools, order: Ints, windows: Ints
) -> tuple[Ints, Ints]:
    """Cuts each window of an order of the ops into segments, one after another.

    Within a window the device with most ops that wait for nothing runs all that it can without the
    others; that is a segment. Then it is the next one's turn. A segment thus reads from earlier
    ones alone. Time is linear in ops and edges, and in segments times devices.

    Args:
        begin: `[N + 1]`, edges of op n are `readers[begin[n] : begin[n + 1]]`.
        readers: `[E]`, ops that read from op n, each once.
        device_of: `[N]`.
        runs: `[N]`, whether the op is work; others belong to no segment and are there from the
            start.
        order: `[N]`, the ops in an order in which they can run.
        windows: `[W + 1]`, ascending positions in `order`, from 0 to N.

    Returns:
        `[N]`, the segment of each op, -1 for those that are no work; and `[S]`, their devices.
    """
    num_ops = len(device_of)
    devices = device_of.max() + 1 if num_ops else 0
    segment_of = np.full(num_ops, -1, np.int32)
    device = np.empty(num_ops, np.int32)
    count = 0
    window_of = np.repeat(np.arange(len(windows) - 1), np.diff(windows))
    place = np.empty(num_ops, np.int32)
    place[order] = window_of
    missing = _missing(begin, readers, runs, place)
    # A list per device through the ops themselves: the newest, and the next older of each.
    newest = np.full(devices, -1, np.int32)
    older = np.full(num_ops, -1, np.int32)
    waiting = np.zeros(devices, np.int32)
    for w in range(len(windows) - 1):
        left = 0
        for op in order[windows[w] : windows[w + 1]]:
            left += runs[op]
            if runs[op] and missing[op] == 0:
                _append(int(op), int(device_of[op]), newest, older, waiting)
        while left:
            turn = np.argmax(waiting)
            device[count] = turn
            while newest[turn] >= 0:
                op = newest[turn]
                newest[turn] = older[op]
                waiting[turn] -= 1
                segment_of[op] = count
                left -= 1
                for reader in readers[begin[op] : begin[op + 1]]:
                    if place[reader] == w:
                        missing[reader] -= 1
                        if missing[reader] == 0:
                            _append(int(reader), int(device_of[reader]), newest, older, waiting)
            count += 1
    return segment_of, device[:count].copy()


@inner_njit
def _missing(begin: Ints, readers: Ints, runs: Bools, place: Ints) -> Ints:
    """For each op the ops of its window that it reads from."""
    missing = np.zeros(len(place), np.int32)
    for op in range(len(place)):
        if runs[op]:
            for reader in readers[begin[op] : begin[op + 1]]:
                missing[reader] += place[reader] == place[op]
    return missing


@inner_njit
def _append(op: int, device: int, newest: Ints, older: Ints, waiting: Ints) -> None:
    """Puts an op on the list of its device."""
    older[op] = newest[device]
    newest[device] = op
    waiting[device] += 1
