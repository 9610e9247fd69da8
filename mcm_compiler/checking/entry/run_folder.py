"""Running a compiled folder on the user's inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from mcm_compiler.artifact import chain, program_file
from mcm_compiler.artifact.manifest import Manifest, TensorEntry
from mcm_compiler.checking.entry import constraint_check, gate, structure_check
from mcm_compiler.contracts.program import SimulationResult
from mcm_compiler.contracts.target import machine_of
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.execution.npz_inputs import array_of_type
from mcm_compiler.placements.side_by_side import one_stands_for_all
from mcm_compiler.processes.crash_journal import doing
from mcm_compiler.report import activity, bottleneck


def run_folder(
    folder: str | Path,
    inputs: Mapping[str, Any],
    steps: int = 1,
    before: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Runs the chips of `folder` as a chain in onnxruntime.

    Args:
        folder: an output folder.
        inputs: one array per graph input of the source model. Over several steps, one with an axis
            more in front has an entry for each step, or of rounds for each inference; others are
            the same in all of them. Inference i is one of class i modulo the classes.
        steps: of one sequence. What stays on the chips is given for the first of them.
        before: outputs of another run, maybe of another profile, whose states come before the first
            step.

    Returns:
        The graph outputs by name. Those of several steps or inferences have an axis in front, but
        what stays on the chips as the last step left it.

    Raises:
        CompileError: MCM-V010 for inputs that are missing, unknown, or of another type or shape;
            MCM-A004 to MCM-A009 for a damaged folder; MCM-V001 to MCM-V003 from the run.
    """
    folder = folder if isinstance(folder, Path) else Path(folder)
    opened = gate.open_folder(folder, further=True)
    manifest, batches = opened.manifest, batches_of(opened, inputs, steps, before)
    with doing(f"folder {quote(str(folder))}"):
        return outputs_of(manifest, chain_outputs(opened, batches, steps), steps)


