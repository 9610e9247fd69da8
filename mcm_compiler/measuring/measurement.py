"""One measurement from its arguments: a folder, or a model that is compiled for it first."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mcm_compiler.api import compile_model
from mcm_compiler.checking.entry.gate import OpenedFolder, open_folder
from mcm_compiler.contracts.target import Target
from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.execution.npz_inputs import read_npz
from mcm_compiler.measuring.devices import DEVICES, MeasuringDevice
from mcm_compiler.measuring.kernel_times import MeasuredFolder, measure_folder
from mcm_compiler.measuring.times_files import machine_facts, machine_text
from mcm_compiler.options import CompileOptions
from mcm_compiler.text.toml_description import parse_description

PLAIN = CompileOptions(level=0, replicas=1, round=1)
"""How a model is compiled that is to be measured: its kernels whole, each once."""


@dataclass(frozen=True)
class Measurement:
    """Times, and the machine that they are of.

    Attributes:
        result: times of kernels and chips.
        machine: facts of the machine.
        machine_text: the file that goes with the table.
    """

    result: MeasuredFolder
    machine: Mapping[str, str | int]
    machine_text: str


def device_of(target: Target, name: str | None) -> MeasuringDevice:
    """The device of this name, or else that of the target's description.

    Raises:
        CompileError: MCM-C009 where there is neither; as `Registry.get`.
    """
    if name is None:
        package = parse_description(target.name, target.source_text).data.get("package")
        name = package.get("device") if isinstance(package, dict) else None
    if name is None:
        known = ", ".join(one.name for one in DEVICES.registrations())
        raise CompileError.of(
            "MCM-C009",
            f"target {quote(target.name)} names no device that runs its chips' models",
            at="option --device",
            hint=f'give --device, or write device = "..." in its table [package]; known: {known}',
        )
    return DEVICES.get(name)()


def measured(
    model: str,
    target: str,
    device: str | None,
    inputs: Path | None,
    progress: Callable[[str], None],
) -> Measurement:
    """Measures a compiled folder, or a model that is compiled for a target first.

    Args:
        model: a folder, a file or a zoo model.
        target: of a model.
        device: its name; None for that of the target.
        inputs: an `.npz` file; None for random inputs.
        progress: called with each step.

    Raises:
        CompileError: as `device_of`, `compile_model`, `open_folder` and `measure_folder`.
    """
    if Path(model).is_dir():
        return _measured(open_folder(Path(model), further=True), device, inputs, progress)
    with tempfile.TemporaryDirectory(prefix="mcmc-measure-") as scratch:
        folder = Path(scratch) / "out"
        compile_model(model, target, PLAIN, output=folder, progress=progress)
        return _measured(open_folder(folder), device, inputs, progress)


def _measured(
    opened: OpenedFolder, name: str | None, inputs: Path | None, progress: Callable[[str], None]
) -> Measurement:
    device = device_of(opened.target, name)
    given = None if inputs is None else [read_npz(inputs)]
    result = measure_folder(opened, device, given, lambda attempt: progress(f"measure {attempt}"))
    machine = machine_facts(device)
    facts = {"name": opened.manifest.model, "target": opened.manifest.target}
    text = machine_text(machine, facts, device.copy_bytes_per_s() or 0.0)
    return Measurement(result, machine, text)
