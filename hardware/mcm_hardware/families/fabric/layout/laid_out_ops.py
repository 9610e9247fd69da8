"""Which ops of a graph some stage works for, wherever the graph is cut."""

from __future__ import annotations

import onnx_ir as ir

from mcm_compiler.graph.constants import consumed_values
from mcm_hardware.chip.kernel_work import formula_work
from mcm_hardware.families.fabric.layout.op_work import is_ready, may_read_in_place
from mcm_hardware.op_costs.elementwise import BY_SHAPES_ALONE
from mcm_hardware.op_costs.work import CONTROL_FLOW
from mcm_hardware.tensors.value_shapes import element_count


def laid_out_ops(graph: ir.Graph) -> list[ir.Node]:
    """The ops whose work is among what fabrics do for a sample, in graph order.

    Left out are those whose results are known before the first sample, and those of which nothing
    comes: no way of values with elements leads from them to an output. `StageBuilder` drops them,
    in the graph and in that of any chip: what crosses to another chip is an input there, which is
    not known before, and an output here.

    Args:
        graph: in topological order.
    """
    ready: set[ir.Value] = set(graph.initializers.values())
    active: list[ir.Node] = []
    for node in graph:
        if is_ready(node, consumed_values(node), ready):
            ready.update(node.outputs)
        else:
            active.append(node)
    needed = set(graph.outputs)
    kept: list[ir.Node] = []
    for node in reversed(active):
        if not needed.isdisjoint(node.outputs):
            kept.append(node)
            needed.update(_read_values(node))
    return kept[::-1]


def _read_values(node: ir.Node) -> list[ir.Value]:
    """Values of which an op surely reads an element."""
    if may_read_in_place(node) and not any(map(element_count, node.outputs)):
        return []
    part = _partly_read(node)
    first = {value: k for k, value in reversed(list(enumerate(node.inputs)))}
    return [
        value
        for value in consumed_values(node)
        if element_count(value) and part.get(first.get(value, -1), 1)
    ]


def _partly_read(node: ir.Node) -> dict[int, int]:
    """Elements that are read of inputs, by index, where that is not all of it once."""
    kind = (node.domain, node.op_type)
    if kind in BY_SHAPES_ALONE or kind in CONTROL_FLOW:
        return {}
    work = formula_work(node)
    return {} if work is None else dict(work.reads)
