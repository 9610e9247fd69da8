"""The `cost` objective: seconds of one step if some classes are divided.

Two settings. Without data parallelism all devices hold the whole batch: what is divided is
computed in parts, and what is not is computed by all of them alike. With it every device has its
share of the batch in all that is not divided, and gradients of replicated variables are added up
over all devices. A divided part of the model reads the gathered activations of all of them (the
scheme of Krizhevsky 2014, *One weird trick for parallelizing convolutional neural networks*).

Conflicting classes are never divided both, so that an op is divided along one factor at most, and
its time is linear in the decision. Devices talk where any of some classes is divided, see
`partial_values`: each such place is a term that is paid once, however many of them are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from mcm_compiler.contracts.cost import CostModel
from mcm_passes.parallelism.classes.dimension_classes import DimensionClasses, linkage_groups
from mcm_passes.parallelism.classes.partial_values import partial_values
from mcm_passes.parallelism.classes.variables import float_bytes, trainable_variables
from mcm_passes.parallelism.decisions.decision_problem import DecisionObjective, DecisionProblem

BACKWARD_PER_FORWARD = 2.0
"""Seconds of the gradients of an op's operands for each second of the op: two products of the size
of its own (Narayanan et al. 2021, *Efficient large-scale language model training*, appendix)."""

_STATE = 3
"""Tensors per variable in training: gradient and two moments (Kingma and Ba 2015, Adam)."""


@dataclass(frozen=True)
class DeviceGroup:
    """Devices over which classes are divided.

    Attributes:
        devices: how many, at least 2.
        bytes_per_s: of the slowest link of a ring through all of them, in one direction.
        latency_s: of one message over it.
        memory_bytes: of one device, or None where it does not count.
    """

    devices: int
    bytes_per_s: float
    latency_s: float = 0.0
    memory_bytes: float | None = None

    def all_reduce_s(self, size: float) -> float:
        """Seconds in which `size` bytes on every device are added up on all of them.

        A ring of r devices sends `2 (r - 1)` pieces of `size / r` (Patarasuk and Yuan 2009,
        *Bandwidth optimal all-reduce algorithms for clusters of workstations*).
        """
        steps = 2 * (self.devices - 1)
        return steps * (size / self.devices / self.bytes_per_s + self.latency_s)

    def all_gather_s(self, size: float) -> float:
        """Seconds in which all devices get all parts of `size` bytes, or the sum of one part.

        One half of an all-reduce, either one (section 3 there).
        """
        return self.all_reduce_s(size) / 2


@dataclass(frozen=True, eq=False)
class StepCost:
    """Seconds and bytes of a step, as arrays over the K classes of a problem.

    Attributes:
        base_s: with nothing divided.
        class_s: `[K]`, what dividing a class adds (mostly less than 0).
        term_s: `[T]`, communication that is paid once if any class of the term is divided.
        members: `[T, K]` bool, the classes of each term.
        base_bytes: memory of a device with nothing divided.
        class_bytes: `[K]`, what dividing a class adds (mostly less than 0).
    """

    base_s: float
    class_s: NDArray[np.float64]
    term_s: NDArray[np.float64]
    members: NDArray[np.bool_]
    base_bytes: float
    class_bytes: NDArray[np.float64]

    def seconds(self, partitioned: NDArray[np.bool_]) -> float:
        """Seconds of a step.

        Args:
            partitioned: `[K]` bool, feasible.
        """
        paid = (self.members & partitioned).any(axis=1)
        of_classes = self.base_s + float(self.class_s[partitioned].sum())
        return of_classes + float(self.term_s[paid].sum())

    def objective(self) -> DecisionObjective:
        """`cost`: seconds of a step that a decision saves."""
        return DecisionObjective("cost", -self.class_s, -self.term_s, self.members)

    def memory_bytes(self, partitioned: NDArray[np.bool_]) -> float:
        """Bytes on the fullest device; arguments as for `seconds`."""
        return self.base_bytes + float(self.class_bytes[partitioned].sum())


def seconds_by_model(classes: DimensionClasses, model: CostModel) -> NDArray[np.float64]:
    """Forward seconds of each ruled op on one chip of a target."""
    return np.array([model.node_cost(node).seconds for node in classes.ruled.nodes])


def step_cost(
    model: ir.Model,
    problem: DecisionProblem,
    classes: DimensionClasses,
    op_seconds: NDArray[np.float64],
    group: DeviceGroup,
    *,
    training: bool = True,
    batch_class: int | None = None,
) -> StepCost:
    """The cost of dividing the variables of a model.

    Args:
        model: with shapes.
        problem: `opp_problem` of the model over `group.devices`.
        classes: those of the model.
        op_seconds: forward seconds of `classes.ruled.nodes` on one device.
        group: the devices.
        training: with gradients and the state of the optimiser.
        batch_class: class of the batch dimensions, see `adp_problem`: all devices are replicas
            with a share of the batch. None: all of them hold the whole batch.
    """
    chosen = linkage_groups(classes, trainable_variables(model)).class_of_group
    count = len(chosen)
    number = np.full(len(classes.size), -1, dtype=np.int64)
    number[chosen] = np.arange(count)
    share = np.array([_share(int(size), group.devices) for size in problem.size])
    batch_share = 1.0
    if batch_class is not None:
        batch_share = _share(int(classes.size[batch_class]), group.devices)

    seconds = op_seconds * (1.0 + BACKWARD_PER_FORWARD if training else 1.0)
    base_s, class_s = 0.0, np.zeros(count)
    for node, time in enumerate(seconds.tolist()):
        of_op = classes.factor_class[classes.factor_ptr[node] : classes.factor_ptr[node + 1]]
        usual = batch_share if batch_class is not None and batch_class in of_op else 1.0
        base_s += time * usual
        for index in {int(number[c]) for c in of_op.tolist() if c >= 0} - {-1}:
            class_s[index] += time * (share[index] - usual)

    variable_bytes = np.array(
        [float_bytes(classes.value_by_name[name]) for name in problem.tensors], dtype=np.float64
    )
    members, copies = _memberships(problem), 1 + _STATE if training else 1
    base_bytes, class_bytes = float(copies * variable_bytes.sum()), np.zeros(count)
    for tensor, index in members:
        class_bytes[index] -= copies * variable_bytes[tensor] * (1.0 - share[index])
    if training and batch_class is not None:
        # Gradients of replicated variables, in one message after another without gaps.
        total = float(variable_bytes.sum())
        base_s += group.all_reduce_s(total)
        saved = group.all_reduce_s(1e9) - group.all_reduce_s(0)
        for tensor, index in members:
            class_s[index] -= saved * variable_bytes[tensor] / 1e9
    terms = _terms(model, problem, classes, chosen, group, training, batch_class)
    return StepCost(base_s, class_s, *terms, base_bytes, class_bytes)


def _share(size: int, devices: int) -> float:
    """Part of a dimension on the device with the most of it."""
    return math.ceil(size / devices) / size if size else 1.0


def _memberships(problem: DecisionProblem) -> list[tuple[int, int]]:
    """Each variable with each class that it has a dimension of."""
    tensors = np.repeat(np.arange(len(problem.tensors)), np.diff(problem.dim_ptr))
    pairs = zip(tensors.tolist(), problem.dim_class.tolist(), strict=True)
    return sorted({(tensor, index) for tensor, index in pairs if index >= 0})


def _terms(
    model: ir.Model,
    problem: DecisionProblem,
    classes: DimensionClasses,
    chosen: NDArray[np.int32],
    group: DeviceGroup,
    training: bool,
    batch_class: int | None,
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Seconds of each term, and its classes."""
    values = classes.ruled.values
    found = partial_values(classes, chosen)
    learning = _learning(model) if training else set[ir.Value]()
    variables = set(problem.tensors)
    free = sum(1 << k for k in np.flatnonzero(~problem.blocked).tolist())
    by_mask: dict[int, float] = {}

    def pay(mask: int, seconds: float) -> None:
        if mask & free and seconds > 0:
            by_mask[mask & free] = by_mask.get(mask & free, 0.0) + seconds

    for index, mask in found.sums.items():
        value = values[index]
        size = float_bytes(value)
        if batch_class is None or batch_class not in classes.of(value):
            pay(mask, group.all_reduce_s(size))
        else:
            # Every replica keeps the sum of its share; its gradient is gathered again.
            again = training and value in learning
            pay(mask, group.all_gather_s(size) * (2 if again else 1))
    for index, mask in found.gathered.items():
        value = values[index]
        size = float_bytes(value)
        if batch_class is not None and batch_class in classes.of(value):
            given = value.is_graph_input()
            again = training and value in learning
            pay(mask, group.all_gather_s(size) * ((not given) + again))
        elif (
            training
            and value in learning
            and not (batch_class is not None and value.name in variables)
        ):
            pay(mask, group.all_reduce_s(size))
    masks = sorted(by_mask)
    members = np.zeros((len(masks), problem.num_classes), dtype=bool)
    for row, mask in zip(members, masks, strict=True):
        row[:] = [mask >> k & 1 for k in range(problem.num_classes)]
    return np.array([by_mask[mask] for mask in masks], dtype=np.float64), members


def _learning(model: ir.Model) -> set[ir.Value]:
    """Float values through which gradients flow to variables."""
    found = set(trainable_variables(model))
    for node in model.graph:
        if any(value in found for value in node.inputs if value is not None):
            found.update(
                value
                for value in node.outputs
                if value.dtype is not None and value.dtype.is_floating_point()
            )
    return found


def batch_class_of(classes: DimensionClasses, problem: DecisionProblem) -> int | None:
    """The class that most inputs have a dimension of, among those that data parallelism divides.

    Args:
        classes: of the model.
        problem: `adp_problem` of the model.
    """
    counts = np.zeros(problem.num_classes, dtype=np.int64)
    for _, index in _memberships(problem):
        counts[index] += not problem.blocked[index]
    if not counts.any():
        return None
    best = int(np.argmax(counts))
    at = int(np.flatnonzero(problem.dim_class == best)[0])
    tensor = int(np.searchsorted(problem.dim_ptr, at, side="right")) - 1
    value = classes.value_by_name[problem.tensors[tensor]]
    return int(classes.of(value)[at - int(problem.dim_ptr[tensor])])
