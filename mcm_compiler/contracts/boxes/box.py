"""The contract of boxes and steps: devices of a few kinds, the copies between them, and ops.

Two things of training are ops here without an ONNX op. A *variable* is an op without inputs that
takes no time and makes a value that stays, such as a weight or the optimizer's state of it. Readers
on other devices get a copy in each step. Weights of inference never change: they are stored on each
device that reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from mcm_compiler.arrays.types import Bools, Floats, Ints, Longs, ReadOnlyArrays
from mcm_compiler.contracts.described import Described
from mcm_compiler.machines.machine import Machine

if TYPE_CHECKING:
    import onnx_ir as ir

    from mcm_compiler.contracts.boxes.evaluation import StepConditions, StepEvaluator
    from mcm_compiler.graph.states import StatePair


@dataclass(frozen=True, eq=False)
class Box:
    """A machine of D devices with names, of K kinds with names.

    Each device has a channel of the machine to each other device. Two rules come on top of the
    machine. A device sends one copy at a time, whichever channel it takes, and the latency of a
    copy keeps the device's egress busy; a tensor goes once to each device that reads it. And the
    host is one of the devices, so that no route leads to the machine's own host.

    Attributes:
        kinds: `[K]`, names of the kinds, such as `haswell` and `k40`.
        devices: `[D]`, names of the devices, such as `cpu:0` and `gpu:1`, distinct.
        machine: memory and kind of each device, and rate and latency of each channel;
            `mcm_compiler.machines.machine_builder.joined_devices` makes it from tables.
        host: the device on which the inputs of a step are before it; a CPU where there is one.
    """

    kinds: tuple[str, ...]
    devices: tuple[str, ...]
    machine: Machine
    host: int = 0

    @property
    def num_devices(self) -> int:
        """D."""
        return len(self.devices)

    @property
    def memory_bytes(self) -> Longs:
        """`[D]`, what a placement may use of each device's memory."""
        return self.machine.memory_bytes

    @cached_property
    def kind_of(self) -> Ints:
        """`[D]`, index into `kinds`."""
        kinds = self.machine.device_kind
        return np.zeros(self.num_devices, np.int32) if kinds is None else kinds

    @cached_property
    def copy_bytes_per_s(self) -> Floats:
        """`[D, D]`, rate of a copy from device a to device b; infinite where a is b."""
        return self._by_pair(self.machine.channel_bytes_per_s, np.inf)

    @cached_property
    def copy_latency_s(self) -> Floats:
        """`[D, D]`, time that every copy takes besides; 0 where a is b."""
        return self._by_pair(self.machine.channel_latency_s, 0.0)

    def _by_pair(self, numbers: Floats, own: float) -> Floats:
        """Numbers of channels by the devices at their ends."""
        found = np.full((self.num_devices, self.num_devices), own)
        found[tuple(self.machine.channel_ends.T)] = numbers
        found.setflags(write=False)
        return found

    def of_kind(self, kind: int) -> Ints:
        """Devices of a kind, ascending."""
        return np.flatnonzero(self.kind_of == kind).astype(np.int32)


@runtime_checkable
class BoxTarget(Described, Protocol):
    """A box that ops can be placed in."""

    @property
    def addition(self) -> str:
        """`placement`."""
        ...

    @property
    def box(self) -> Box: ...

    def step_problem(self, model: ir.Model, states: tuple[StatePair, ...] = ()) -> StepProblem:
        """Derive the ops to place from a model.

        Args:
            model: with static shapes; left unchanged.
            states: inputs that one step hands to the next as outputs: the variables of training
                and what its optimiser keeps, or caches.

        Raises:
            CompileError: MCM-D010 for ops that no device runs, one diagnostic per op type; MCM-D011
                for values of unknown size.
        """
        ...

    def step_evaluator(
        self, problem: StepProblem, conditions: StepConditions | None = None
    ) -> StepEvaluator:
        """The simulator of steps.

        Args:
            problem: as `step_problem` or any other builder gives it, for this box.
            conditions: in which the step is simulated; None for those that hold by default.
        """
        ...


@runtime_checkable
class ScalesResources(Protocol):
    """A box of which there can be more or less; others have no sensitivities."""

    @property
    def resources(self) -> Sequence[str]:
        """Names of its resources, in the order of reports."""
        ...

    def scaled(self, resource: str, factor: float) -> BoxTarget:
        """The same box with `factor` times of a resource; its description stays as it is."""
        ...


