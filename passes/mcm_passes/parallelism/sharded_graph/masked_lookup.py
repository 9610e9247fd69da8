"""A look-up in part of a table: rows that stand elsewhere give zeros, so that the parts add up.

This is how an embedding is divided along its vocabulary (Shoeybi et al. 2019, *Megatron-LM*,
section 3; Auto-MAP's `embedding=0`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from mcm_passes.parallelism.sharded_graph.new_ops import NewOps


@dataclass(frozen=True)
class TableRows:
    """Which rows of a table a shard has.

    Attributes:
        start: first row of each run.
        stop: one past the last.
        runs: in how many runs of equal extent the table is cut before; the shard has the same rows
            of each.
        extent: rows of the whole table.
    """

    start: int
    stop: int
    runs: int
    extent: int


def masked_lookup(
    make: NewOps,
    node: ir.Node,
    rows: ir.Value,
    indices: ir.Value,
    part: TableRows,
) -> ir.Value:
    """What a `Gather` finds in a part of a table, zeros elsewhere.

    Args:
        make: makes nodes.
        node: the `Gather` on the whole table.
        rows: the shard's rows.
        indices: of the whole table; negative ones count from its end.
        part: where they stand in the whole table.
    """
    result = node.outputs[0]
    assert result.shape is not None
    assert indices.shape is not None
    assert indices.dtype is not None
    kind, at = indices.dtype, tuple(indices.shape.numpy())
    number = indices.dtype.numpy()

    def whole_number(value: int, name: str) -> ir.Value:
        return make.constant(np.array(value, number), name)

    zero = whole_number(0, "zero")
    negative = make.op("Less", [indices, zero], [], ir.DataType.BOOL, at)
    from_end = make.op("Add", [indices, whole_number(part.extent, "rows")], [], kind, at)
    index = make.op("Where", [negative, from_end, indices], [], kind, at)
    before = None
    count = whole_number(part.stop - part.start, "count")
    if part.runs > 1:
        length = whole_number(part.extent // part.runs, "run")
        run = make.op("Div", [index, length], [], kind, at)
        before = make.op("Mul", [run, count], [], kind, at)
        index = make.op("Sub", [index, make.op("Mul", [run, length], [], kind, at)], [], kind, at)
    own = make.op("Sub", [index, whole_number(part.start, "start")], [], kind, at)
    high = make.op("Less", [own, count], [], ir.DataType.BOOL, at)
    low = make.op("Less", [own, zero], [], ir.DataType.BOOL, at)
    not_low = make.op("Not", [low], [], ir.DataType.BOOL, at)
    here = make.op("And", [high, not_low], [], ir.DataType.BOOL, at)
    if before is not None:
        own = make.op("Add", [own, before], [], kind, at)
    safe = make.op("Where", [here, own, zero], [], kind, at)
    shape = tuple(result.shape.numpy())
    found = make.op("Gather", [rows, safe], list(node.attributes.values()), result.dtype, shape)
    axis = node.attributes.get_int("axis", 0)
    axis += (len(shape) - len(at) + 1) if axis < 0 else 0
    behind = len(shape) - axis - len(at)
    mask = here
    if behind:
        # Reshape, because Unsqueeze takes its axes differently in old opsets.
        spread = (*at, *[1] * behind)
        axes = make.constant(np.array(spread, np.int64), "spread")
        mask = make.op("Reshape", [here, axes], [], ir.DataType.BOOL, spread)
    assert result.dtype is not None
    nothing = make.constant(np.array(0, result.dtype.numpy()), "nothing")
    return make.op("Where", [mask, found, nothing], [], result.dtype, shape)
