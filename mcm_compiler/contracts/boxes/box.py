"""The contract of boxes: devices of a few kinds, and the copies between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from mcm_compiler.arrays.types import Floats, Ints, Longs
from mcm_compiler.contracts.described import Described

if TYPE_CHECKING:
    import onnx_ir as ir

    from mcm_compiler.contracts.boxes.evaluation import StepConditions, StepEvaluator
    from mcm_compiler.contracts.boxes.step import StepProblem
    from mcm_compiler.graph.states import StatePair


@dataclass(frozen=True, eq=False)
class Box:
    """D devices of K kinds. All arrays are read-only.

    A device runs one op at a time. What it sends leaves it over its one egress channel, one copy
    at a time; a tensor goes once to each device that reads it.

    Attributes:
        kinds: `[K]`, names of the kinds, such as `haswell` and `k40`.
        devices: `[D]`, names of the devices, such as `cpu:0` and `gpu:1`, distinct.
        kind_of: `[D]`, index into `kinds`.
        memory_bytes: `[D]`, what a placement may use of each device's memory.
        copy_bytes_per_s: `[D, D]`, rate of a copy from device a to device b; infinite where a is b.
        copy_latency_s: `[D, D]`, time that every copy takes besides; it keeps the channel busy. 0
            where a is b.
        host: the device on which the inputs of a step lie before it; a CPU where there is one.
    """

    kinds: tuple[str, ...]
    devices: tuple[str, ...]
    kind_of: Ints
    memory_bytes: Longs
    copy_bytes_per_s: Floats
    copy_latency_s: Floats
    host: int = 0

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    @property
    def num_devices(self) -> int:
        """D."""
        return len(self.devices)

    def of_kind(self, kind: int) -> Ints:
        """Devices of a kind, ascending."""
        return np.flatnonzero(self.kind_of == kind).astype(np.int32)


@runtime_checkable
class BoxTarget(Described, Protocol):
    """A box that ops can be placed in."""

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


class BoxFamily(Protocol):
    """Code that turns a description file of one family into a `BoxTarget`.

    Registered as kind `target-family` like
    `mcm_compiler.contracts.target.TargetFamily`.
    """

    def __call__(self, name: str, text: str) -> BoxTarget:
        """Makes the box.

        Raises:
            CompileError: with one diagnostic per fault of the description.
        """
        ...
