"""The contract of step evaluators: the time of a step under a placement.

Definition of a step, so that two evaluators agree to the last digit:

- Time passes in *rounds*. A round begins with all ends that are due: of ops, then of copies, each
  by the number of their device. Starts follow: of ops, then of copies, each by the number of the
  device that they start on or leave. If an op or copy of 0 s has ended by then, another round at
  the same time follows.
- A device runs one op at a time. An op is ready as soon as all its inputs are on its device. Stored
  weights always are, and ops without inputs are ready in the first round. A free device starts
  the ready op of the earliest round (`fifo`), or the one with the longest path to the end
  (`critical_path`). Paths count times on the fastest kind that may run an op, with the op itself
  and without copies. Among equals, the op with the lower number starts.
- When an op ends, each of its values is sent once to each other device with a reader. Copies queue
  at the egress channel of the op's device, by the value's number, then by the destination's,
  after earlier copies. A channel carries one copy at a time, which takes
  `latency + bytes / rate`, and is on its destination when it ends.
- Memory consists of *blocks*. A new value takes a block of its bytes on its op's device when the
  op starts; a view shares the block of its source on that device. A copy takes a block of the
  copied value's bytes on its destination when it starts. A block is freed when the last op on its
  device that reads a value in it has ended, and the last copy from it. Without such ops and
  copies, it is freed when its op has ended. Blocks with a value that is `kept` are held until the
  end. Blocks of values that `stay`, and of stored weights (one on each device that reads them),
  are held from time 0 to the end. Ends free memory before starts of the same time take any.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from mcm_compiler.arrays.types import Bools, Floats, Ints, Longs
from mcm_compiler.machines.choices import QueueOrder

OVERFLOW_PENALTY = 10.0
"""Penalty of a step's score, as a multiple of its time, per share of a device's memory that is
exceeded. Without a slope, a search would not return to placements that fit."""


@dataclass(frozen=True, eq=False)
class StepConditions:
    """Conditions of a simulated step.

    Attributes:
        order: see `QueueOrder`.
        time_factors: `[N]`, each op's time on any device is multiplied by it; empty for 1.
    """

    order: QueueOrder = "fifo"
    time_factors: Floats = field(default_factory=lambda: np.empty(0, np.float64))


@dataclass(frozen=True, eq=False)
class StepResults:
    """Results for B placements on D devices.

    Attributes:
        seconds: `[B]`, time of the step, as if memory were without limit.
        peak_bytes: `[B, D]`, most memory that is held at once on each device.
        busy_s: `[B, D]`, time of its ops.
        copy_s: `[B, D]`, time of its egress channel.
        overflow: `[B]`, bytes by which peaks exceed memories, as shares of the memory of their
            device, summed over devices; 0 where the placement fits.
    """

    seconds: Floats
    peak_bytes: Longs
    busy_s: Floats
    copy_s: Floats
    overflow: Floats

    @property
    def fits(self) -> Bools:
        """`[B]`, whether no memory overflows."""
        return self.overflow == 0.0

    @property
    def score(self) -> Floats:
        """`[B]`, what search minimises: the time, more where memory overflows."""
        return self.seconds * (1.0 + OVERFLOW_PENALTY * self.overflow)


@dataclass(frozen=True, eq=False)
class StepTrace:
    """When everything happened in one step.

    Attributes:
        device_of: `[N]`.
        start_s: `[N]`, when each op starts.
        end_s: `[N]`.
        copy_value: `[C]`, the value that each copy carries, in the order in which copies start.
        copy_from: `[C]`, devices.
        copy_to: `[C]`.
        copy_start_s: `[C]`.
        copy_end_s: `[C]`.
        peak_bytes: `[D]`.
        critical_ops: ops of a chain that the time of the step is the sum of, with the copies and
            the waiting for busy devices and channels between them; in order.
    """

    device_of: Ints
    start_s: Floats
    end_s: Floats
    copy_value: Ints
    copy_from: Ints
    copy_to: Ints
    copy_start_s: Floats
    copy_end_s: Floats
    peak_bytes: Longs
    critical_ops: Ints


class StepEvaluator(Protocol):
    """Simulates placements of one problem in one box. Pure and deterministic."""

    @property
    def name(self) -> str: ...

    def evaluate(self, placements: Ints) -> StepResults:
        """Simulates each placement.

        Args:
            placements: `[B, N]`, device of each op; those of ops that run together are equal.

        Raises:
            ValueError: for a device that does not exist or that an op may not run on, and for ops
                that should run together and do not.
        """
        ...

    def trace(self, placement: Ints) -> StepTrace:
        """Simulate one placement `[N]`, and return the times of its events.

        Raises:
            ValueError: as `evaluate`.
        """
        ...
