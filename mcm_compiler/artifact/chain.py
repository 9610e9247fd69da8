"""Running the chips of a compiled model one after another, as the package would."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx_ir as ir

from mcm_compiler.artifact import layout
from mcm_compiler.artifact.manifest import TensorEntry
from mcm_compiler.contracts.chips import dataflow_order, pieces_of, with_state_wires
from mcm_compiler.contracts.sharding.sharding import HostJoin, host_joins
from mcm_compiler.contracts.target import HOST, ChipState, Wire
from mcm_compiler.contracts.verification import ClassRuns
from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.equivalence.values.value_numbers import static_shape
from mcm_compiler.execution.piecewise import open_large, run_large
from mcm_compiler.execution.runner import run_batches, run_steps
from mcm_compiler.graph.rounds import class_name

ChipFiles = Sequence[int] | Mapping[int, str]
"""Chips, or chips and the names of the files that hold their models."""

RunChip = Callable[[int, Path, list[dict[str, Any]]], Sequence[Mapping[str, Any]]]
"""Outputs of a chip, by its number and the file of its model, for each batch of its inputs."""


def run_chain(
    folder: Path,
    chips: ChipFiles,
    wires: Sequence[Wire],
    outputs: Sequence[str],
    batches: Sequence[Mapping[str, Any]],
    *,
    stock: bool | RunChip = False,
    states: Sequence[ChipState] = (),
    classes: int | ClassRuns = 1,
) -> list[dict[str, Any]]:
    """Runs each chip's model for each batch of inputs, handing tensors on by the wires alone.

    A chip sees only tensors that a wire brings to it, so that a wrong wire shows as a missing or
    wrong tensor.

    Args:
        folder: holds the models.
        chips: used chips, with the names of their files where these are not `layout.chip_file`.
        wires: all tensors that travel.
        outputs: graph outputs to return.
        batches: graph inputs by name, one mapping per inference.
        stock: whether onnxruntime's own session options are taken; or what runs a chip's model
            instead of onnxruntime.
        states: with which the batches are successive steps of one sequence. A chip takes its pasts
            from the first batch, and then from what it made in the step before; see `fed_back`.
        classes: inferences of a round: batch i is one of class i modulo their number. The last
            round is filled up with batches from the first on.
            Of `ClassRuns` they are dealt out to its classes, and the others do not run.

    Returns:
        Graph outputs by name, one mapping per inference.

    Raises:
        CompileError: MCM-V003 where a wire carries a tensor that its source does not have, or an
            output or a piece of one does not arrive; MCM-V001 and MCM-V002 from the runtime.
    """
    if classes != 1:
        part = classes if isinstance(classes, ClassRuns) else None
        dealt = part.classes if part else range(cast("int", classes))
        names = [class_name(name, k) for k in dealt for name in outputs]
        rounds = in_rounds(batches, dealt)
        if part is not None:
            wires = [wire for wire in wires if (wire.source, wire.tensor) in part.tensors]
        made = _run(folder, chips, wires, names, rounds, stock=stock, part=part is not None)
        places = [(i // len(dealt), dealt[i % len(dealt)]) for i in range(len(batches))]
        return [{name: made[i][class_name(name, k)] for name in outputs} for i, k in places]
    return _run(folder, chips, wires, outputs, batches, stock=stock, states=states)


def in_rounds(batches: Sequence[Mapping[str, Any]], classes: Sequence[int]) -> list[dict[str, Any]]:
    """Inputs of rounds, whose classes take batches in turn."""
    return [
        {
            class_name(name, k): array
            for at, k in enumerate(classes, first)
            for name, array in batches[at % len(batches)].items()
        }
        for first in range(0, len(batches), len(classes))
    ]


def _run(
    folder: Path,
    chips: ChipFiles,
    wires: Sequence[Wire],
    outputs: Sequence[str],
    batches: Sequence[Mapping[str, Any]],
    *,
    stock: bool | RunChip,
    states: Sequence[ChipState] = (),
    part: bool = False,
) -> list[dict[str, Any]]:
    inboxes: list[dict[int, dict[str, Any]]] = [{HOST: {}} for _ in batches]
    for inbox, feeds in zip(inboxes, batches, strict=True):
        _deliver(HOST, {**feeds, **cut_inputs(feeds, wires)}, wires, inbox)
    everything = with_state_wires(wires, states)
    if batches:
        first = {**batches[0], **cut_inputs(batches[0], everything)}
        for state in states:
            inboxes[0].setdefault(state.chip, {})[state.past] = first[state.past]
    files = chips if isinstance(chips, Mapping) else {c: layout.chip_file(c) for c in chips}
    for chip in dataflow_order(tuple(files), wires):
        name = files[chip]
        received = [inbox.pop(chip, {}) for inbox in inboxes]
        own = [state for state in states if state.chip == chip]
        sent = {w.tensor for w in wires if w.source == chip} if part else None
        if part and not sent:
            continue
        if callable(stock):
            made = stock(chip, folder / name, received)
        elif own:
            made = run_steps(folder / name, received, own, stock=stock)
        elif stock:
            made = run_batches(folder / name, received, stock=True)
        else:
            made = run_large(open_large(folder / name, sent), received, place=name)
        for inbox, tensors in zip(inboxes, made, strict=True):
            _deliver(chip, tensors, wires, inbox)
            inbox[HOST].update((state.present, tensors[state.present]) for state in own)
    results: list[dict[str, Any]] = []
    for inbox in inboxes:
        put_together(inbox[HOST], everything)
        missing = [name for name in outputs if name not in inbox[HOST]]
        if missing:
            raise CompileError.of(
                "MCM-V003",
                f"the output {quote(missing[0])} reaches no host wire",
                at=f"output {quote(missing[0])}",
            )
        results.append({name: inbox[HOST][name] for name in outputs})
    return results


def _deliver(
    source: int, tensors: Mapping[str, Any], wires: Sequence[Wire], inbox: dict[int, dict[str, Any]]
) -> None:
    for wire in wires:
        if wire.source != source:
            continue
        if wire.tensor not in tensors:
            where = "the host" if source == HOST else f"chip {source}"
            raise CompileError.of(
                "MCM-V003",
                f"a wire takes {quote(wire.tensor)} from {where}, which does not have it",
                at=f"wire {quote(wire.tensor)}",
            )
        for destination in wire.destinations:
            inbox.setdefault(destination, {})[wire.tensor] = tensors[wire.tensor]


def cut_inputs(feeds: Mapping[str, Any], wires: Sequence[Wire]) -> dict[str, Any]:
    """The pieces that inputs are taken apart into."""
    return {
        tensor: np.ascontiguousarray(
            feeds[part.output].take(range(part.start, part.stop), part.axis)
        )
        for tensor, part in pieces_of(wires, inputs=True).items()
    }


MAX_DEPTH = 2
"""Joins that lead to a graph output: of rows, and of columns."""


def in_pieces(
    ends: Sequence[TensorEntry], wires: Sequence[Wire], *, inputs: bool = False
) -> set[str]:
    """Tensors that arrive at the host or leave it: each of `ends`, or its pieces."""
    pieces = pieces_of(wires, inputs=inputs)
    joined = {part.graph_output for part in pieces.values()}
    return ({entry.name for entry in ends} - joined) | pieces.keys()


def faults_of_parts(
    outputs: Sequence[TensorEntry],
    wires: Sequence[Wire],
    sent: Mapping[int, Mapping[str, ir.Value]],
    *,
    inputs: bool = False,
) -> Iterator[tuple[str, str]]:
    """Faults in how pieces make up outputs: `(tensor, what)`.

    Each piece goes from its chip to the host alone and has as many elements as its place, or from
    the host to one chip. Those of one output or input agree on axis and shape, and lie one behind
    the other without a gap.

    Args:
        outputs: of the model.
        wires: all tensors that travel.
        sent: outputs of each chip's model by name.
        inputs: whether `outputs` and `sent` are inputs instead.
    """
    shapes = {entry.name: entry.shape for entry in outputs}
    pieces = pieces_of(wires, inputs=inputs)
    for wire in wires:
        if wire.tensor not in pieces or (part := wire.part) is None:
            continue
        if not inputs and wire.destinations != (HOST,):
            yield wire.tensor, "gets a piece of an output that no chip sends there alone"
        if part.depth > (1 if inputs else MAX_DEPTH):
            yield wire.tensor, f"has a place {part.depth} joins deep"
            return
        value = sent.get(wire.destinations[0] if inputs else wire.source, {}).get(wire.tensor)
        held = None if value is None else static_shape(value)
        if value is not None and (held is None or math.prod(held) != math.prod(part.piece_shape)):
            yield wire.tensor, f"has a place of {list(part.piece_shape)} for {value}"
    for join in host_joins(pieces.items()):
        yield from _faults_of_join(join, shapes)


def _faults_of_join(
    join: HostJoin, shapes: Mapping[str, tuple[int, ...] | None]
) -> Iterator[tuple[str, str]]:
    first = join.pieces[0][1]
    if first.axis >= len(first.shape):
        yield join.output, f"has no axis {first.axis} in {list(first.shape)}"
        return
    if first.within is None and shapes.get(join.output) != first.shape:
        yield join.output, f"knows no tensor of the shape {list(first.shape)} by that name"
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
    for join in host_joins(pieces_of(wires).items()):
        arrays: list[np.ndarray] = []
        for tensor, part in join.pieces:
            array = tensors.get(tensor)
            if not isinstance(array, np.ndarray) or math.prod(part.piece_shape) != array.size:
                raise CompileError.of(
                    "MCM-V003",
                    f"the piece {quote(tensor)} of the output {quote(join.output)} does not "
                    "fit its place",
                    at=f"output {quote(join.output)}",
                )
            arrays.append(array.reshape(part.piece_shape))
        tensors[join.output] = np.concatenate(arrays, axis=join.pieces[0][1].axis)
