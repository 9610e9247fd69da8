"""The process of one chip: waits for inputs and free buffers, runs its model, hands tensors on."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from mcm_compiler.execution.ring.plan import HOST, SLOTS, RingChip, RingPlan
from mcm_compiler.execution.ring.shared_memory import Bell, SharedPipeline
from mcm_compiler.execution.runner import fed_back, open_session

_WAITS = 4
"""Times the patience of the host, which ends its chips itself while it is alive."""


def serve_chip(
    plan: RingPlan,
    pipeline: SharedPipeline,
    replica: int,
    index: int,
    bells: Mapping[int, Bell],
    failed: int,
) -> NoReturn:
    """Runs all rounds of a chip in a fork, and ends it without the clean-up of its parent.

    Args:
        plan: of the run.
        pipeline: memory of its pipeline.
        replica: number of the pipeline.
        index: of the chip.
        bells: of the pipeline's processes and of the host.
        failed: end of a pipe for the reason of a failure.
    """
    status = 1
    try:
        os.sched_setaffinity(0, {plan.core_of(replica, index)})
        _run(plan, pipeline, index, bells)
        status = 0
    except BaseException as error:
        os.write(failed, " ".join(str(error).split()).encode()[:4000])
    finally:
        os._exit(status)


def _run(plan: RingPlan, pipeline: SharedPipeline, index: int, bells: Mapping[int, Bell]) -> None:
    chip, own = plan.chips[index], bells[index]
    sink = [] if pipeline.outputs_of(index) else [HOST]
    wake = [bells[place] for place in (*pipeline.neighbours(index), *sink)]
    session = open_session(chip.file, stock=True, threads=1)
    bindings = [_binding(session, plan, pipeline, index, slot) for slot in range(SLOTS)]
    states = _States(chip, plan) if chip.states else None
    times = pipeline.times[index]
    pipeline.ready[index] = 1
    bells[HOST].ring()
    for i in range(plan.total):

        def may_run(i: int = i) -> bool:
            return pipeline.has_inputs(index, i) and pipeline.has_room(index, i)

        if not own.wait_until(may_run, _WAITS * plan.patience_s):
            raise TimeoutError("no input came, and the host is silent")
        step, sequence = plan.step_of(0, i)
        binding = bindings[i % SLOTS]
        if states is not None:
            states.bind(binding, step, sequence)
        before_ns = time.thread_time_ns()
        session.run_with_iobinding(binding)
        times[i, 1] = time.thread_time_ns() - before_ns
        if states is not None:
            states.take_over(sequence)
            if i == (len(plan.rounds) - 1) * plan.sequences:
                for kept, present in zip(pipeline.kept[index], states.presents, strict=True):
                    kept[...] = present
        times[i, 0] = time.process_time_ns()
        # Before others see what was made: once all sinks have done a round, all chips have.
        pipeline.done[index] = i + 1
        pipeline.note_made(index, i)
        pipeline.note_read(index, i)
        for bell in wake:
            bell.ring()


def _binding(session: Any, plan: RingPlan, pipeline: SharedPipeline, index: int, slot: int) -> Any:
    """Inputs and outputs of a model in the shared buffers of one slot."""
    binding = session.io_binding()
    for rows, bind in (
        (pipeline.inputs_of(index), binding.bind_input),
        (pipeline.outputs_of(index), binding.bind_output),
    ):
        for row in rows:
            tensor = plan.tensors[row]
            _bind(bind, tensor.name, tensor.dtype, pipeline.slots[row][slot])
    return binding


def _bind(bind: Any, name: str, dtype: int, array: np.ndarray) -> None:
    bind(name, "cpu", 0, dtype, array.shape, array.ctypes.data)


class _States:
    """The states of all sequences on one chip.

    Attributes:
        presents: what the last step made.
    """

    def __init__(self, chip: RingChip, plan: RingPlan) -> None:
        self._states = chip.states
        self._pasts = [[state.first.copy() for state in chip.states] for _ in range(plan.sequences)]
        self.presents = [np.empty(state.present_shape, state.first.dtype) for state in chip.states]

    def bind(self, binding: Any, step: int, sequence: int) -> None:
        """Gives a step the pasts of its sequence, from the first ones where it begins."""
        for state, past, present in zip(
            self._states, self._pasts[sequence], self.presents, strict=True
        ):
            if step == 0:
                past[...] = state.first
            _bind(binding.bind_input, state.past, state.dtype, past)
            _bind(binding.bind_output, state.present, state.dtype, present)

    def take_over(self, sequence: int) -> None:
        """Makes the presents of a step the pasts of the next."""
        for past, present in zip(self._pasts[sequence], self.presents, strict=True):
            past[...] = fed_back(present, past)
