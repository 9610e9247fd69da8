"""Outputs that leave in pieces: what the host does with what arrives."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import onnx_ir as ir

from mcm_compiler.artifact.manifest import TensorEntry
from mcm_compiler.contracts.sharding.output_parts import OutputPart
from mcm_compiler.contracts.target import HOST, Wire
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.equivalence.values.node_facts import static_shape


def parts_by_output(wires: Sequence[Wire]) -> dict[str, list[tuple[str, OutputPart]]]:
    """The pieces of each output that leaves in pieces, with their tensors, in order of place."""
    found = sorted(
        ((wire.tensor, wire.part) for wire in wires if wire.part is not None),
        key=lambda pair: (pair[1].output, pair[1].start),
    )
    return {name: list(rows) for name, rows in groupby(found, key=lambda pair: pair[1].output)}


def in_pieces(outputs: Sequence[TensorEntry], wires: Sequence[Wire]) -> set[str]:
    """What arrives at the host: each output, or the pieces that it leaves in."""
    pieces = parts_by_output(wires)
    whole = {entry.name for entry in outputs} - pieces.keys()
    return whole | {tensor for found in pieces.values() for tensor, _ in found}


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
        if wire.part is None:
            continue
        if wire.destinations != (HOST,) or wire.source == HOST:
            yield wire.tensor, "gets a piece of an output that no chip sends there alone"
        if wire.part.output not in shapes or shapes[wire.part.output] != wire.part.shape:
            yield wire.tensor, f"knows no output {quote(wire.part.output)} of the piece's shape"
        elif wire.part.axis >= len(wire.part.shape):
            yield wire.tensor, f"has no axis {wire.part.axis} in {list(wire.part.shape)}"
        elif (value := sent.get(wire.source, {}).get(wire.tensor)) is not None:
            held = static_shape(value)
            if held is None or math.prod(held) != math.prod(wire.part.piece_shape):
                yield wire.tensor, f"has a place of {list(wire.part.piece_shape)} for {value}"
    for pieces in parts_by_output(wires).values():
        first = pieces[0][1]
        at = 0
        for tensor, part in pieces:
            if (part.axis, part.shape) != (first.axis, first.shape):
                yield tensor, "is told another axis or shape than for the pieces beside it"
            elif part.start != at or part.stop <= part.start:
                yield tensor, f"puts it from {part.start:,} to {part.stop:,}, where {at:,} is next"
            at = part.stop
        if first.axis < len(first.shape) and at != first.shape[first.axis]:
            extent = first.shape[first.axis]
            yield pieces[-1][0], f"gets pieces up to {at:,} of {extent:,} along axis {first.axis}"


def put_together(tensors: MutableMapping[str, Any], wires: Sequence[Wire]) -> None:
    """Adds each output of which the pieces have arrived, every piece written to its place.

    Args:
        tensors: what arrived at the host, by name.
        wires: all tensors that travel.

    Raises:
        CompileError: MCM-V003 where a piece is missing, or does not fit its place.
    """
    for output, pieces in parts_by_output(wires).items():
        _, first = pieces[0]
        found = [tensors.get(tensor) for tensor, _ in pieces]
        for (tensor, part), array in zip(pieces, found, strict=True):
            if not isinstance(array, np.ndarray) or math.prod(part.piece_shape) != array.size:
                raise CompileError(
                    Diagnostic(
                        "MCM-V003",
                        f"the piece {quote(tensor)} of the output {quote(output)} does not fit "
                        "its place",
                        at=f"output {quote(output)}",
                        hint="the folder was changed; compile again",
                    )
                )
        arrays = [
            array.reshape(part.piece_shape)
            for array, (_, part) in zip(found, pieces, strict=True)
            if array is not None
        ]
        tensors[output] = np.concatenate(arrays, axis=first.axis)
