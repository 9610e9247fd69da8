"""Which tensors lie in the memory of others, and which weights are never held: views."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.cost import CostModel, KnowsViews
from mcm_compiler.contracts.partition import IN_A_WEIGHT, Bools, Ints, Longs
from mcm_compiler.graph.constants import consumed_values
from mcm_compiler.machines.kind_costs import NOBODY, ViewCopies
from mcm_passes.mapping.problem.contraction import Unit
from mcm_passes.mapping.problem.state_units import HeldState

IsView = Callable[[ir.Node], bool]

_SHAPE_OPS = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})


class SharedMemory(NamedTuple):
    """As the attributes of `PartitionProblem` with these names."""

    tensor_alias: Ints
    tensor_touched: Bools
    weight_touched: Bools
    one_kernel: Bools


def views_of(cost_model: CostModel) -> IsView:
    """Views of the target; where it says nothing, all that only change a shape.

    A bound may count less than a planner takes, never more.
    """
    if isinstance(cost_model, KnowsViews):
        return cost_model.is_view
    return lambda node: (
        node.domain == "" and node.op_type in _SHAPE_OPS and bool(node.inputs and node.inputs[0])
    )


def shared_memory(
    units: Sequence[Unit],
    tensors: Sequence[tuple[ir.Value, Sequence[int]]],
    weights: Sequence[tuple[ir.Value, Sequence[int]]],
    constants: set[ir.Value],
    is_view: IsView,
) -> SharedMemory:
    """Follows views through all units. Takes linear time.

    Args:
        units: in topological order.
        tensors: with the units that read them, in the problem's order.
        weights: likewise.
        constants: values that live where they are used.
        is_view: whether an op's first output is in the memory of its first input.
    """
    behind: dict[ir.Value, ir.Value] = {}
    touched: set[tuple[ir.Value, int]] = set()
    for u, unit in enumerate(units):
        inside: dict[ir.Value, ir.Value] = {}
        for node in unit.nodes:
            operands = consumed_values(node)
            if is_view(node):
                behind[node.outputs[0]] = operands[0]
                inside[node.outputs[0]] = inside.get(operands[0], operands[0])
                # The other operands, such as a shape, are known when the program is made.
                continue
            touched.update((inside.get(value, value), u) for value in operands)
    return SharedMemory(
        _aliases([value for value, _ in tensors], behind, constants),
        _touched(tensors, touched),
        # What no op reads by itself lies in the body of one.
        _touched(weights, touched, _read_directly(units)),
        np.array([len(unit.kernels) == 1 for unit in units], np.bool_),
    )


def with_states(
    shared: SharedMemory,
    tensors: Sequence[ir.Value],
    weights: Sequence[ir.Value],
    weight_ptr: Longs,
    held: Sequence[HeldState],
) -> SharedMemory:
    """The same where a present is in the memory of its state, which is held all the time.

    Args:
        shared: where presents are tensors like any others.
        tensors: in the problem's order.
        weights: likewise, states among them by their pasts.
        weight_ptr: as in `PartitionProblem`.
        held: states that stay on their chips.
    """
    presents, pasts = {s.present for s in held}, {s.past for s in held}
    alias = shared.tensor_alias.copy()
    alias[[t for t, value in enumerate(tensors) if value in presents]] = IN_A_WEIGHT
    touched = shared.weight_touched.copy()
    for w, value in enumerate(weights):
        if value in pasts:
            touched[weight_ptr[w] : weight_ptr[w + 1]] = True
    return shared._replace(tensor_alias=alias, weight_touched=touched)


WRITTEN = -3
"""In a walk over views: every chip that reads the memory has a clone that writes it."""


def view_copies(
    values: Sequence[ir.Value],
    producer: Sequence[int],
    alias: Ints,
    clonable: Bools,
    prolonged_s: Sequence[Callable[[ir.Value], float]],
) -> ViewCopies | None:
    """The tensors that chips copy where they leave, see `ViewCopies`; None if there are none.

    Args:
        values: of all tensors, in the problem's order.
        producer: `[T]`, the unit that makes each, or -1.
        alias: `[T]`, as `PartitionProblem.tensor_alias`, but for states.
        clonable: `[N]`, units that are copied to each chip that reads them.
        prolonged_s: for each kind of chip, seconds by which a copy prolongs the maker's kernel.
    """
    writer = np.full(len(values), NOBODY, np.int64)
    copied: list[int] = []
    for t, (source, maker) in enumerate(zip(alias.tolist(), producer, strict=True)):
        own = maker < 0 or bool(clonable[maker])
        if source == -1:
            writer[t] = NOBODY if maker < 0 else WRITTEN if own else maker
        elif source != IN_A_WEIGHT:
            # A clone is on each chip that reads it, so that memory from there is written here.
            writer[t] = maker if writer[source] == WRITTEN and not own else writer[source]
        if source != -1 and not own and writer[t] != maker:
            copied.append(t)
    seconds = np.array([[extra_s(values[t]) for t in copied] for extra_s in prolonged_s])
    lasting = np.flatnonzero(seconds.any(axis=0)) if copied else np.zeros(0, np.int64)
    if not lasting.size:
        return None
    tensor = np.array(copied, np.int32)[lasting]
    return ViewCopies(tensor, writer[tensor].astype(np.int32), seconds[:, lasting].ravel())


def _aliases(
    values: Sequence[ir.Value], behind: Mapping[ir.Value, ir.Value], constants: set[ir.Value]
) -> Ints:
    row = {value: t for t, value in enumerate(values)}
    hidden: dict[ir.Value, int] = {}
    nearest: dict[ir.Value, ir.Value] = {}
    for view, source in behind.items():
        # Views come in the order of the units, so that what they view is known.
        nearest[view] = source if source in row else nearest.get(source, source)
    alias = np.full(len(values), -1, np.int32)
    for t, value in enumerate(values):
        if (source := nearest.get(value)) is None:
            hidden.setdefault(value, t)
        elif source in row:
            alias[t] = row[source]
        elif source in constants:
            alias[t] = IN_A_WEIGHT
        elif (first := hidden.setdefault(source, t)) != t:
            alias[t] = first
    return alias


def _read_directly(units: Sequence[Unit]) -> set[tuple[ir.Value, int]]:
    return {
        (value, u)
        for u, unit in enumerate(units)
        for node in unit.nodes
        for value in consumed_values(node)
    }


def _touched(
    rows: Sequence[tuple[ir.Value, Sequence[int]]],
    touched: set[tuple[ir.Value, int]],
    direct: set[tuple[ir.Value, int]] | None = None,
) -> Bools:
    return np.array(
        [
            (value, u) in touched or (direct is not None and (value, u) not in direct)
            for value, users in rows
            for u in users
        ],
        np.bool_,
    )