def batches_of(
    opened: gate.OpenedFolder,
    inputs: Mapping[str, Any],
    steps: int,
    before: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Inputs of each step or inference; see `run_folder`.

    Raises:
        CompileError: MCM-V010.
    """
    manifest = opened.manifest
    held = manifest.states.held
    if before is not None:
        wholes = [s.whole for s in held]
        inputs = {**inputs, **{s.past: before[s.present] for s in wholes if s.present in before}}
    if steps > 1 and not held:
        raise CompileError(_stateless(steps))
    count = steps if manifest.round == 1 else _in_rounds(inputs, manifest)
    parts = _steps(inputs, manifest.inputs, count) if count > 1 else [inputs]
    return runtime_inputs(manifest.inputs, parts)


def chain_outputs(
    opened: gate.OpenedFolder, batches: Sequence[Mapping[str, Any]], steps: int, stock: bool = False
) -> list[dict[str, Any]]:
    """Graph outputs of each batch, from the chips one after another.

    Args:
        opened: the folder.
        batches: from `batches_of`.
        steps: of one sequence.
        stock: as for `run_chain`.
    """
    manifest, folder = opened.manifest, opened.path
    outputs = [entry.name for entry in manifest.outputs]
    chips = [chip.chip for chip in manifest.chips]
    if steps > 1:
        wires, held = manifest.wires, manifest.states.held
        return chain.run_chain(folder, chips, wires, outputs, batches, stock=stock, states=held)
    wires, classes = manifest.run_wires, manifest.round
    return chain.run_chain(folder, chips, wires, outputs, batches, stock=stock, classes=classes)


def outputs_of(manifest: Manifest, made: Sequence[Mapping[str, Any]], steps: int) -> dict[str, Any]:
    """Outputs of all batches; see `run_folder`."""
    if len(made) == 1:
        return dict(made[0])
    last = last_only(manifest, steps)
    return {
        name: made[-1][name] if name in last else np.stack([one[name] for one in made])
        for name in (entry.name for entry in manifest.outputs)
    }


def last_only(manifest: Manifest, steps: int) -> set[str]:
    """Outputs that stay on chips, as the last of several steps leaves them."""
    return {state.whole.present for state in manifest.states.held} if steps > 1 else set()


def _steps(
    inputs: Mapping[str, Any], entries: Sequence[TensorEntry], steps: int
) -> list[Mapping[str, Any]]:
    """The inputs of each step."""
    rank = {entry.name: len(entry.shape) for entry in entries if entry.shape is not None}
    many = {
        name
        for name, array in inputs.items()
        if isinstance(array, np.ndarray)
        and array.ndim == rank.get(name, array.ndim) + 1
        and len(array) == steps
    }
    return [
        {name: array[step] if name in many else array for name, array in inputs.items()}
        for step in range(steps)
    ]


def _in_rounds(inputs: Mapping[str, Any], manifest: Manifest) -> int:
    """Inferences that arrays with an axis more in front hold; one without such arrays.

    Raises:
        CompileError: MCM-V010 where they fill no whole number of rounds.
    """
    rank = {entry.name: len(entry.shape) for entry in manifest.inputs if entry.shape is not None}
    counts = {
        len(array): name
        for name, array in inputs.items()
        if isinstance(array, np.ndarray) and array.ndim == rank.get(name, array.ndim) + 1
    }
    for count, name in counts.items():
        if len(counts) > 1 or count == 0 or count % manifest.round:
            held = ", ".join(map(str, sorted(counts)))
            message = f"{held} inferences fill no rounds of {manifest.round}"
            hint = (
                f"give all arrays the same multiple of {manifest.round} entries, or one inference"
            )
            raise CompileError.of("MCM-V010", message, at=f"input {quote(name)}", hint=hint)
    return next(iter(counts), 1)


def _stateless(steps: int) -> Diagnostic:
    return Diagnostic(
        "MCM-V010",
        f"{steps} steps are asked for, and the folder has no state that stays on a chip",
        at="option steps",
        hint="leave out --steps; states are named at compile time, with --state",
    )


def runtime_inputs(
    entries: Sequence[TensorEntry], batches: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """A user's arrays as values of the recorded inputs (`array_of_type`).

    Raises:
        CompileError: MCM-V010 for each input that is missing, unknown, or of another type or shape.
    """
    known = {entry.name for entry in entries}
    faults: dict[Diagnostic, None] = {}
    taken: list[dict[str, Any]] = []
    for batch in batches:
        values = dict(batch)
        for entry in entries:
            try:
                if entry.name in batch:
                    values[entry.name] = _value(entry, batch[entry.name])
                elif not entry.dtype.startswith("Optional("):
                    shape = list(entry.shape) if entry.shape is not None else "any shape"
                    raise ValueError(f"the input is missing: {entry.dtype} {shape}")
            except ValueError as error:
                place = f"input {quote(entry.name)}"
                hint = "give for each input one array of its type and shape; mcmc compile --shape "
                faults[Diagnostic("MCM-V010", str(error), place, f"{hint}takes others")] = None
        for name in (one for one in batch if one not in known):
            listed = ", ".join(map(quote, sorted(known))) or "none"
            message = f"the model has no input {quote(name)}; it has: {listed}"
            hint = "name the arrays as the inputs of the model are named"
            faults[Diagnostic("MCM-V010", message, f"input {quote(name)}", hint)] = None
        taken.append(values)
    if faults:
        raise CompileError(list(faults))
    return taken


def _value(entry: TensorEntry, value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    dtype = ir.DataType.__members__.get(entry.dtype.upper())
    if dtype is None:
        if entry.dtype.startswith("Optional("):
            return value
        raise ValueError(f"the array is for a {entry.dtype}, which no .npz file holds")
    if entry.shape is not None and value.shape != entry.shape:
        message = f"its shape is {list(value.shape)}, the model was compiled for"
        raise ValueError(f"{message} {list(entry.shape)}")
    try:
        return array_of_type(value, dtype)
    except ValueError as error:
        raise ValueError(f"the array {error}") from None


def read_compiled(folder: Path) -> gate.OpenedFolder:
    """Reads what a simulation needs, and makes sure that it is what the compiler wrote.

    All hashes of the manifest are compared, and manifest, chips' models and program with each
    other. That the models compute the right thing, and that lowering them gives this program, is
    for `check_folder` to prove. Files that the manifest does not list are left alone.

    Raises:
        CompileError: MCM-A004 to MCM-A013 for the files and what they hold, MCM-I### for faults
            of a chip's model, MCM-T### for faults of the target's description. MCM-V050 for
            pipelines side by side that the package has no space for.
    """
    opened = gate.open_folder(folder, further=True)
    structure_check.check_structure(opened)
    constraint_check.refuse_overlap(opened.manifest, opened.target)
    program_file.check_program_of(opened.program, opened.chips, opened.manifest.wires)
    return opened


def simulation_data(simulation: SimulationResult, opened: gate.OpenedFolder) -> dict[str, Any]:
    """A simulation as JSON-able data, in the fields of the report."""
    program, target, replicas = opened.program, opened.target, opened.manifest.replicas
    graphs = {chip.chip: chip.model.graph for chip in opened.chips}
    limits = target.limits.first(opened.manifest.chips_each or target.limits.num_chips)
    period_s = simulation.period_s / opened.manifest.at_once
    flight = {"sequences": program.sequences} if program.sequences else {}
    if one_stands_for_all(target, program, replicas, opened.manifest.chips_each):
        flight["simulated_replicas"] = 1
    machine = machine_of(target)
    return {
        "simulator": simulation.simulator,
        "inferences": simulation.inferences,
        "steady_from": simulation.steady_from,
        "replicas": replicas,
        **({"round": opened.manifest.round} if opened.manifest.round > 1 else {}),
        **flight,
        "throughput_per_s": 1.0 / period_s if period_s > 0 else None,
        "period_s": period_s,
        "latency_s": simulation.latency_s,
        "bottleneck": bottleneck.find_bottleneck(
            simulation, program, machine, limits, graphs, opened.certificate, target
        ),
        "chips": activity.chip_rows(simulation, program, graphs, limits.sram_bytes),
        "links": activity.link_rows(simulation),
    }
