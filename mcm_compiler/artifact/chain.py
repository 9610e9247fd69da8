"""Running the chips of a compiled model one after another, as the package would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mcm_compiler.artifact import layout
from mcm_compiler.artifact.host_joins import put_together
from mcm_compiler.contracts.chips import dataflow_order
from mcm_compiler.contracts.target import HOST, ChipState, Wire
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.execution.piecewise import open_large, run_large
from mcm_compiler.execution.runner import run_batches
from mcm_compiler.execution.steps import run_steps

ChipFiles = Sequence[int] | Mapping[int, str]
"""Chips, or chips and the names of the files that hold their models."""


def run_chain(
    folder: Path,
    chips: ChipFiles,
    wires: Sequence[Wire],
    outputs: Sequence[str],
    batches: Sequence[Mapping[str, Any]],
    *,
    stock: bool = False,
    states: Sequence[ChipState] = (),
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
        stock: whether onnxruntime's own session options are taken.
        states: with which the batches are successive steps of one sequence. A chip takes its pasts
            from the first batch, and then from what it made in the step before; see `fed_back`.

    Returns:
        Graph outputs by name, one mapping per inference.

    Raises:
        CompileError: MCM-V003 where a wire carries a tensor that its source does not have, or an
            output or a piece of one does not arrive; MCM-V001 and MCM-V002 from the runtime.
    """
    inboxes: list[dict[int, dict[str, Any]]] = [{HOST: {}} for _ in batches]
    for inbox, feeds in zip(inboxes, batches, strict=True):
        _deliver(HOST, feeds, wires, inbox)
    for state in states if batches else ():
        inboxes[0].setdefault(state.chip, {})[state.past] = batches[0][state.past]
    files = chips if isinstance(chips, Mapping) else {c: layout.chip_file(c) for c in chips}
    for chip in dataflow_order(tuple(files), wires):
        name = files[chip]
        received = [inbox.pop(chip, {}) for inbox in inboxes]
        own = [state for state in states if state.chip == chip]
        if own:
            made = run_steps(folder / name, received, own, stock=stock)
        elif stock:
            made = run_batches(folder / name, received, stock=True)
        else:
            made = run_large(open_large(folder / name), received, place=name)
        for inbox, tensors in zip(inboxes, made, strict=True):
            _deliver(chip, tensors, wires, inbox)
            inbox[HOST].update((state.present, tensors[state.present]) for state in own)
    results: list[dict[str, Any]] = []
    for inbox in inboxes:
        put_together(inbox[HOST], wires)
        missing = [name for name in outputs if name not in inbox[HOST]]
        if missing:
            raise CompileError(
                Diagnostic(
                    "MCM-V003",
                    f"the output {quote(missing[0])} reaches no host wire",
                    at=f"output {quote(missing[0])}",
                    hint="the folder was changed; compile again",
                )
            )
        results.append({name: inbox[HOST][name] for name in outputs})
    return results


def _deliver(
    source: int,
    tensors: Mapping[str, Any],
    wires: Sequence[Wire],
    inbox: dict[int, dict[str, Any]],
) -> None:
    for wire in wires:
        if wire.source != source:
            continue
        if wire.tensor not in tensors:
            where = "the host" if source == HOST else f"chip {source}"
            raise CompileError(
                Diagnostic(
                    "MCM-V003",
                    f"a wire takes {quote(wire.tensor)} from {where}, which does not have it",
                    at=f"wire {quote(wire.tensor)}",
                    hint="the folder was changed; compile again",
                )
            )
        for destination in wire.destinations:
            inbox.setdefault(destination, {})[wire.tensor] = tensors[wire.tensor]
