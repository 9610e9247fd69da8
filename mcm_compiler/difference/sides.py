"""Sides of a comparison, read from folders of `mcmc compile`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import onnx_ir as ir

from mcm_compiler.checking.entry.gate import MALFORMED, OpenedFolder, open_folder
from mcm_compiler.checking.figures_check import check_stored_figures
from mcm_compiler.ci.figures import Figures, figures_of
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.difference.op_matching import PlacedOps, placed_ops
from mcm_compiler.machines.machine import HOST_ROOT, OFF_PACKAGE_ROOT
from mcm_compiler.report.activity import heaviest_ops
from mcm_compiler.report.bottleneck import channel_kind
from mcm_compiler.report.sentences import kernel_phrase, place_name, resource_name
from mcm_compiler.report.verdict.claims import verdict_of
from mcm_compiler.results.op_times import OpTime, program_op_times

CHIP_PROPERTY = "mcm.chip"
"""Of a node of the annotated model: the chips that it runs on."""

LoadKind = Literal["compute", "links", "host", "off-package memory"]

_KINDS: Mapping[str, LoadKind] = {"link": "links", "host": "host", "memory": "off-package memory"}


@dataclass(frozen=True)
class Load:
    """Work of a resource per inference.

    Attributes:
        kind: of the resource.
        where: the resource in words.
        busy_s: seconds.
        utilisation: share of the period, or None.
    """

    kind: LoadKind
    where: str
    busy_s: float
    utilisation: float | None


@dataclass(frozen=True)
class Memory:
    """The memory of a chip or a device.

    Attributes:
        place: the chip or device.
        weight_bytes: of it held by weights, or None.
        used_bytes: that its plan needs.
        memory_bytes: that it has.
    """

    place: str
    weight_bytes: int | None
    used_bytes: int
    memory_bytes: int


@dataclass(frozen=True, eq=False)
class Side:
    """One of both folders.

    Attributes:
        folder: its path, as given.
        family: of what the model was placed on.
        model: name of the model.
        figures: what the comparison with a baseline goes by.
        latency_s: of one inference, or None.
        bottleneck: what the report says of it, or None.
        bound_argument: why its bound holds, or None.
        places_each: chips of each.
        pins: of ops to places, as given.
        loads: of all resources of one pipeline.
        memory: of its chips or devices.
        ops: of the source model, with the places of the first pipeline.
        note: what was not checked, or None.
        verdict: headlines of the report that are no figures, by label.
    """

    folder: str
    family: Literal["package", "host"]
    model: str
    figures: Figures
    latency_s: float | None
    bottleneck: str | None
    bound_argument: str | None
    places_each: int
    pins: tuple[str, ...]
    loads: tuple[Load, ...]
    memory: tuple[Memory, ...]
    ops: PlacedOps
    note: Diagnostic | None
    verdict: Mapping[str, str]


def read_package(path: Path) -> Side:
    """A folder of `mcmc compile`, whose hashes and figures are checked.

    Raises:
        CompileError: as `open_folder` and `check_stored_figures`; MCM-U080 if its report says
            nothing about speed or is malformed.
    """
    opened = open_folder(path, further=True)
    note = check_stored_figures(opened)
    return malformed_refused(path, lambda: _side(str(path), opened, note))


def malformed_refused(path: Path, read: Callable[[], Side]) -> Side:
    """Return what `read` gives.

    Raises:
        CompileError: MCM-U080 where it finds something that is not of the schema.
    """
    try:
        return read()
    except MALFORMED as error:
        raise not_comparable(str(path), str(error) or type(error).__name__) from error


def not_comparable(at: str, reason: str) -> CompileError:
    """MCM-U080."""
    return CompileError.of("MCM-U080", f"the folder cannot be compared: {reason}", at=at)


def _side(folder: str, opened: OpenedFolder, note: Diagnostic | None) -> Side:
    report = opened.report
    replication = report.get("replication") or {}
    each = replication.get("chips_each") or int(report["target"]["chips"])
    worst = report["bottleneck"]
    pins = (report.get("options") or {}).get("pins") or []
    profile = f" (profile {opened.profile})" if opened.profile else ""
    return Side(
        folder=folder,
        family="package",
        model=str(report["model"]["name"]) + profile,
        figures=figures_of(report, _op_times(opened)),
        latency_s=report["latency_s"],
        bottleneck=None if worst is None else str(worst["text"]),
        bound_argument=report.get("bound_argument"),
        places_each=each,
        pins=tuple(f"{name}={chip}" for name, chip in pins),
        loads=_loads(report, opened.manifest.round),
        memory=tuple(
            Memory(
                f"chip {row['chip']}",
                row["weight_bytes"],
                int(row["sram_high_water_bytes"]),
                int(row["sram_bytes"]),
            )
            for row in report["chips"]
        ),
        ops=placed_ops(opened.source.graph, lambda node: _chips(node, each)),
        note=note,
        verdict={
            line["label"]: line["headline"]
            for line in verdict_of(report)["lines"]
            if line["label"] != "throughput"
        },
    )


def _op_times(opened: OpenedFolder) -> tuple[OpTime, ...]:
    """Times of all kernels, which the types of the chips' ops name."""
    graphs = {chip.chip: chip.model.graph for chip in opened.chips}
    labels = {
        (program.chip, row["name"]): kernel_phrase(row)
        for program in opened.program.chips
        for row in heaviest_ops(program, len(program.kernels), graphs.get(program.chip))
    }
    times = program_op_times(opened.program)
    return tuple(replace(op, label=labels[op.chip, op.name]) for op in times)


def _loads(report: Mapping[str, Any], classes: int) -> tuple[Load, ...]:
    loads = [
        Load("compute", f"chip {row['chip']}", row["busy_s"] / classes, row["utilisation"])
        for row in report["chips"]
    ]
    for row in report["links"] or ():
        ends = int(row["source"]), int(row["destination"])
        kind = _KINDS[channel_kind(*ends)]
        loads.append(Load(kind, _channel_name(*ends), row["busy_s"] / classes, row["utilisation"]))
    return tuple(loads)


def _channel_name(source: int, destination: int) -> str:
    """Such as `chip 0 to chip 1`."""
    if {source, destination} & {HOST_ROOT, OFF_PACKAGE_ROOT}:
        return resource_name(source, destination).removeprefix("the ")
    return f"{place_name(source)} to {place_name(destination)}"


def _chips(node: ir.Node, each: int) -> tuple[str, ...]:
    """The chips of the first pipeline that run a node."""
    text = node.metadata_props.get(CHIP_PROPERTY, "")
    chips = sorted({int(chip) for chip in text.split(",") if chip})
    return tuple(f"chip {chip}" for chip in chips if chip < each)
