"""Outputs that leave in pieces, where no chip has space to put them together.

All cuts are along an output dimension: the pieces compute disjoint parts of the output, each by
the sums of the whole operator, and a `Concat` puts them together.

Bit-identical equality needs more, because a matrix product's order of summation depends on its
shape in onnxruntime's kernels (MLAS, without pre-packing). With up to 64 columns for a thread it
sums twice as many terms before it adds them to the result, so that pieces keep `MIN_COLUMNS`.
A convolution with more filters than output positions expands its input at once, others segment by
segment, so that pieces stay on the side of the whole. Both were found by experiment.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from mcm_compiler.contracts.sharding.sharding import OutputPart
from mcm_compiler.contracts.target import PackageLimits
from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.graph.constants import constant_values
from mcm_compiler.graph.static_shapes import static_dims
from mcm_compiler.ir.rewriting.naming import UnusedNames
from mcm_compiler.text.units import bytes_text
from mcm_passes.parallelism.oversized.graph_edits import drop_unused
from mcm_passes.parallelism.oversized.weight_slices import block_along

VIEWS = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""Ops that give the same elements another shape."""


@dataclass(frozen=True)
class JoinedOutput:
    """A graph output that a `Concat` puts together, and perhaps views after it.

    Attributes:
        concat: puts the pieces together.
        output: the graph output.
        parts: the place of each operand of `concat` in the output.
    """

    concat: ir.Node
    output: ir.Value
    parts: tuple[OutputPart, ...]


def output_behind(
    graph: ir.Graph, value: ir.Value, constants: Container[ir.Value]
) -> ir.Value | None:
    """The graph output that `value` is or becomes over views alone, which nothing else reads."""
    while not value.is_graph_output():
        uses = tuple(value.uses())
        if len(uses) != 1 or uses[0].node.domain not in ("", "ai.onnx"):
            return None
        reader = uses[0].node
        if reader.op_type not in VIEWS or uses[0].idx or reader.graph is not graph:
            return None
        if any(operand is not None and operand not in constants for operand in reader.inputs[1:]):
            return None
        value = reader.outputs[0]
    return None if tuple(value.uses()) else value


def joined_output(graph: ir.Graph, concat: ir.Node) -> JoinedOutput | None:
    """The graph output that `concat` makes and nothing else reads, or None.

    The way from one to the other may lead over views, as long as every piece is a range of indices
    along one axis of the output, too.

    Args:
        graph: whose outputs are meant.
        concat: a `Concat` of values of static shapes.
    """
    constants = constant_values(graph)
    output, pieces = output_behind(graph, concat.outputs[0], constants), list(concat.inputs)
    if output is None or len(set(pieces)) < len(pieces):
        return None
    if any(piece is None or piece in constants or not _is_inner(piece) for piece in pieces):
        return None
    parts = _places(concat, output)
    return None if parts is None else JoinedOutput(concat, output, parts)


def _is_inner(value: ir.Value) -> bool:
    return value.producer() is not None and not value.is_graph_output()


def _places(concat: ir.Node, output: ir.Value) -> tuple[OutputPart, ...] | None:
    made, whole = static_shape(concat.outputs[0]), static_shape(output)
    shapes = [static_shape(piece) for piece in concat.inputs]
    if not made or not whole or 0 in made:
        return None
    axis = concat.attributes.get_int("axis", 0) % len(made)
    before, after = math.prod(made[:axis]), math.prod(made[axis + 1 :])
    found = next(
        (at for at, extent in enumerate(whole) if extent > 1 and math.prod(whole[:at]) == before),
        None,
    )
    if found is None:
        return None
    unit = math.prod(whole[found + 1 :])
    parts: list[OutputPart] = []
    start = 0
    for shape in shapes:
        if shape is None or shape[axis] * after % unit:
            return None
        stop = start + shape[axis] * after // unit
        parts.append(OutputPart(output.name or "", found, start, stop, whole))
        start = stop
    return tuple(parts)


