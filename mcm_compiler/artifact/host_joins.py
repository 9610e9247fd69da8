"""Outputs that leave in pieces: what the host does with what arrives."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from mcm_compiler.artifact.manifest import TensorEntry
from mcm_compiler.contracts.sharding.output_parts import HostJoin, host_joins
from mcm_compiler.contracts.target import HOST, Wire
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.equivalence.values.node_facts import static_shape

MAX_DEPTH = 2
"""Joins that lead to a graph output: of rows, and of columns."""


def joins_of(wires: Sequence[Wire]) -> list[HostJoin]:
    """What the host puts together; see `host_joins`."""
    return host_joins((wire.tensor, wire.part) for wire in wires if wire.part is not None)


def in_pieces(outputs: Sequence[TensorEntry], wires: Sequence[Wire]) -> set[str]:
    """What arrives at the host: each output, or the pieces that it leaves in."""
    pieces = {wire.tensor: wire.part for wire in wires if wire.part is not None}
    joined = {part.graph_output for part in pieces.values()}
    return ({entry.name for entry in outputs} - joined) | pieces.keys()


def faults_of_parts(
    outputs: Sequence[TensorEntry],
    wires: Sequence[Wire],
    sent: Mapping[int, Mapping[str, ir.Value]],
) -> Iterator[tuple[str, str]]:
    """What is wrong with how pieces make up outputs: `(tensor, what)`.

    Each piece goes from its chip to the host alone and has as many elements as its place. Those of
    one output agree on axis and shape, and lie one behind the other without a gap.

    Args:
        outputs: of the model.
        wires: all tensors that travel.
        sent: outputs of each chip's model by name.
    """
    shapes = {entry.name: entry.shape for entry in outputs}
    for wire in wires:
        part = wire.part
        if part is None:
            continue
        if wire.destinations != (HOST,) or wire.source == HOST:
            yield wire.tensor, "gets a piece of an output that no chip sends there alone"
        if part.depth > MAX_DEPTH:
            yield wire.tensor, f"has a place {part.depth} joins deep"
            return
        value = sent.get(wire.source, {}).get(wire.tensor)
        held = None if value is None else static_shape(value)
        if value is not None and (held is None or math.prod(held) != math.prod(part.piece_shape)):
            yield wire.tensor, f"has a place of {list(part.piece_shape)} for {value}"
    for join in joins_of(wires):
        yield from _faults_of_join(join, shapes)


def _faults_of_join(
    join: HostJoin, shapes: Mapping[str, tuple[int, ...] | None]
) -> Iterator[tuple[str, str]]:
    first = join.pieces[0][1]
    if first.axis >= len(first.shape):
        yield join.output, f"has no axis {first.axis} in {list(first.shape)}"
        return
    if first.within is None and shapes.get(join.output) != first.shape:
        yield join.output, f"knows no output of the shape {list(first.shape)} by that name"
    if first.within is not None and math.prod(first.shape) != math.prod(first.within.piece_shape):
        yield join.output, f"has a place of {list(first.within.piece_shape)} for {first.shape}"
    at = 0
    for tensor, part in join.pieces:
        if (part.axis, part.shape, part.within) != (first.axis, first.shape, first.within):
            yield tensor, "has another axis or shape than the pieces next to it"
        elif part.start != at or part.stop <= part.start:
            yield tensor, f"puts it from {part.start:,} to {part.stop:,}, where {at:,} is next"
        at = part.stop
    if at != first.shape[first.axis]:
        extent = first.shape[first.axis]
        yield join.output, f"gets pieces up to {at:,} of {extent:,} along axis {first.axis}"


def put_together(tensors: MutableMapping[str, Any], wires: Sequence[Wire]) -> None:
    """Adds each output of which the pieces have arrived, every piece written to its place.

    Args:
        tensors: what arrived at the host, by name.
        wires: all tensors that travel.

    Raises:
        CompileError: MCM-V003 where a piece is missing, or does not fit its place.
    """
    for join in joins_of(wires):
        arrays: list[np.ndarray] = []
        for tensor, part in join.pieces:
            array = tensors.get(tensor)
            if not isinstance(array, np.ndarray) or math.prod(part.piece_shape) != array.size:
                raise CompileError(
                    Diagnostic(
                        "MCM-V003",
                        f"the piece {quote(tensor)} of the output {quote(join.output)} does not "
                        "fit its place",
                        at=f"output {quote(join.output)}",
                        hint="the folder was changed; compile again",
                    )
                )
            arrays.append(array.reshape(part.piece_shape))
        tensors[join.output] = np.concatenate(arrays, axis=join.pieces[0][1].axis)
