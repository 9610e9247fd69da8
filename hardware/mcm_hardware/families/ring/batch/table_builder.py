"""From a model and its partition problem to the tables of a batch evaluator.

A kernel writes to SRAM what leaves it. For a kernel that is on one chip this does not depend on
the partition: whoever reads a result, here or elsewhere, it leaves the kernel. Of a clone, each
chip has only the readers that are on it, so that a clone with several results has a time for each
set of results that are read. Single ops write all that they make.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from mcm_compiler.arrays.rows import rows_of, starts
from mcm_compiler.components.op_support import runs_on_host
from mcm_compiler.contracts.cost import CostModel, relay_costs
from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.graph.constants import attribute_weights, constant_values, consumed_values, leaves
from mcm_compiler.graph.states import STATES, States, copies_held, kept_bytes
from mcm_compiler.ir.rewriting.node_copying import copy_node
from mcm_compiler.placements.ring_rules import dependency_edges, route_kinds
from mcm_hardware.chip.chip_spec import ChipSpec
from mcm_hardware.chip.kernel_work import is_view
from mcm_hardware.chip.roofline import copy_seconds, cycle_model
from mcm_hardware.families.ring.batch import problem_tables
from mcm_hardware.families.ring.ring_machine import RingSpec
from mcm_hardware.memory.activation_plan import body_scratch, buffer_bytes


def build_tables(
    model: ir.Model,
    problem: PartitionProblem,
    groups: Mapping[str, str],
    spec: RingSpec,
    durations: CostModel | None = None,
) -> problem_tables.ProblemTables:
    """The tables of a problem. Takes near-linear time in the size of the graph.

    Args:
        model: the model that `problem` was built from; left unchanged.
        problem: the problem.
        groups: fusion group of each op that has one, by the names of both.
        spec: the package.
        durations: of kernels on a chip of speed 1; those of the cycle model where None.

    Raises:
        ValueError: if the problem does not belong to the model, or as `kernel_times`.
    """
    chip = spec.reference
    played = durations or cycle_model(chip)
    constants = constant_values(model.graph)
    kernels, kernel_unit = _kernels(model.graph, problem, groups)
    ops = [node for kernel in kernels for node in kernel]
    views = [is_view(node) for node in ops]
    hosted = [runs_on_host(played, kernel) for kernel in kernels for _ in kernel]
    reads = [
        # What the host runs reads its weights there, as `chip_dataflow` finds it.
        [v for v in consumed_values(node) if not (there and v in constants)]
        for node, there in zip(ops, hosted, strict=True)
    ]
    made = [_made(node, view) for node, view in zip(ops, views, strict=True)]
    tensors = _tensor_values(model.graph, ops, problem)
    clonable = [bool(problem.clonable[unit]) for unit in kernel_unit]
    relays = relay_costs(tensors, lambda relay: played.group_cost((relay,)))
    times = kernel_times(played, kernels, reads, clonable)
    unit_of = {
        value: unit
        for kernel, unit in zip(kernels, kernel_unit, strict=True)
        for node in kernel
        for value in node.outputs
    }
    for node, operands, results, there in zip(ops, reads, made, hosted, strict=True):
        # What bodies hold, as `chip_dataflow` and `with_body_memory` find it.
        if not node.attributes or there:
            continue
        inner = attribute_weights(node)
        operands.extend(inner)
        constants.update(inner)
        if (scratch := body_scratch(node, chip)) is not None:
            unit_of[scratch] = unit_of[node.outputs[0]]
            results.append(scratch)
    held = _held_room(model, problem, chip, constants)
    outputs = [
        v
        for v in dict.fromkeys(model.graph.outputs)
        if (v in unit_of or v in constants) and v not in held.presents
    ]
    values = list(dict.fromkeys(v for row in (*reads, *made, tensors, outputs) for v in row))
    number = {value: index for index, value in enumerate(values)}
    sizes = np.array([chip.storage.value_bytes(value) for value in values], np.int64)
    early = _early(model.graph, kernels, constants)
    source, target = dependency_edges(problem)
    read_ptr, read_values = rows_of([[number[value] for value in row] for row in reads])
    made_ptr, made_values = rows_of([[number[value] for value in row] for row in made])
    option_ptr, option_values = rows_of([[number[value] for value in row] for row in times.options])
    return problem_tables.ProblemTables(
        units=problem_tables.UnitTables(
            clone_row=np.where(problem.clonable, np.cumsum(problem.clonable) - 1, -1).astype(
                np.int32
            ),
            pinned_chip=np.array(problem.pinned_chip),
            kernel_ptr=starts(np.bincount(kernel_unit, minlength=problem.num_units)),
            user_ptr=np.array(problem.clone_closure.ptr),
            users=np.array(problem.clone_closure.entries),
            edge_source=np.array(source),
            edge_target=np.array(target),
        ),
        kernels=problem_tables.KernelTables(
            op_ptr=starts(np.array([len(kernel) for kernel in kernels], np.int64)),
            seconds=np.array(times.seconds, np.float64),
            early=np.array(early, np.int64),
            early_unit=np.array([kernel_unit[kernel] for kernel in early], np.int64),
            is_early=np.isin(np.arange(len(kernels)), early),
            option_ptr=option_ptr,
            option_values=option_values,
            option_begin=np.array(times.option_begin, np.int64),
            option_s=np.array(times.option_seconds, np.float64),
        ),
        ops=problem_tables.OpTables(
            is_view=np.array(views, np.bool_),
            copy_s=np.array(
                [
                    copy_seconds(chip, chip.storage.value_bytes(node.outputs[0])) if view else 0.0
                    for node, view in zip(ops, views, strict=True)
                ],
                np.float64,
            ),
            read_ptr=read_ptr,
            reads=read_values,
            made_ptr=made_ptr,
            made=made_values,
        ),
        values=problem_tables.ValueTables(
            size_bytes=sizes,
            room_bytes=np.array(
                [
                    held.room.get(value, buffer_bytes(chip, size))
                    for value, size in zip(values, sizes.tolist(), strict=True)
                ],
                np.int64,
            ),
            unit=np.array([unit_of.get(value, -1) for value in values], np.int64),
            constant=np.array([value in constants for value in values], np.bool_),
            outputs=np.array([number[value] for value in outputs], np.int64),
            held=np.array([v in held.room or v in held.roots for v in values], np.bool_),
        ),
        tensors=problem_tables.TensorTables(
            value=np.array([number[value] for value in tensors], np.int64),
            reader_ptr=np.array(problem.placed_readers.ptr),
            readers=np.array(problem.placed_readers.entries),
            kind=route_kinds(problem),
            relay_s=np.array([cost.seconds for cost in relays], np.float64),
        ),
        strict=problem.routing == "strict",
    )


class _Held(NamedTuple):
    """States that stay on chips.

    Attributes:
        room: bytes of all buffers of a state, by past.
        presents: graph outputs that stay.
        roots: values whose memory holds those.
    """

    room: dict[ir.Value, int]
    presents: frozenset[ir.Value]
    roots: frozenset[ir.Value]


def _held_room(
    model: ir.Model, problem: PartitionProblem, chip: ChipSpec, constants: set[ir.Value]
) -> _Held:
    """Held states of the model; pasts become `constants`, as no wire brings them."""
    states = STATES.find(model) or States(())
    inputs = {value.name: value for value in model.graph.inputs}
    outputs = {value.name: value for value in model.graph.outputs}
    stored = frozenset(problem.weight_names)
    room: dict[ir.Value, int] = {}
    presents: list[ir.Value] = []
    roots: list[ir.Value] = []
    for pair in states.pairs:
        if pair.past not in stored:
            continue
        past, root = inputs[pair.past], outputs[pair.present]
        presents.append(root)
        size = buffer_bytes(chip, kept_bytes(past, root, chip.storage.value_bytes(root)))
        room[past] = copies_held(past, root, states.sequences) * size
        constants.add(past)
        while (node := root.producer()) is not None and is_view(node):
            root = consumed_values(node)[0]
        roots.append(root)
    return _Held(room, frozenset(presents), frozenset(roots))


def _kernels(
    graph: ir.Graph, problem: PartitionProblem, groups: Mapping[str, str]
) -> tuple[list[tuple[ir.Node, ...]], list[int]]:
    """Ops that run together, unit by unit, and the unit of each."""
    nodes = {node.name or "": node for node in graph}
    kernels: list[tuple[ir.Node, ...]] = []
    units: list[int] = []
    for unit, members in enumerate(problem.members):
        if any(name not in nodes for name in members):
            raise ValueError(f"the model lacks ops of unit {unit} of the problem")
        # A lone op may be named like a group, so that their keys differ.
        for _, names in groupby(members, key=lambda name: (name in groups, groups.get(name, name))):
            kernels.append(tuple(nodes[name] for name in names))
            units.append(unit)
    return kernels, units


def _made(node: ir.Node, view: bool) -> list[ir.Value]:
    """Outputs that take memory; of a view, the first one in any case."""
    made = [value for value in node.outputs if value.name or value.uses()]
    return made if made or not view else [node.outputs[0]]


def _tensor_values(
    graph: ir.Graph, ops: Sequence[ir.Node], problem: PartitionProblem
) -> list[ir.Value]:
    named = {value.name: value for value in graph.inputs}
    named.update((value.name, value) for node in ops for value in node.outputs)
    missing = [name for name in problem.tensor_names if name not in named]
    if missing:
        raise ValueError(f"the model lacks tensor '{missing[0]}' of the problem")
    return [named[name] for name in problem.tensor_names]


def _early(
    graph: ir.Graph, kernels: Sequence[tuple[ir.Node, ...]], constants: set[ir.Value]
) -> list[int]:
    """Kernels of constant ops, by their place in the graph."""
    place = {node: position for position, node in enumerate(graph)}
    early = [
        index
        for index, kernel in enumerate(kernels)
        if all(value in constants for node in kernel for value in node.outputs)
    ]
    return sorted(early, key=lambda index: place[kernels[index][0]])


MAX_OPTIONS = 10
"""Results of one clone that may or may not be read; there is a time for each set of them."""


@dataclass(frozen=True)
class KernelTimes:
    """Seconds of K kernels.

    Attributes:
        seconds: `[K]`; 0 where there are options.
        options: `[K]`, the values of `ProblemTables.option_values`.
        option_begin: `[K]`, as in `ProblemTables`.
        option_seconds: as `ProblemTables.option_s`.
    """

    seconds: list[float]
    options: list[list[ir.Value]]
    option_begin: list[int]
    option_seconds: list[float]


def kernel_times(
    model: CostModel,
    kernels: Sequence[tuple[ir.Node, ...]],
    reads: Sequence[Sequence[ir.Value]],
    clonable: Sequence[bool],
) -> KernelTimes:
    """The time of each kernel on the reference chip.

    Args:
        model: gives durations on a chip of speed 1.
        kernels: their ops.
        reads: operands of each op, kernel by kernel.
        clonable: `[K]`, whether a kernel is copied to the chips that read it.

    Raises:
        ValueError: if a clone has more than `MAX_OPTIONS` results.
    """
    kernel_of = {v: k for k, nodes in enumerate(kernels) for node in nodes for v in node.outputs}
    readers = (k for k, nodes in enumerate(kernels) for _ in nodes)
    outside = {
        value
        for kernel, operands in zip(readers, reads, strict=True)
        for value in operands
        if kernel_of.get(value, kernel) != kernel
    }
    times = KernelTimes([], [], [], [])
    for nodes, cloned in zip(kernels, clonable, strict=True):
        leaving = [
            value
            for node in nodes
            for value in node.outputs
            if value.is_graph_output() or value in outside
        ]
        options = leaving if cloned and len(nodes) > 1 and len(leaving) > 1 else []
        times.options.append(options)
        if not options:
            times.option_begin.append(-1)
            # What the host runs is no clone, and may hold subgraphs, whose reads are no uses here.
            times.seconds.append(
                model.group_cost(nodes).seconds
                if runs_on_host(model, nodes)
                else _kernel_seconds(model, nodes, leaving)
            )
            continue
        if len(options) > MAX_OPTIONS:
            raise ValueError(f"clones have at most {MAX_OPTIONS} results, and not {len(options)}")
        times.option_begin.append(len(times.option_seconds))
        times.seconds.append(0.0)
        for chosen in range(1 << len(options)):
            left = [value for bit, value in enumerate(options) if chosen >> bit & 1]
            times.option_seconds.append(_kernel_seconds(model, nodes, left))
    return times


def _kernel_seconds(
    model: CostModel, nodes: Sequence[ir.Node], leaving: Sequence[ir.Value]
) -> float:
    """Seconds of `nodes` as one kernel of which only `leaving` is used outside."""
    members = set(nodes)
    used = {value for node in nodes for value in node.outputs if leaves(value, members)}
    if len(nodes) == 1 or used == set(leaving):
        return model.group_cost(nodes).seconds
    value_of: dict[ir.Value, ir.Value] = {}
    copies: list[ir.Node] = []
    for node in nodes:
        value_of.update((v, _stand_in(v)) for v in node.inputs if v and v not in value_of)
        copies.append(copy_node(node, value_of, node.name or ""))
        value_of.update(zip(node.outputs, copies[-1].outputs, strict=True))
    # Being an output of the graph is what makes a value leave.
    graph = ir.Graph([], [value_of[value] for value in leaving], nodes=copies, name="kernel")
    return model.group_cost(tuple(graph)).seconds


def _stand_in(value: ir.Value) -> ir.Value:
    """A value like `value`, so that the graph's own gains no reader."""
    return ir.Value(
        name=value.name, type=value.type, shape=value.shape, const_value=value.const_value
    )
