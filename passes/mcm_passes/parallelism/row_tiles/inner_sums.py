"""Products whose sums are cut, so that pieces of streamed weights have columns for the MAC array.

A piece of a few columns leaves most of the array idle. Where memory holds few columns of a long
product, its inner sum is cut, and the parts are added up.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.cost import CostModel
from mcm_compiler.contracts.target import PackageLimits
from mcm_compiler.graph.constants import constants_and_placeable
from mcm_compiler.ir.rewriting.naming import UnusedNames
from mcm_passes.parallelism.oversized import graph_edits, output_pieces
from mcm_passes.parallelism.oversized.oversized import FEW_COLUMNS, LIGHT, MOST_BESIDE_LIGHT
from mcm_passes.parallelism.oversized.weight_slices import Slice, WeightSlicer, can_slice
from mcm_passes.parallelism.sharded_graph.new_ops import NewOps

OPSET = 11
"""From which on a Gemm needs no bias, and slices take operands."""


def long_products(
    graph: ir.Graph, cost_model: CostModel, limits: PackageLimits
) -> list[tuple[ir.Node, int]]:
    """Products of little data whose sums are cut, each with the number of parts.

    Args:
        graph: whose weights are streamed.
        cost_model: of the chips.
        limits: of the package.
    """
    sram, found = max(limits.sram_bytes), list[tuple[ir.Node, int]]()
    if graph.opset_imports.get("", 1) < OPSET:
        return found
    constants, nodes = constants_and_placeable(graph)
    for node in nodes:
        cut = output_pieces.weight_cut(node) if node.op_type in ("Gemm", "MatMul") else None
        data, weight = node.inputs[0], node.inputs[1] if cut is not None else None
        if cut is None or weight is None or data is None or weight not in constants:
            continue
        made, inner = node.outputs[0], 1 - cut.axis
        used = cost_model.storage_bytes(data) + cost_model.storage_bytes(made)
        plain = not node.attributes.get_int("transA", 0) and can_slice(weight, inner)
        plain = plain and output_pieces.static_shape(data) is not None
        size = cost_model.storage_bytes(weight)
        if data in constants or not plain or used > LIGHT * sram or size <= sram:
            continue
        columns, extent = (graph_edits.fixed_shape(weight)[axis] for axis in (cut.axis, inner))
        each = size // columns
        least = math.ceil(min(FEW_COLUMNS[0], columns) * each / (MOST_BESIDE_LIGHT * sram))
        parts = next((n for n in range(least, extent + 1) if extent % n == 0), 1)
        if parts > 1:
            found.append((node, parts))
    return found


def cut_sum(graph: ir.Graph, node: ir.Node, parts: int) -> list[ir.Node]:
    """Replaces a product by parts of its sum, which are added up; returns the new ops."""
    names, cut = UnusedNames(graph), output_pieces.weight_cut(node)
    data, weight, made = node.inputs[0], node.inputs[1], node.outputs[0]
    assert cut is not None
    assert data is not None
    assert weight is not None
    new, slicer, inner = NewOps(graph, names), WeightSlicer(graph, names), 1 - cut.axis
    new.before, new.stem = node, node.name or ""
    shape, last = graph_edits.fixed_shape(data), len(graph_edits.fixed_shape(data)) - 1
    each, total = shape[last] // parts, None
    axes = new.constant(np.array([last], np.int64), "axes")
    for part in range(parts):
        own = Slice(last, part * each, (part + 1) * each)
        ends = [new.constant(np.array([at], np.int64), "bounds") for at in (own.start, own.stop)]
        taken = new.op("Slice", [data, *ends, axes], [], data.dtype, own.of_shape(shape))
        piece = slicer.part(weight, Slice(inner, own.start, own.stop), node)
        bias = [*node.inputs[2:]] if part == 0 else []
        name = names.take(f"{node.name}/sum_{part}")
        value = ir.val(names.take(f"{made.name}/sum_{part}"), shape=made.shape, type=made.type)
        new.insert(graph_edits.op_like(node, [taken, piece, *bias], [value], name))
        total = value if total is None else new.like("Add", [total, value])
    assert total is not None
    made.replace_all_uses_with(total, replace_graph_outputs=True)
    total.name, made.name = made.name, names.take(f"{made.name}/whole")
    operands = [value for value in node.inputs if value is not None]
    graph.remove(node, safe=True)
    graph_edits.drop_unused(graph, operands)
    return new.nodes
