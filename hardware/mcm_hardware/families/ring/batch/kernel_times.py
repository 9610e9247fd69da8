"""Durations of a problem's kernels on the reference chip, before any partition is known.

A kernel writes to SRAM what leaves it. For a kernel that is on one chip this does not depend on
the partition: whoever reads a result, here or elsewhere, it leaves the kernel. Of a clone, each
chip has only the readers that are on it, so that a clone with several results has a time for each
set of results that are read. Single ops write all that they make.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from mcm_compiler.components.op_support import runs_on_host
from mcm_compiler.contracts.cost import CostModel
from mcm_compiler.graph.constants import leaves
from mcm_compiler.ir.rewriting.node_copying import copy_node

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


def relay_seconds(model: CostModel, values: Sequence[ir.Value]) -> list[float]:
    """Seconds of an Identity of each value, priced once per type and shape."""
    known: dict[str, float] = {}
    seconds: list[float] = []
    for value in values:
        key = f"{value.type}{value.shape}"
        if key not in known:
            # Without a name, so that no time is taken that was measured of an op of the model.
            relay = ir.Node("", "Identity", [_stand_in(value)], name="")
            relay.outputs[0].type, relay.outputs[0].shape = value.type, value.shape
            known[key] = model.group_cost((relay,)).seconds
        seconds.append(known[key])
    return seconds


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
