"""Running a compiled folder on the user's inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from mcm_compiler.artifact.chain import run_chain
from mcm_compiler.artifact.manifest import TensorEntry
from mcm_compiler.checking.entry.gate import open_folder
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.processes.crash_journal import doing


def run_folder(folder: Path, inputs: Mapping[str, Any], steps: int = 1) -> dict[str, Any]:
    """Runs the chips of `folder` as a chain in onnxruntime.

    Args:
        folder: an output folder.
        inputs: one array per graph input of the source model. Over several steps, one with an axis
            more in front has an entry for each step; others are the same in all of them.
        steps: of one sequence. What stays on the chips is given for the first of them.

    Returns:
        The graph outputs by name; over several steps those of all, on an axis in front, but of
        what stays on the chips as the last step left it.

    Raises:
        CompileError: MCM-V010 for inputs that are missing, unknown, or of another type or shape;
            MCM-A004 to MCM-A009 for a damaged folder; MCM-V001 to MCM-V003 from the run.
    """
    manifest = open_folder(folder, further=True).manifest
    held = manifest.states.held
    if steps > 1 and not held:
        raise CompileError(_stateless(steps))
    batches = _steps(inputs, manifest.inputs, steps) if steps > 1 else [inputs]
    faults = [fault for batch in batches for fault in input_faults(manifest.inputs, batch)]
    if faults:
        raise CompileError(list(dict.fromkeys(faults)))
    outputs = [entry.name for entry in manifest.outputs]
    chips = [chip.chip for chip in manifest.chips]
    with doing(f"folder {quote(str(folder))}"):
        if steps == 1:
            return run_chain(folder, chips, manifest.run_wires, outputs, batches)[0]
        made = run_chain(folder, chips, manifest.wires, outputs, batches, states=held)
    last = {state.present for state in held}
    return {
        name: made[-1][name] if name in last else np.stack([step[name] for step in made])
        for name in outputs
    }


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


def _stateless(steps: int) -> Diagnostic:
    return Diagnostic(
        "MCM-V010",
        f"{steps} steps are asked for, and the folder has no state that stays on a chip",
        at="option steps",
        hint="leave out --steps; states are named at compile time, with --state",
    )


def input_faults(entries: Sequence[TensorEntry], inputs: Mapping[str, Any]) -> list[Diagnostic]:
    """MCM-V010 for each input that is missing, unknown, or of another type or shape."""
    known = {entry.name for entry in entries}
    faults = [fault for entry in entries for fault in _faults(entry, inputs)]
    return faults + [
        Diagnostic(
            "MCM-V010",
            f"the model has no input {quote(name)}; it has: "
            f"{', '.join(map(quote, sorted(known))) or 'none'}",
            at=f"input {quote(name)}",
            hint="name the arrays as the inputs of the model are named",
        )
        for name in inputs
        if name not in known
    ]


def _faults(entry: TensorEntry, inputs: Mapping[str, Any]) -> list[Diagnostic]:
    place = f"input {quote(entry.name)}"
    if entry.name not in inputs:
        if entry.dtype.startswith("Optional("):
            return []
        shape = list(entry.shape) if entry.shape is not None else "any shape"
        message = f"the input is missing: {entry.dtype} {shape}"
        return [Diagnostic("MCM-V010", message, at=place, hint="give an array for each input")]
    array = inputs[entry.name]
    if not isinstance(array, np.ndarray) or entry.shape is None:
        return []
    if array.shape != entry.shape:
        message = f"its shape is {list(array.shape)}, the model was compiled for"
        hint = "compile for this shape with --shape, or give data of the compiled one"
        message = f"{message} {list(entry.shape)}"
        return [Diagnostic("MCM-V010", message, at=place, hint=hint)]
    expected = _numpy_name(entry.dtype)
    if array.dtype.name != expected and entry.dtype != "string":
        message = f"its type is {array.dtype.name}, the model takes {expected}"
        return [Diagnostic("MCM-V010", message, at=place, hint="convert it with astype")]
    return []


def _numpy_name(dtype: str) -> str:
    """The name that NumPy (or `ml_dtypes`) has for an element type of ONNX."""
    known = ir.DataType.__members__.get(dtype.upper())
    return known.numpy().name if known is not None else dtype
