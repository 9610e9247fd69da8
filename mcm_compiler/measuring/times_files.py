"""Files of a measurement: the table of times, and what it was measured on."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.measuring.devices import DEVICES, MeasuringDevice
from mcm_compiler.measuring.kernel_times import KernelTime
from mcm_compiler.text.spec_text import parse_one
from mcm_compiler.text.toml_description import parse_description, read_description, to_toml

COLUMNS = ("kernel", "seconds", "spread", "count", "how", "machine")
SUFFIX = ".times.csv"


def machine_file(times: Path) -> Path:
    """The file with the machine of a table of times: `bert.machine.toml` for `bert.times.csv`."""
    return times.with_name(f"{times.name.removesuffix('.csv').removesuffix('.times')}.machine.toml")


def machine_facts(device: MeasuringDevice) -> dict[str, str | int]:
    """The device with what its times depend on, and a short name for all of it."""
    facts: dict[str, str | int] = {"device": device.name, **device.facts()}
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return {"name": f"{device.name}-{digest[:8]}", **facts}


def times_text(kernels: Sequence[KernelTime], machine: str) -> str:
    """A table for the cost model `table`, the longest kernels first."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for one in sorted(kernels, key=lambda kernel: (-kernel.seconds, kernel.kernel)):
        seconds, spread = f"{one.seconds:.4g}", f"{one.spread:.3g}"
        writer.writerow((one.kernel, seconds, spread, one.count, one.how, machine))
    return stream.getvalue()


def machine_text(machine: Mapping[str, Any], model: Mapping[str, Any], copy_rate: float) -> str:
    """The file with the machine, the model, and the rate of copies between chips."""
    links = {"links": {"bytes_per_s": float(f"{copy_rate:.4g}")}} if copy_rate else {}
    return to_toml({"machine": dict(machine), "model": dict(model), **links})


def read_machine(path: Path) -> Mapping[str, Any]:
    """The content of a file that `machine_text` made.

    Raises:
        CompileError: MCM-T001 for a file that is missing or no TOML, MCM-C013 for one without the
            machine.
    """
    data = parse_description(str(path), read_description(str(path), "machine")).data
    if not isinstance(data.get("machine"), dict):
        message = "the file does not name the machine that was measured"
        raise CompileError.of("MCM-C013", message, at=str(path))
    return data


def note_of_machine(place: Path, facts: Mapping[str, Any]) -> Diagnostic | None:
    """MCM-C013 where the machine of a file is not this one; None also for unknown devices."""
    device = str(facts.get("device"))
    if device not in DEVICES:
        return None
    return changed_machine(facts, machine_facts(DEVICES.get(device)()), str(place))


def machine_notes(cost_model: str) -> list[Diagnostic]:
    """MCM-C013 for each file of a cost model that has times of another machine than this one.

    Args:
        cost_model: its text; files without that of a machine next to them are passed over.

    Raises:
        CompileError: as `read_machine`.
    """
    options = parse_one(cost_model).options
    places = [machine_file(Path(value)) for _, value in options if value.endswith(".csv")]
    known = [(place, read_machine(place)["machine"]) for place in places if place.is_file()]
    notes = [note_of_machine(place, facts) for place, facts in known]
    return [note for note in notes if note is not None]


def changed_machine(
    before: Mapping[str, Any], now: Mapping[str, Any], place: str
) -> Diagnostic | None:
    """MCM-C013 with each fact that differs; None where none does.

    Args:
        before: facts of the machine that was measured.
        now: of another machine, or of the same one later.
        place: of the file with the former.
    """
    differing = [
        f"{key}: {quote(str(before.get(key)))} then, {quote(str(now.get(key)))} now"
        for key in dict.fromkeys((*before, *now))
        if key != "name" and before.get(key) != now.get(key)
    ]
    if not differing:
        return None
    message = f"the times are of another machine: {'; '.join(differing)}"
    return Diagnostic("MCM-C013", message, at=place)
