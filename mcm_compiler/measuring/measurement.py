"""One measurement from its arguments: a folder, or a model that is compiled for it first."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mcm_compiler.api import compile_model
from mcm_compiler.checking.entry.gate import OpenedFolder, open_folder
from mcm_compiler.components.cost_files import user_files
from mcm_compiler.contracts.requests import silent
from mcm_compiler.contracts.target import Target
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.execution.npz_inputs import read_npz
from mcm_compiler.measuring.busy_times import BUSY_SUMS, read_busy, times_of_busy
from mcm_compiler.measuring.devices import DEVICES, MeasuringDevice
from mcm_compiler.measuring.kernel_times import KernelTime, MeasuredFolder, measure_folder
from mcm_compiler.measuring.lone_kernels import KernelBudget
from mcm_compiler.measuring.times_files import (
    changed_machine,
    machine_facts,
    machine_text,
    times_text,
)
from mcm_compiler.options import CompileOptions
from mcm_compiler.text.headline import Headline, Shown
from mcm_compiler.text.toml_description import parse_description
from mcm_compiler.text.units import count_text, percent_text, seconds_text

PLAIN = CompileOptions(level=0, replicas=1, round=1)
"""How a model is compiled that is to be measured: its kernels whole, each once."""


@dataclass(frozen=True)
class MeasureOptions:
    """Options of a measurement.

    Attributes:
        device: its name; None for that of the target.
        inputs: an `.npz` file; None for random inputs.
        busy: busy times of the folder's chips; nothing runs, see `measured_by_busy`.
        most: distinct kernels of each chip that are timed alone; None for all.
        known: kernels of other models, to choose them by.
    """

    device: str | None = None
    inputs: Path | None = None
    busy: Sequence[Path] = ()
    most: int | None = None
    known: Path | None = None


@dataclass(frozen=True, repr=False)
class Measurement(Shown):
    """Times, and the machine that they are of.

    Attributes:
        result: times of kernels and chips.
        machine: facts of the machine.
        machine_text: the file that goes with the table.
        model: its name.
    """

    result: MeasuredFolder
    machine: Mapping[str, str | int]
    machine_text: str
    model: str

    @property
    def kernels(self) -> list[KernelTime]:
        """Kernels by the order of the chips and of their graphs."""
        return [*self.result.kernels]

    @property
    def word(self) -> str:
        """Name of the spread of a kernel."""
        return "uncertainty" if self.kernels[0].how == BUSY_SUMS else "repeat error"

    @property
    def figures(self) -> dict[str, float]:
        """Number of kernels, their median spread, and the share of the time that is theirs."""
        spreads = sorted(one.spread for one in self.kernels)
        mapped = 1.0 - self.result.unmapped_share
        repeat = spreads[len(spreads) // 2]
        return {"kernels": len(spreads), "repeat": repeat, "mapped_share": mapped}

    @property
    def table_text(self) -> str:
        """The table for the cost model `table`."""
        return times_text(self.result.kernels, str(self.machine["name"]))

    @property
    def headline(self) -> Headline:
        """The figures, and the computing times of chips."""
        figures, chips = self.figures, sorted(self.result.chip_s.items())
        count, repeat = count_text(len(self.kernels), "kernel"), percent_text(figures["repeat"])
        kernels = f"{count}, {self.word} {repeat} (median)"
        mapped = f"{percent_text(figures['mapped_share'])} of the time is mapped to kernels"
        each = ", ".join(f"chip {chip} {seconds_text(seconds)}" for chip, seconds in chips)
        times = f"computing time of a run: {each}"
        lines = [
            {"label": "kernels", "headline": kernels, "details": [mapped], "tone": "plain"},
            {"label": "chips", "headline": times, "details": [], "tone": "plain"},
        ]
        return Headline((self.model, str(self.machine["name"]), "measured"), lines, True, kernels)


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


def measure(
    model: str | Path,
    target: str = "cpu-ring",
    options: MeasureOptions | None = None,
    *,
    kept: Path | None = None,
    progress: Callable[[str], None] = silent,
) -> Measurement:
    """Measures a compiled folder, or a model that is compiled for a target first.

    Args:
        model: a folder, a file or a zoo model.
        target: of a model.
        options: see `MeasureOptions`.
        kept: as of `measure_folder`.
        progress: called with each step.

    Raises:
        CompileError: MCM-C004 for a file that cannot be read; as `device_of`, `compile_model`,
            `open_folder`, `measure_folder` and the cost model `table`.
    """
    asked = options or MeasureOptions()
    if asked.busy:
        return measured_by_busy(Path(model), asked.device, asked.busy)
    read = None if asked.known is None else user_files(Path())(str(asked.known))

    def of_folder(opened: OpenedFolder) -> Measurement:
        found = device_of(opened.target, asked.device)
        machine = machine_facts(found)
        most, name = asked.most, str(machine["name"])
        budget = None if most is None else KernelBudget(most, name, read)
        given = None if asked.inputs is None else [read_npz(asked.inputs)]
        result = measure_folder(
            opened,
            found,
            given,
            lambda attempt: progress(f"measure {attempt}"),
            budget=budget,
            kept=kept,
        )
        return _measurement(opened, found, machine, result)

    if Path(model).is_dir():
        return of_folder(open_folder(Path(model), further=True))
    with tempfile.TemporaryDirectory(prefix="mcmc-measure-") as scratch:
        folder = Path(scratch) / "out"
        compile_model(model, target, PLAIN, output=folder, progress=progress)
        return of_folder(open_folder(folder))


def measured_by_busy(folder: Path, device: str | None, files: Sequence[Path]) -> Measurement:
    """Times of kernels from busy times of chips; nothing runs.

    Args:
        folder: of the model.
        device: as in `measure`.
        files: written by `mcmc run --write-busy`, of this or other partitions of the model.

    Raises:
        CompileError: MCM-C020 for a file that cannot be read or is of another model; as
            `device_of`.
    """
    opened = open_folder(folder, further=True)
    found = device_of(opened.target, device)
    machine = machine_facts(found)
    read = [read_busy(path) for path in files]
    changes: list[Diagnostic] = []
    for path, one in zip(files, read, strict=True):
        if one.model_sha256 != opened.manifest.model_sha256:
            message = "the busy times are of another model than the folder"
            raise CompileError.of("MCM-C020", message, at=str(path))
        if (changed := changed_machine(one.machine, machine, str(path))) is not None:
            changes.append(changed)
    chip_s = {chip.chip: chip.seconds for one in read for chip in one.chips}
    result = MeasuredFolder(times_of_busy(read), chip_s, 0.0, tuple(changes))
    return _measurement(opened, found, machine, result)


def _measurement(
    opened: OpenedFolder,
    device: MeasuringDevice,
    machine: Mapping[str, str | int],
    result: MeasuredFolder,
) -> Measurement:
    facts = {"name": opened.manifest.model, "target": opened.manifest.target}
    text = machine_text(machine, facts, device.copy_bytes_per_s() or 0.0)
    return Measurement(result, machine, text, opened.manifest.model)