def common_devices(together: Ints, allowed: Bools) -> Bools:
    """`[groups, D]`, devices that all ops of a set may run on, from `[N]` sets and `[N, D]`."""
    common = np.ones((int(together.max(initial=-1)) + 1, allowed.shape[1]), np.bool_)
    np.logical_and.at(common, together, allowed)
    return common


VARIABLE = "Variable"
"""Op type of variables."""

INPUT = "Input"
"""Op type of the step's inputs: ops that take no time and that only the host may run."""


@dataclass(frozen=True, eq=False)
class StepProblem(ReadOnlyArrays):
    """N ops and V values, to be placed on the D devices of a box of K kinds. Arrays are read-only.

    Ops are in a topological order.

    Attributes:
        names: `[N]`, distinct.
        op_types: `[N]`, such as `MatMul`, `VARIABLE` or `INPUT`.
        time_s: `[N, K]`, time of each op on a device of each kind, launch included; infinite where
            such a device cannot run it.
        value_names: `[V]`, distinct.
        value_bytes: `[V]`.
        producer: `[V]`, the op that makes the value, or -1 for a weight that is stored on every
            device that reads it.
        view_of: `[V]`, an input of the producing op whose memory contains this value (as a view of
            it, or by overwriting it), or -1 for memory of its own.
        stays: `[V]`, in memory before the step and after it: values of variables.
        kept: `[V]`, in memory until the step ends: outputs of the model.
        read_begin: `[N + 1]`, op n reads `reads[read_begin[n] : read_begin[n + 1]]`.
        reads: values, distinct and ascending for each op.
        together: `[N]`, numbers from 0 without gaps; ops of one number run on one device.
        allowed: `[N, D]`, devices on which an op may run by its kind, by pins and constraints. The
            same for ops that run together.
        layer: `[N]`, the layer that the op belongs to, numbers from 0 in the order of the forward
            pass, or -1 if its name has none; for experts' placements.
    """

    names: tuple[str, ...]
    op_types: tuple[str, ...]
    time_s: Floats
    value_names: tuple[str, ...]
    value_bytes: Longs
    producer: Ints
    view_of: Ints
    stays: Bools
    kept: Bools
    read_begin: Longs
    reads: Ints
    together: Ints
    allowed: Bools
    layer: Ints = field(default_factory=lambda: np.empty(0, np.int32))

    def __post_init__(self) -> None:
        if len(self.layer) != len(self.names):
            object.__setattr__(self, "layer", np.full(len(self.names), -1, np.int32))
        super().__post_init__()

    @property
    def num_ops(self) -> int:
        """N."""
        return len(self.names)

    @property
    def num_values(self) -> int:
        """V."""
        return len(self.value_names)

    @property
    def num_groups(self) -> int:
        """Sets of ops that run together."""
        return int(self.together.max()) + 1 if len(self.together) else 0

    @cached_property
    def reader(self) -> Longs:
        """As long as `reads`, the op that reads each."""
        return np.repeat(np.arange(self.num_ops), np.diff(self.read_begin))

    @cached_property
    def holder(self) -> Longs:
        """`[V]`, the op that makes a value; of a stored weight the first reader, or -1."""
        read, where = np.unique(self.reads, return_index=True)
        first_reader = np.full(self.num_values, -1, np.int64)
        first_reader[read] = self.reader[where]
        return np.where(self.producer < 0, first_reader, self.producer)

    @cached_property
    def leader(self) -> Longs:
        """The first op of each set of ops that run together."""
        return np.unique(self.together, return_index=True)[1]

    @cached_property
    def group_allowed(self) -> Bools:
        """Devices on which each set of ops that run together may run."""
        return common_devices(self.together, self.allowed)

    def device_times(self, box: Box) -> Floats:
        """`[N, D]`, time of each op on each device; infinite where it may not run."""
        return np.where(self.allowed, self.time_s[:, box.kind_of], np.inf)

    @cached_property
    def edges(self) -> Ints:
        """`[E, 2]`, distinct pairs of an op and one that reads a value of it, ascending."""
        maker = self.producer[self.reads]
        made = maker >= 0
        keys = np.unique(maker[made].astype(np.int64) * self.num_ops + self.reader[made])
        pairs = np.stack([keys // max(self.num_ops, 1), keys % max(self.num_ops, 1)], axis=1)
        pairs = pairs.astype(np.int32)
        pairs.setflags(write=False)
        return pairs
