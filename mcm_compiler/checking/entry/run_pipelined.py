"""Running a compiled folder as a ring of processes on this machine, and what it measures."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from mcm_compiler.artifact import chain, layout
from mcm_compiler.checking.entry import gate, structure_check
from mcm_compiler.checking.entry.ring_times import ring_data
from mcm_compiler.checking.entry.run_folder import batches_of, chain_outputs, last_only, outputs_of
from mcm_compiler.contracts.target import HOST
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.equivalence.values.value_numbers import static_shape
from mcm_compiler.execution.inputs import random_batches
from mcm_compiler.execution.ring.cluster import run_on_cluster
from mcm_compiler.execution.ring.host import run_ring
from mcm_compiler.execution.ring.plan import (
    SLOTS,
    RingChip,
    RingFailure,
    RingPlan,
    RingResult,
    RingState,
    RingTensor,
)
from mcm_compiler.execution.ring.shared_memory import SharedPipeline
from mcm_compiler.execution.runner import max_abs_error, same_bits
from mcm_compiler.graph.rounds import class_name
from mcm_compiler.processes import run_limits
from mcm_compiler.processes.crash_journal import doing
from mcm_compiler.text.units import bytes_text, count_text

BLOCKS = 3
"""Blocks of a measurement: the fastest counts, and their spread is the repeat error."""

PATIENCE = 4
"""Times the limit of one run that a ring may make no progress for."""

LEAST_BLOCK = 10 * SLOTS
"""Rounds of a block. In a shorter one it matters how full the buffers are at its ends."""


@dataclass(frozen=True, eq=False)
class PipelinedRun:
    """Outputs and measurements of a ring of processes.

    Attributes:
        opened: the folder.
        outputs: as those of `run_folder`.
        data: the measurement as JSON-able data.
        notes: on what it does not measure.
    """

    opened: gate.OpenedFolder
    outputs: Mapping[str, Any]
    data: Mapping[str, Any]
    notes: tuple[Diagnostic, ...]


def run_pipelined(
    folder: Path | gate.OpenedFolder,
    inputs: Mapping[str, Any] | None,
    steps: int = 1,
    before: Mapping[str, Any] | None = None,
    *,
    inferences: int = BLOCKS * LEAST_BLOCK,
    scheduler: str | None = None,
) -> PipelinedRun:
    """Runs each chip of `folder` as a process that is pinned to a core.

    Inferences enter as fast as the chips take them. The chain of chips runs on the same inputs
    afterwards, under the same options of onnxruntime, for comparison.

    Args:
        folder: an output folder, whose structure is checked first; one that is open is taken as it
            is.
        inputs: as for `run_folder`; the ring takes them again from the first on. None for those
            of `random_batches`, or for the first of them in all steps.
        steps: as there.
        before: as there.
        inferences: that are measured; rounded up to whole blocks.
        scheduler: address of a Dask scheduler, whose workers run the chips instead.

    Raises:
        CompileError: as `run_folder` and `dask_client`; MCM-V080 for a folder that processes cannot
            run, MCM-V081 if one dies or hangs, MCM-V082 if outputs differ between rounds of equal
            inputs.
    """
    opened = folder
    if not isinstance(opened, gate.OpenedFolder):
        opened = gate.open_folder(opened, further=True)
        structure_check.check_structure(opened)
    given = [inputs] if inputs is not None else random_batches(opened.source)
    given = given if steps == 1 else given[:1]
    batches = [batch for one in given for batch in batches_of(opened, one, steps, before)]
    plan = ring_plan(opened, batches, steps, inferences)
    if scheduler is not None and plan.sequences:
        raise _refused("workers of a scheduler keep no states", "option steps")
    with doing(f"folder {quote(str(opened.path))}"):
        if scheduler is None:
            result = run_ring(plan)
        else:
            plan, result = run_on_cluster(plan, scheduler)
        if isinstance(result, RingFailure):
            raise CompileError(_failed(result, plan))
        if result.differing:
            raise CompileError.of(
                "MCM-V082",
                f"{count_text(result.differing, 'round')} of {plan.replicas * plan.warm:,} gave "
                "other outputs than a round before it on the same inputs",
                at=f"folder {quote(str(opened.path))}",
            )
        made = _outputs(opened, result, len(batches), steps)
        expected = chain_outputs(opened, batches, steps, stock=True)
    program = opened.program if layout.PROGRAM in opened.manifest.files else None
    data = {
        "model": opened.manifest.model,
        "target": opened.manifest.target,
        **ring_data(plan, result, program, opened.manifest.round),
        **_compared(made, expected, last_only(opened.manifest, steps)),
        "random_inputs": len(batches) if inputs is None else 0,
        "scheduler": scheduler,
    }
    notes = () if data["period_wall_s"] else (_few_cores(plan, scheduler),)
    return PipelinedRun(opened, outputs_of(opened.manifest, made, steps), data, notes)


def ring_plan(
    opened: gate.OpenedFolder, batches: Sequence[Mapping[str, Any]], steps: int, inferences: int
) -> RingPlan:
    """The processes of a folder and what they hand on.

    Raises:
        CompileError: MCM-V080.
    """
    manifest, held = opened.manifest, opened.manifest.states.held
    if sys.platform != "linux":
        raise _refused("processes are pinned to cores on Linux alone", "this system")
    # One step alone takes its states as inputs, so that it may be any step.
    own = held if steps > 1 else ()
    wires = manifest.wires if own else manifest.run_wires
    first = {**batches[0], **chain.cut_inputs(batches[0], manifest.run_wires)} if own else {}
    places = {chip.chip: index for index, chip in enumerate(manifest.chips)} | {HOST: HOST}
    values = {
        chip.chip: {v.name or "": v for v in (*chip.model.graph.inputs, *chip.model.graph.outputs)}
        for chip in opened.chips
    }
    readers: dict[tuple[int, str], list[int]] = {}
    for wire in wires:
        readers.setdefault((wire.source, wire.tensor), []).extend(wire.destinations)
    tensors: list[RingTensor] = []
    for (source, name), destinations in readers.items():
        ends = (values.get(chip, {}).get(name) for chip in (source, *destinations))
        dtype, shape = _form(name, next((value for value in ends if value is not None), None))
        to = tuple(dict.fromkeys(places[chip] for chip in destinations))
        tensors.append(RingTensor(name, dtype, shape, places[source], to))
    chips: list[RingChip] = []
    for entry in manifest.chips:
        states: list[RingState] = []
        for state in (one for one in own if one.chip == entry.chip):
            dtype, shape = _form(state.present, values[entry.chip].get(state.present))
            past = np.ascontiguousarray(first[state.past])
            states.append(RingState(state.past, state.present, dtype, shape, past))
        chips.append(RingChip(entry.chip, Path(str(opened.path / entry.file)), tuple(states)))
    sequences = manifest.states.sequences if own else 0
    rounds = -(-inferences // manifest.at_once)
    block = max(LEAST_BLOCK, -(-rounds // BLOCKS))
    in_flight = min(len(chips) + 1, sequences or len(chips) + 1)
    cores = tuple(sorted(os.sched_getaffinity(0)))
    given = [{**batch, **chain.cut_inputs(batch, wires)} for batch in batches]
    feeds = tuple(given)
    if manifest.round > 1:
        feeds = tuple(chain.in_rounds(given, range(manifest.round)))
    size = max((opened.path / name).stat().st_size for name in manifest.files)
    crowd = max(1.0, len(chips) * manifest.replicas / len(cores))
    plan = RingPlan(
        tuple(chips),
        tuple(tensors),
        feeds,
        cores,
        manifest.replicas,
        manifest.chips_each,
        in_flight,
        sequences,
        max(in_flight + SLOTS, len(feeds) * max(1, sequences)),
        block,
        BLOCKS,
        PATIENCE * crowd * run_limits.run_seconds(size),
    )
    needed, free = SharedPipeline.bytes_of(plan) * plan.replicas, run_limits.free_memory_bytes()
    if needed > free:
        size = f"buffers of {bytes_text(needed)}, and {bytes_text(int(free))} of memory are free"
        raise _refused(f"its processes share {size}", f"folder {quote(str(opened.path))}")
    return plan


def _form(name: str, value: ir.Value | None) -> tuple[int, tuple[int, ...]]:
    """Element type and shape of what travels.

    Raises:
        CompileError: MCM-V080 where buffers of one size do not hold it.
    """
    kind = None if value is None else value.type
    shape = None if value is None else static_shape(value)
    if not isinstance(kind, ir.TensorType) or shape is None:
        shown = kind if value is None or value.shape is None else f"{kind} {value.shape}"
        raise _refused(f"it is {shown}, and buffers have one size", f"tensor {quote(name)}")
    if kind.dtype is ir.DataType.STRING or kind.dtype.bitwidth < 8:
        raise _refused(f"buffers hold no {kind.dtype.name}", f"tensor {quote(name)}")
    return int(kind.dtype), shape


def _refused(why: str, at: str) -> CompileError:
    return CompileError.of("MCM-V080", f"the chips cannot run as processes: {why}", at=at)


def _outputs(
    opened: gate.OpenedFolder, result: RingResult, count: int, steps: int
) -> list[dict[str, Any]]:
    """Graph outputs of each of `count` batches."""
    manifest, made = opened.manifest, []
    last = last_only(manifest, steps)
    arrived = [dict(one) for one in result.outputs]
    for one in arrived:
        # What stays on chips is there after the last step alone.
        some = steps > 1 and one is not arrived[-1]
        chain.put_together(one, manifest.wires if some else manifest.run_wires)
    for at in range(count):
        row, k = divmod(at, manifest.round)
        made.append(
            {
                entry.name: arrived[-1 if entry.name in last else row][
                    entry.name if manifest.round == 1 else class_name(entry.name, k)
                ]
                for entry in manifest.outputs
            }
        )
    return made


def _compared(
    made: Sequence[Mapping[str, Any]], expected: Sequence[Mapping[str, Any]], last: set[str]
) -> dict[str, Any]:
    """How outputs differ from the chain's; states are those of the last step."""
    pairs = [
        (one[name], other[name])
        for at, (one, other) in enumerate(zip(made, expected, strict=True), 1)
        for name in one
        if name not in last or at == len(made)
    ]
    equal = all(same_bits(left, right) for left, right in pairs)
    error = 0.0 if equal else max(max_abs_error(left, right) for left, right in pairs)
    return {"outputs_equal": equal, "max_abs_error": error}


def _failed(failure: RingFailure, plan: RingPlan) -> Diagnostic:
    at = "the process of the host" if failure.chip is None else f"chip {failure.chip}"
    if failure.hangs:
        message = f"it has made no progress for {plan.patience_s:.3g} s: {failure.why}"
    else:
        message = f"its process ended: {failure.why}"
    return Diagnostic("MCM-V081", message, at)


def _few_cores(plan: RingPlan, scheduler: str | None) -> Diagnostic:
    processes = plan.replicas * len(plan.chips)
    cores = count_text(len(plan.cores), "core" if scheduler is None else "worker")
    return Diagnostic(
        "MCM-V083",
        f"{count_text(processes, 'chip')} share {cores}: the period is that of CPU seconds, and "
        "there is none of elapsed time",
    )
