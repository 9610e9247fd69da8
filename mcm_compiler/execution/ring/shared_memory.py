"""Memory that the processes of one pipeline share, and what they wait on.

Both are made before the processes are forked, and have no names in the system: when the last
process has ended, however it ended, nothing of them is left.
"""

from __future__ import annotations

import math
import mmap
import os
import select
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from mcm_compiler.execution.ring.plan import HOST, SLOTS, RingPlan

_ALIGNMENT = 64
_TIMES = 2
"""Numbers that a chip notes of each round: CPU seconds at its end, and those in its model."""


class Bell:
    """A wake-up of one process by all others. No ring is lost while nobody waits."""

    def __init__(self) -> None:
        self.descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def ring(self) -> None:
        """Wakes the process that waits, now or when it next does."""
        os.eventfd_write(self.descriptor, 1)

    def wait_until(self, condition: Callable[[], bool], patience_s: float) -> bool:
        """Waits until a condition holds that others make true before they ring.

        Returns:
            Whether it holds; False when time is over.
        """
        end_s = time.monotonic() + patience_s
        while not condition():
            if not self.wait((), end_s - time.monotonic()):
                return condition()
        return True

    def wait(self, others: Sequence[int], patience_s: float) -> set[int]:
        """Waits for a ring, or until one of other descriptors can be read.

        Returns:
            The descriptors that can be read, this one's included; none when time is over.
        """
        poll = select.poll()
        for descriptor in (self.descriptor, *others):
            poll.register(descriptor, select.POLLIN)
        found = {descriptor for descriptor, _ in poll.poll(max(0.0, patience_s) * 1e3)}
        if self.descriptor in found:
            os.eventfd_read(self.descriptor)
        return found

    def close(self) -> None:
        """Frees the descriptor."""
        os.close(self.descriptor)


class SharedPipeline:
    """Tensors, counters and times of one pipeline; each counter is written by one process alone.

    Args:
        plan: of the run.

    Attributes:
        slots: by tensor, its buffers; round i uses buffer i modulo their number.
        made: by tensor, rounds for which it was written.
        read: by tensor and reader, rounds for which it was read.
        ready: by chip, whether its model is open.
        done: by chip, rounds that it has run.
        times: by chip and round, CPU nanoseconds of the process, and those in its model.
        kept: by chip, what its states were after the last step of the first sequence.
    """

    def __init__(self, plan: RingPlan) -> None:
        self._plan = plan
        chips, tensors = len(plan.chips), len(plan.tensors)
        readers = max((len(tensor.readers) for tensor in plan.tensors), default=0)
        self._memory = mmap.mmap(-1, self.bytes_of(plan))
        self._end = 0
        self.made = self._array(np.dtype(np.int64), (tensors,))
        self.read = self._array(np.dtype(np.int64), (tensors, readers))
        self.ready = self._array(np.dtype(np.int64), (chips,))
        self.done = self._array(np.dtype(np.int64), (chips,))
        self.times = self._array(np.dtype(np.int64), (chips, plan.total, _TIMES))
        self.slots = [
            [self._array(_numpy_type(tensor.dtype), tensor.shape) for _ in range(SLOTS)]
            for tensor in plan.tensors
        ]
        self.kept = [
            [self._array(_numpy_type(state.dtype), state.present_shape) for state in chip.states]
            for chip in plan.chips
        ]
        for row, tensor in enumerate(plan.tensors):
            # Readers that a tensor lacks hold nobody up.
            self.read[row, len(tensor.readers) :] = np.iinfo(np.int64).max
        self._inputs = {
            place: [
                (row, tensor.readers.index(place))
                for row, tensor in enumerate(plan.tensors)
                if place in tensor.readers
            ]
            for place in range(HOST, chips)
        }
        self._outputs = {
            place: [row for row, tensor in enumerate(plan.tensors) if tensor.source == place]
            for place in range(HOST, chips)
        }

    @staticmethod
    def bytes_of(plan: RingPlan) -> int:
        """Memory that a pipeline takes."""
        sizes = [SLOTS * _bytes(tensor.dtype, tensor.shape) for tensor in plan.tensors]
        sizes += [_bytes(s.dtype, s.present_shape) for chip in plan.chips for s in chip.states]
        readers = max((len(tensor.readers) for tensor in plan.tensors), default=0)
        counters = len(plan.tensors) * (1 + readers) + len(plan.chips) * (2 + _TIMES * plan.total)
        aligned = _ALIGNMENT * (5 + (SLOTS + 1) * (len(plan.tensors) + len(sizes)))
        return sum(sizes) + 8 * counters + aligned

    def _array(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
        count = math.prod(shape)
        made = np.frombuffer(self._memory, dtype, count, self._end).reshape(shape)
        self._end += -(-count * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
        return made

    def inputs_of(self, place: int) -> list[int]:
        """Tensors that a chip or the host reads."""
        return [row for row, _ in self._inputs[place]]

    def outputs_of(self, place: int) -> list[int]:
        """Tensors that it makes."""
        return self._outputs[place]

    def neighbours(self, place: int) -> list[int]:
        """Those that wait for what it makes, or for buffers that it empties."""
        tensors = self._plan.tensors
        found = {tensors[row].source for row in self.inputs_of(place)}
        for row in self._outputs[place]:
            found.update(tensors[row].readers)
        return sorted(found - {place})

    def has_inputs(self, place: int, i: int) -> bool:
        """Return whether all that a chip or the host reads in round i is there."""
        return all(self.made[row] > i for row in self.inputs_of(place))

    def has_room(self, place: int, i: int) -> bool:
        """Return whether there is a free buffer for all that it makes in round i."""
        return all(self.read[row].min() > i - SLOTS for row in self._outputs[place])

    def note_made(self, place: int, i: int) -> None:
        """Notes that all it makes in round i is there."""
        for row in self._outputs[place]:
            self.made[row] = i + 1

    def note_read(self, place: int, i: int) -> None:
        """Notes that it needs nothing of round i any more."""
        for row, reader in self._inputs[place]:
            self.read[row, reader] = i + 1


def _numpy_type(dtype: int) -> np.dtype[Any]:
    return ir.DataType(dtype).numpy()


def _bytes(dtype: int, shape: tuple[int, ...]) -> int:
    return math.prod(shape) * _numpy_type(dtype).itemsize
