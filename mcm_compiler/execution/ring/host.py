"""The host of a ring: forks a process for each chip, feeds them, takes outputs, ends them all."""

from __future__ import annotations

import os
import pickle
import signal
import time
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from mcm_compiler.execution.ring.chip_process import serve_chip
from mcm_compiler.execution.ring.plan import (
    HOST,
    SLOTS,
    RingFailedError,
    RingFailure,
    RingPlan,
    RingResult,
)
from mcm_compiler.execution.ring.shared_memory import Bell, SharedPipeline
from mcm_compiler.execution.runner import same_bits
from mcm_compiler.processes.bounded_child import ChildDiedError, answer_of_child, read_all
from mcm_compiler.processes.orphans import end_with_parent
from mcm_compiler.processes.run_limits import quiet_onnxruntime

_UNBOUNDED = 1 << 50


def run_ring(plan: RingPlan) -> RingResult | RingFailure:
    """Runs all rounds of a plan in a host process and one process for each chip.

    The host is a child of this process, so that no thread of a library here is in its way. All of
    them end with this process, and nothing is left of what they share.
    """
    try:
        return pickle.loads(answer_of_child(partial(_host, plan), _UNBOUNDED))  # noqa: S301 - ours
    except ChildDiedError as error:
        return RingFailure(None, str(error))


def _host(plan: RingPlan) -> bytes:
    # Forks share what is loaded by now.
    quiet_onnxruntime()
    ring = _Ring(plan)
    try:
        ring.start()
        answer = ring.run()
    except RingFailedError as error:
        answer = error.failure
    finally:
        ring.end()
    return pickle.dumps(answer)


class _Ring:
    def __init__(self, plan: RingPlan) -> None:
        self._plan = plan
        self._pipelines = [SharedPipeline(plan) for _ in range(plan.replicas)]
        self._bell = Bell()
        self._bells = [
            {HOST: self._bell, **{index: Bell() for index in range(len(plan.chips))}}
            for _ in range(plan.replicas)
        ]
        self._children: dict[int, tuple[int, int]] = {}
        self._outputs: list[dict[str, Any]] = [{} for _ in plan.rounds]
        self._differing = 0
        self._progress_s = time.monotonic()

    def start(self) -> None:
        own = os.getpid()
        for replica, pipeline in enumerate(self._pipelines):
            for index in range(len(self._plan.chips)):
                reading, writing = os.pipe()
                child = os.fork()
                if child == 0:
                    end_with_parent(own, signal.SIGKILL)
                    bells = self._bells[replica]
                    serve_chip(self._plan, pipeline, replica, index, bells, writing)
                os.close(writing)
                self._children[reading] = (child, self._plan.chip_of(replica, index))

    def end(self) -> None:
        """Ends what is still there."""
        for reading, (child, _) in self._children.items():
            os.close(reading)
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    def run(self) -> RingResult:
        """Feeds and takes all rounds.

        Raises:
            RingFailedError: if a chip ends or makes no progress.
        """
        plan, total = self._plan, self._plan.total
        opened = 0
        while opened < plan.replicas * len(plan.chips):
            self._wait()
            if (ready := sum(int(pipeline.ready.sum()) for pipeline in self._pipelines)) > opened:
                opened, self._progress_s = ready, time.monotonic()
        sent, left = [0] * plan.replicas, [0] * plan.replicas
        left_s = np.zeros((plan.replicas, total))
        self._progress_s = time.monotonic()
        while min(left) < total:
            moved = False
            for replica, pipeline in enumerate(self._pipelines):
                i = sent[replica]
                free = i < min(total, left[replica] + plan.in_flight)
                if free and pipeline.has_room(HOST, i):
                    self._feed(replica, i)
                    sent[replica], moved = i + 1, True
                i = left[replica]
                if i < sent[replica] and self._has_left(pipeline, i):
                    left_s[replica, i] = time.monotonic()
                    self._take(replica, i)
                    left[replica], moved = i + 1, True
            if not moved:
                self._wait()
        self._keep_states()
        times = np.stack([pipeline.times for pipeline in self._pipelines]) * 1e-9
        outputs = tuple(self._outputs)
        return RingResult(outputs, times[..., 0], times[..., 1], left_s, self._differing)

    def _has_left(self, pipeline: SharedPipeline, i: int) -> bool:
        return pipeline.has_inputs(HOST, i) and int(pipeline.done.min()) > i

    def _feed(self, replica: int, i: int) -> None:
        pipeline, given = self._pipelines[replica], self._plan.rounds[self._step(replica, i)]
        for row in pipeline.outputs_of(HOST):
            pipeline.slots[row][i % SLOTS][...] = given[self._plan.tensors[row].name]
        pipeline.note_made(HOST, i)
        self._wake_neighbours(replica)

    def _take(self, replica: int, i: int) -> None:
        """Notes outputs of the first rounds, and compares them with those of the same inputs."""
        pipeline = self._pipelines[replica]
        if i < self._plan.warm:
            known = self._outputs[self._step(replica, i)]
            made = {
                self._plan.tensors[row].name: pipeline.slots[row][i % SLOTS]
                for row in pipeline.inputs_of(HOST)
            }
            if known:
                self._differing += not same_bits(made, known)
            else:
                known.update((name, array.copy()) for name, array in made.items())
        pipeline.note_read(HOST, i)
        self._progress_s = time.monotonic()
        self._wake_neighbours(replica)

    def _step(self, replica: int, i: int) -> int:
        return self._plan.step_of(replica, i)[0]

    def _wake_neighbours(self, replica: int) -> None:
        for place in self._pipelines[replica].neighbours(HOST):
            self._bells[replica][place].ring()

    def _keep_states(self) -> None:
        pipeline = self._pipelines[0]
        for chip, kept in zip(self._plan.chips, pipeline.kept, strict=True):
            for state, array in zip(chip.states, kept, strict=True):
                self._outputs[-1][state.present] = array.copy()

    def _wait(self) -> None:
        """Waits for something to happen.

        Raises:
            RingFailedError: if a chip ended, or nothing happens for too long.
        """
        patience_s = self._plan.patience_s - (time.monotonic() - self._progress_s)
        found = self._bell.wait(tuple(self._children), patience_s)
        for reading in found & self._children.keys():
            child, chip = self._children[reading]
            reason = read_all(reading).decode("utf-8", "replace")
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            os.close(reading)
            del self._children[reading]
            if code != 0:
                how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
                raise RingFailedError(RingFailure(chip, reason or how))
        if not found:
            raise RingFailedError(self._standstill())

    def _standstill(self) -> RingFailure:
        """The chip that could go on, and does not."""
        for replica, pipeline in enumerate(self._pipelines):
            for index in range(len(self._plan.chips)):
                i = int(pipeline.done[index])
                can = pipeline.has_inputs(index, i) and pipeline.has_room(index, i)
                if not pipeline.ready[index] or (i < self._plan.total and can):
                    what = f"round {i:,}" if pipeline.ready[index] else "opening its model"
                    return RingFailure(self._plan.chip_of(replica, index), what, hangs=True)
        return RingFailure(None, "no chip can go on", hangs=True)
