"""The contract of step evaluators: how long a step takes under a placement.

What a step is, so that two evaluators can agree to the last digits:

- Time passes in *rounds*. A round at some time begins with all ends that are due (of ops, then of
  copies, each by the number of their device), and goes on with starts (of ops, then of copies, each
  by the number of the device that they start on or leave). If something that took no time has
  ended by then, another round at the same time follows.
- A device runs one op at a time. An op is ready as soon as all it reads is on its device; weights
  that lie ready always are, and ops without reads are ready in the first round. A free device
  starts that of its ready ops that became ready in the earliest round (`fifo`), or the one from
  which the longest path leads to the end (`critical_path`: by times on the fastest kind that may
  run an op, the op itself included, copies left out); among equals the one with the lower number.
- When an op ends, each of its values is sent to each other device on which a reader runs, once:
  copies queue at the egress channel of the op's device, by the value's number, then by the
  destination's, behind what queues there. A channel carries one copy at a time, which takes
  `latency + bytes / rate`, and is on its destination when it ends.
- Memory is held in *blocks*. A value that is made takes a block of its bytes on its op's device
  when the op starts; a view has the block of what it is a view of, on that device. A copy takes a
  block of the copied value's bytes on its destination when it starts. A block is freed when the
  last op on its device that reads a value in it has ended, and the last copy that leaves from it;
  where there is none of either, when its op has ended. Blocks with a value that is `kept` are held
  until the end; those of values that `stay`, and of weights that lie ready (one on each device that
  reads it), from time 0 to the end. Ends free memory before starts of the same time take any.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np

from mcm_compiler.arrays.types import Bools, Floats, Ints, Longs

QueueOrder = Literal["fifo", "critical_path"]
"""Which ready op a free device starts."""

OVERFLOW_PENALTY = 10.0
"""What a step's score grows by, as a multiple of its time, for each share of the memory of a device
by which it does not fit. Without a slope, search would not find its way back."""


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
        """Simulates one placement `[N]`, and tells when what happens.

        Raises:
            ValueError: as `evaluate`.
        """
        ...