def leave_in_pieces(graph: ir.Graph, joined: JoinedOutput) -> dict[str, OutputPart]:
    """Makes the pieces graph outputs in place of the whole, which is no longer put together.

    They are named after the output: `logits/part_0` and so on.

    Returns:
        The place of each piece by the name of its tensor.
    """
    pieces = [piece for piece in joined.concat.inputs if piece is not None]
    at = graph.outputs.index(joined.output)
    others = [value for value in graph.outputs if value is not joined.output]
    kept = sum(value is not joined.output for value in list(graph.outputs)[:at])
    graph.outputs.clear()
    graph.outputs.extend([*others[:kept], *pieces, *others[kept:]])
    drop_unused(graph, [joined.output])
    names = UnusedNames(graph)
    for index, piece in enumerate(pieces):
        piece.name = names.take(f"{joined.output.name}/part_{index}")
    return {piece.name or "": part for piece, part in zip(pieces, joined.parts, strict=True)}


def gather_bytes(sizes: Sequence[int], channel_slots: int) -> int:
    """SRAM of a chip that puts together pieces from other chips and sends the whole to the host.

    Args:
        sizes: bytes of the pieces.
        channel_slots: buffers of each tensor at its receiver, and at its sender.
    """
    return 2 * channel_slots * sum(sizes)


def pieces_note(parts: Sequence[OutputPart], limits: PackageLimits) -> Diagnostic:
    """MCM-P056: one output leaves in these parts."""
    first = parts[0]
    kind = "strided writes" if first.strided else "a stretch of its memory each"
    return Diagnostic(
        "MCM-P056",
        f"no chip of {bytes_text(max(limits.sram_bytes))} has room to put the output together: it "
        f"leaves in {len(parts)} pieces along axis {first.axis} of {list(first.shape)}, which the "
        f"host writes to their places ({kind})",
        at=f"output {quote(first.output)}",
    )


MIN_COLUMNS = 192
"""Columns of the smallest piece of a product: more than 64 for each of two threads."""

ALIGNMENT = 64
"""Pieces start at multiples of this, where the kernels' vector tails and threads start too."""


