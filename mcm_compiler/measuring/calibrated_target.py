"""A description of a target whose numbers follow from measured times of kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx_ir as ir

from mcm_compiler.checking.entry.gate import OpenedFolder, open_folder
from mcm_compiler.components.cost_choice import TakesCalibration, choice_of, with_cost_model
from mcm_compiler.components.cost_files import COST_TABLE, user_files
from mcm_compiler.components.target_loading import target_from_text
from mcm_compiler.contracts.chips import is_relay, kernels_of
from mcm_compiler.contracts.cost import CalibratesCosts, Calibration, MeasuredKernels
from mcm_compiler.contracts.target import Target
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.measuring.times_files import (
    changed_machine,
    machine_file,
    note_of_machine,
    read_machine,
)
from mcm_compiler.text.toml_description import parse_description, to_toml, toml_text
from mcm_compiler.variants.sensitivities import changed_target, content_text, value_of

LINK_KEYS = ("link.bandwidth_gb_per_s", "host.bandwidth_gb_per_s")
"""Numbers that follow from the rate of copies."""


@dataclass(frozen=True)
class CalibratedTarget:
    """A target with the numbers that measured times give.

    Attributes:
        text: the description.
        numbers: values before and after by key.
        fit: see `Calibration`.
        diagnostics: about machines that differ.
    """

    text: str
    numbers: Mapping[str, tuple[float, float]]
    fit: Calibration
    diagnostics: tuple[Diagnostic, ...]


def calibrated_target(measured: Sequence[tuple[Path, Path]]) -> CalibratedTarget:
    """Fits the numbers of a target to the times of its kernels.

    Args:
        measured: folders that were compiled for it, and their tables of times.

    Raises:
        CompileError: MCM-C014 where too few kernels were measured, MCM-C015 where the folders are
            of different targets, MCM-C003 for a target that takes no other cost model, and as
            `open_folder`, `read_machine` and the cost model `table`.
    """
    first, models, machines = None, list[MeasuredKernels](), []
    costs: Any = None
    for folder, times in measured:
        opened = open_folder(folder, further=True)
        target = _plain(opened.target)
        if first is None:
            first = target
        elif content_text(first.source_text) != content_text(target.source_text):
            message = "the folder is of another target than the first one"
            raise CompileError.of("MCM-C015", message, at=str(folder))
        machines.append((machine_file(times), read_machine(machine_file(times))))
        table = f"table{{file={toml_text(times.name)}}}"
        costs = with_cost_model(target, table, user_files(times.parent)).cost_model()
        if isinstance(costs, CalibratesCosts):
            models.append(costs.measured_kernels(_kernels(opened)))
    notes = tuple(_machine_notes(machines))
    if len({data["machine"].get("name") for _, data in machines}) > 1:
        models = [[one for model in models for one in model]]  # no machine to learn the times of
    found = costs.calibration(models) if isinstance(costs, CalibratesCosts) else None
    if first is None or found is None or not found.changes:
        raise CompileError.of(
            "MCM-C014",
            f"{sum(map(len, models))} measured kernels are too few to fit the numbers of a target",
            at=str(measured[0][1]),
        )
    changes = dict(_changes(first, found.changes, machines[0][1]))
    changed = changed_target(first, {key: after for key, (_, after) in changes.items()})
    data = parse_description(first.name, changed.target.source_text).data
    return CalibratedTarget(to_toml(data), changes, found, notes)


def _plain(target: Target) -> Target:
    """The target without measured times that the folder was compiled with."""
    choice = choice_of(target)
    if choice is None or not isinstance(choice.maker, TakesCalibration):
        return target
    data = dict(parse_description(target.name, target.source_text).data)
    data.pop(COST_TABLE, None)
    return target_from_text(target.name, to_toml(data))


def _kernels(opened: OpenedFolder) -> Iterator[list[ir.Node]]:
    for chip in opened.chips:
        yield from kernels_of(node for node in chip.model.graph if not is_relay(node))


def _changes(
    target: Target, factors: Mapping[str, float], machine: Mapping[str, Any]
) -> Iterator[tuple[str, tuple[float, float]]]:
    wanted = [(key, value_of(target, key), factor) for key, factor in factors.items()]
    rate = machine.get("links", {}).get("bytes_per_s")
    for key in LINK_KEYS if rate else ():
        before = value_of(target, key)
        if before is not None:
            wanted.append((key, before, rate / 1e9 / float(before)))
    for key, before, factor in wanted:
        if before is not None:
            yield key, (float(before), float(f"{float(before) * factor:.4g}"))


def _machine_notes(machines: Sequence[tuple[Path, Mapping[str, Any]]]) -> Iterator[Diagnostic]:
    """MCM-C013 for each table of another machine than the first one, or than this one."""
    (place, first), *others = machines
    facts = first["machine"]
    notes = [note_of_machine(place, facts)]
    notes += [changed_machine(other["machine"], facts, str(at)) for at, other in others]
    yield from filter(None, notes)
