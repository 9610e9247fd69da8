"""Outputs that leave in pieces, where no chip has room to put them together."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from mcm_compiler.contracts.sharding.sharding import OutputPart
from mcm_compiler.contracts.target import PackageLimits
from mcm_compiler.diagnostics import Diagnostic, Severity, quote
from mcm_compiler.graph.constants import constant_values
from mcm_compiler.ir.rewriting.naming import UnusedNames
from mcm_compiler.text.units import bytes_text
from mcm_passes.parallelism.oversized.unused_values import drop_unused
from mcm_passes.parallelism.oversized.weight_cuts import static_shape

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
        severity=Severity.NOTE,
    )
