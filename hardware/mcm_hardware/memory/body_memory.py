"""SRAM for what the bodies of `If`, `Loop`, `Scan` and `SequenceMap` compute on their way.

Weights of bodies are weights of the chip (`chip_dataflow`). Activations of a body are held while
its op runs, in one buffer of the op; within it they have addresses as a chip's activations have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from mcm_compiler.graph.constants import consumed_values, subgraphs
from mcm_hardware.chip.chip_dataflow import ChipDataflow, KernelNodes
from mcm_hardware.chip.chip_spec import ChipSpec
from mcm_hardware.chip.kernel_work import is_view
from mcm_hardware.memory.activation_plan import buffer_bytes
from mcm_hardware.memory.offset_assignment import plan_offsets

SCRATCH = "/body"
"""Behind the name of an op: the buffer in which its bodies compute."""


def with_body_memory(
    flow: ChipDataflow,
    spec: ChipSpec,
    on_host: Callable[[KernelNodes], bool] | None = None,
) -> ChipDataflow:
    """The tensors of a chip with one more for each op that has bodies: what those need next to it.

    Args:
        flow: tensors of the chip.
        spec: the chip.
        on_host: as `chip_dataflow`; what the host runs needs nothing here.
    """
    writer = dict(flow.writer)
    for position, kernel in enumerate(flow.kernels):
        if on_host is not None and on_host(kernel):
            continue
        for node in kernel.nodes:
            if node.attributes and (scratch := body_scratch(node, spec)) is not None:
                writer[scratch] = position
    return flow if len(writer) == len(flow.writer) else replace(flow, writer=writer)


def body_scratch(node: ir.Node, spec: ChipSpec) -> ir.Value | None:
    """A stand-in for the memory that the bodies of `node` compute in; None where they need none.

    It is a tensor of bytes that no op reads, so that a plan holds it while the op runs.
    """
    size = body_bytes(node, spec)
    if size == 0:
        return None
    bits = spec.storage.element_bits(ir.DataType.UINT8)
    return ir.Value(
        name=f"{node.name}{SCRATCH}",
        type=ir.TensorType(ir.DataType.UINT8),
        shape=ir.Shape([-(-size * 8 // bits)]),
    )


def body_bytes(node: ir.Node, spec: ChipSpec) -> int:
    """SRAM of the body of `node` that needs most; of several one runs, the branches of an `If`.

    What a branch of an `If` returns is written where the op's own outputs lie. What a loop's body
    takes and returns (its state, slices) is in the body, until its last reader and to the end.
    """
    returned = node.op_type == "If"
    return max((_graph_bytes(graph, returned, spec) for graph in subgraphs(node)), default=0)


def _graph_bytes(graph: ir.Graph, returned: bool, spec: ChipSpec) -> int:
    """End of the highest buffer of one body; ops run in their order, views share memory."""
    root: dict[ir.Value, ir.Value] = {}
    first: dict[ir.Value, int] = dict.fromkeys(graph.inputs, 0)
    last: dict[ir.Value, int] = {}
    inner: list[tuple[int, int]] = []
    nodes = list(graph)
    for position, node in enumerate(nodes):
        for value in consumed_values(node):
            last[root.get(value, value)] = position
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
            continue  # a weight
        if is_view(node) and node.inputs[0] is not None:
            source = node.inputs[0]
            root[node.outputs[0]] = root.get(source, source)
            continue
        for value in node.outputs:
            if value.name or value.uses():
                first[value] = position
        if node.attributes and (size := body_bytes(node, spec)):
            inner.append((position, size))
    end = max(len(nodes) - 1, 0)
    results = {root.get(value, value) for value in graph.outputs}
    held = [value for value in first if not (returned and value in results)]
    sizes = [buffer_bytes(spec, spec.storage.value_bytes(value)) for value in held]
    begins = [first[value] for value in held]
    ends = [end if value in results else max(last.get(value, 0), first[value]) for value in held]
    for position, size in inner:
        sizes.append(size)
        begins.append(position)
        ends.append(position)
    if not any(sizes):
        return 0
    _, high_water = plan_offsets(
        np.array(sizes, np.int64), np.array(begins, np.int64), np.array(ends, np.int64), 0
    )
    return int(high_water)