@dataclass(frozen=True)
class WeightCut:
    """How an operator is cut.

    Attributes:
        operand: index of the input that is the weight.
        axis: axis of the weight that is cut.
        output_axis: axis of the output that the pieces share.
        beside: `(operand, axis)` of inputs that are cut with the weight, some elements for each of
            its indices along `axis`.
        min_extent: smallest extent of a piece along `axis` that keeps all bits.
        attribute: name of the one that is the extent of the piece, or "".
        unit: pieces begin and end at multiples of this along `axis`.
    """

    operand: int
    axis: int
    output_axis: int
    beside: tuple[tuple[int, int], ...]
    min_extent: int
    attribute: str = ""
    unit: int = 1

    def bounds(self, extent: int, pieces: int) -> list[tuple[int, int]]:
        """As `piece_bounds`, in whole units."""
        found = piece_bounds(extent // self.unit, pieces)
        return [(start * self.unit, stop * self.unit) for start, stop in found]


def weight_cut(node: ir.Node) -> WeightCut | None:
    """The cut of `node`, or None where its operator or its shapes allow none."""
    if node.domain == "com.microsoft":
        own = {"MatMulNBits": _blocked_matmul, "GatherBlockQuantized": _gather_blocks}
        return own[node.op_type](node) if node.op_type in own else None
    if node.domain not in ("", "ai.onnx"):
        return None
    match node.op_type:
        case "MatMul":
            return _matmul(node)
        case "Gemm":
            return _gemm(node)
        case "Gather":
            return _gather(node)
        case "Conv":
            return _conv(node)
        case _:
            return None


def piece_bounds(extent: int, pieces: int) -> list[tuple[int, int]]:
    """Cuts `range(extent)` in pieces of nearly equal size, at multiples of 64 where they allow it.

    Args:
        extent: at least `pieces`.
        pieces: number of pieces, at least 1.

    Returns:
        `(start, stop)` of each piece.
    """
    unit = ALIGNMENT if extent >= ALIGNMENT * pieces else 1
    blocks, larger = divmod(-(-extent // unit), pieces)
    bounds: list[tuple[int, int]] = []
    start = 0
    for piece in range(pieces):
        stop = min(extent, start + unit * (blocks + (piece < larger)))
        bounds.append((start, stop))
        start = stop
    return bounds


def static_shape(value: ir.Value | None) -> tuple[int, ...] | None:
    """The shape of `value` where it is fully known."""
    return None if value is None else static_dims(value.shape)


def _matmul(node: ir.Node) -> WeightCut | None:
    weight, output = static_shape(node.inputs[1]), static_shape(node.outputs[0])
    if weight is None or output is None or len(weight) != 2 or not output:
        return None
    return WeightCut(1, 1, len(output) - 1, (), _min_columns(node))


def _blocked_matmul(node: ir.Node) -> WeightCut | None:
    weight, output = static_shape(node.inputs[1]), static_shape(node.outputs[0])
    if not weight or not output or weight[0] != output[-1]:
        return None
    given = [at for at in (2, 3, 5) if at < len(node.inputs) and node.inputs[at] is not None]
    return WeightCut(1, 0, len(output) - 1, tuple((at, 0) for at in given), MIN_COLUMNS, "N")


def _gemm(node: ir.Node) -> WeightCut | None:
    weight, output = static_shape(node.inputs[1]), static_shape(node.outputs[0])
    if weight is None or output is None:
        return None
    axis = 0 if node.attributes.get_int("transB", 0) else 1
    beside: tuple[tuple[int, int], ...] = ()
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        extents = static_shape(node.inputs[2])
        if extents is None:
            return None
        if extents and extents[-1] == weight[axis] > 1:
            beside = ((2, len(extents) - 1),)
    return WeightCut(1, axis, 1, beside, _min_columns(node))


def _gather(node: ir.Node) -> WeightCut | None:
    table_value = node.inputs[0]
    table, output = static_shape(table_value), static_shape(node.outputs[0])
    if table_value is None or table is None or output is None or len(table) < 2:
        return None
    if node.attributes.get_int("axis", 0) not in (0, -len(table)):
        return None
    unit = block_along(table_value, len(table) - 1)
    return WeightCut(0, len(table) - 1, len(output) - 1, (), 1, unit=unit)


def _gather_blocks(node: ir.Node) -> WeightCut | None:
    """Columns of a packed table, by blocks with a scale each; bytes may hold several elements."""
    table, output = static_shape(node.inputs[0]), static_shape(node.outputs[0])
    if table is None or output is None or len(table) != 2:
        return None
    if (
        node.attributes.get_int("gather_axis", 0)
        or node.attributes.get_int("quantize_axis", 1) != 1
    ):
        return None
    beside = [(at, static_shape(value)) for at, value in enumerate(node.inputs) if at > 1 and value]
    if any(shape is None or len(shape) != 2 for _, shape in beside):
        return None
    # Two zero points may share a byte: pieces have whole ones of all.
    blocks = math.gcd(table[1], *(shape[1] for _, shape in beside if shape))
    return WeightCut(
        0, 1, len(output) - 1, tuple((at, 1) for at, _ in beside), 1, "", table[1] // blocks
    )


def _conv(node: ir.Node) -> WeightCut | None:
    weight, output = static_shape(node.inputs[1]), static_shape(node.outputs[0])
    if weight is None or output is None or node.attributes.get_int("group", 1) != 1:
        return None
    beside = ((2, 0),) if len(node.inputs) > 2 and node.inputs[2] is not None else ()
    positions = math.prod(output[2:])
    least = positions + 1 if weight[0] > positions else 1
    return WeightCut(1, 0, 1, beside, max(least, ALIGNMENT))


def _min_columns(node: ir.Node) -> int:
    dtype = node.outputs[0].dtype
    return MIN_COLUMNS if dtype is None or dtype.is_floating_point() else 1
