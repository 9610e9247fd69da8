"""Files of cost models: where they are read from, and how a description names its cost model."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import onnx_ir as ir

from mcm_compiler.components.cost_choice import ReadFile
from mcm_compiler.contracts.chips import kernels_of
from mcm_compiler.contracts.cost import CostModel, MeasuredCosts
from mcm_compiler.diagnostics import CompileError, Severity, quote
from mcm_compiler.graph.constants import placeable_nodes
from mcm_compiler.text import toml_description
from mcm_compiler.text.json_text import UnreadableError, bytes_bounded

MAX_COST_FILE_BYTES = 1 << 24
"""A table of 200,000 ops with long names; it takes about 16 times as much memory when read."""

COST_TABLE = "cost"
"""Table of a target description that names cost models."""

COST_KEY = (COST_TABLE, "model")
"""Key of a target description that names a cost model."""


def user_files(folder: Path | None) -> ReadFile:
    """Reads files that a user names, relative to a folder; None where nothing may be read."""

    def read(path: str) -> bytes:
        if folder is None:
            raise _unreadable(path, "the description that names it lies in no folder")
        return _read(folder / path, path)

    return read


def stored_files(folder: Path, listed: Collection[str]) -> ReadFile:
    """Reads files of an output folder: only plain ones that its manifest lists, by their names."""

    def read(path: str) -> bytes:
        if path not in listed or Path(path).name != path:
            raise _unreadable(path, "it is no file that the manifest of the folder lists")
        if (folder / path).is_symlink():
            raise _unreadable(path, "it is a link")
        return _read(folder / path, str(folder / path))

    return read


def held_files(files: Mapping[str, bytes]) -> ReadFile:
    """Reads files that are at hand, by their names, within the bounds of files on disk."""

    def read(path: str) -> bytes:
        if path not in files:
            raise _unreadable(path, "there is no such file")
        data = files[path]
        if len(data) > MAX_COST_FILE_BYTES:
            raise _unreadable(
                path, f"it has {len(data):,} bytes, more than {MAX_COST_FILE_BYTES:,}"
            )
        return data

    return read


def cost_model_text(description: toml_description.TomlDescription) -> str | None:
    """Cost model text of a description; None where it has none."""
    return cost_model_texts(description).get(COST_KEY[1])


def cost_model_texts(description: toml_description.TomlDescription) -> dict[str, str]:
    """The texts in the table `[cost]` by key; of a box the keys are its kinds of devices."""
    table = description.data.get(COST_TABLE)
    entries = cast("dict[str, object]", table) if isinstance(table, dict) else {}
    return {key: text for key, text in entries.items() if isinstance(text, str)}


def with_cost_model_text(name: str, text: str, model: str, key: str = COST_KEY[1]) -> str:
    """A description that names `model` as its cost model.

    Args:
        name: of the target.
        text: its description; left alone where it says so already.
        model: the text form of a cost model.
        key: in the table `[cost]`; of a box a kind of device.

    Raises:
        CompileError: MCM-C008 if it has the key in a form that cannot be rewritten.
    """
    description = toml_description.parse_description(name, text)
    texts = cost_model_texts(description)
    if texts.get(key) == model:
        return text
    wanted = {**description.data, COST_TABLE: {**texts, key: model}}
    line = f"{toml_description.toml_key(key)} = {toml_description.toml_text(model)}"
    if COST_TABLE not in description.data:
        changed = f"{text.rstrip()}\n\n[{COST_TABLE}]\n{line}\n"
    else:
        lines = text.split("\n")
        at = description.line((COST_TABLE, key))
        if key in texts:
            before = lines[at - 1].partition("=")[0].rstrip()
            lines[at - 1] = f"{before} = {toml_description.toml_text(model)}"
        else:
            lines.insert(at, line)
        changed = "\n".join(lines)
    try:
        holds = toml_description.parse_description(name, changed).data == wanted
    except CompileError:
        holds = False
    if holds:
        return changed
    raise CompileError.of(
        "MCM-C008",
        "the description has a cost model in a form that cannot be exchanged",
        at=description.place((COST_TABLE, key)),
        hint=f'write {key} = "..." on a line of its own in a table [cost]',
    )


def _read(file: Path, shown: str) -> bytes:
    try:
        return bytes_bounded(file, MAX_COST_FILE_BYTES)
    except UnreadableError as error:
        raise _unreadable(shown, str(error)) from error


def _unreadable(path: str, reason: str) -> CompileError:
    return CompileError.of(
        "MCM-C004",
        f"the file of the cost model cannot be read: {reason}",
        at=quote(path)[1:-1],
        hint="name a file by its path, as in --cost-model 'table{file=times.csv}'",
    )


ENOUGH = 0.5
"""Share of the seconds that is to be measured; below, users are warned."""

FEW_HINT = "period and bound hold for these times alone; measure the longest kernels first"


@dataclass(frozen=True)
class CostCoverage:
    """Share of kernels and time that measurements cover.

    Attributes:
        ops: ops that chips run.
        measured_ops: those of them whose time was measured, alone or with their kernel.
        seconds: of all kernels, one after another on one chip of speed 1.
        measured_s: the part of `seconds` that was measured.
    """

    ops: int
    measured_ops: int
    seconds: float
    measured_s: float

    @property
    def share(self) -> float:
        """Measured seconds as a share of all; 0 where nothing takes time."""
        return self.measured_s / self.seconds if self.seconds > 0 else 0.0

    @property
    def severity(self) -> Severity:
        """A warning where most of the seconds are computed ones."""
        return Severity.WARNING if self.share < ENOUGH else Severity.NOTE

    @property
    def hint(self) -> str | None:
        """Remedy for a small share."""
        return FEW_HINT if self.measured_ops and self.share < ENOUGH else None


def measured_costs(model: CostModel) -> MeasuredCosts | None:
    """The model as one that was measured in part; None where all of it is computed."""
    # One that passes on the answers of another says whether that one was measured.
    measures = isinstance(model, MeasuredCosts) and getattr(model, "measures", True)
    return cast("MeasuredCosts", model) if measures else None


def coverage(kernels: Iterable[tuple[CostModel, Sequence[ir.Node]]]) -> CostCoverage:
    """Coverage of kernels by measured models; each is one op, or ops that run as one."""
    ops = measured = 0
    seconds: list[float] = []
    measured_s: list[float] = []
    for model, nodes in kernels:
        cost = model.group_cost(nodes)
        ops += len(nodes)
        measured += cost.measured_ops
        seconds.append(cost.seconds)
        measured_s.append(cost.measured_s)
    return CostCoverage(ops, measured, math.fsum(seconds), math.fsum(measured_s))


def kernels_of_graphs(
    chips: Iterable[tuple[CostModel, ir.Graph]], added: Collection[str]
) -> list[tuple[CostModel, tuple[ir.Node, ...]]]:
    """Kernels of the chips' graphs, without ops that were added so that a placement can run.

    Args:
        chips: model and graph of each, in order; ops that run as one carry `mcm.group`.
        added: names of copies and of ops that only pass a tensor on.
    """
    return [
        (model, tuple(nodes))
        for model, graph in chips
        for nodes in kernels_of(n for n in placeable_nodes(graph) if (n.name or "") not in added)
    ]
