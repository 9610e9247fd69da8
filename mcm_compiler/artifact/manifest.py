"""`manifest.json`: what is in an output folder and how its parts fit together."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, TypeVar

from msgspec import Meta, to_builtins

from mcm_compiler.additions import OtherTargets
from mcm_compiler.artifact import layout
from mcm_compiler.components.cost_files import stored_files
from mcm_compiler.components.target_loading import target_from_text
from mcm_compiler.contracts.chips import with_state_wires
from mcm_compiler.contracts.replication import ChipRole, chip_roles
from mcm_compiler.contracts.target import ChipState, Routing, Target, Wire
from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.graph.rounds import class_names, class_of
from mcm_compiler.machines.choices import MOST_CLASSES, MOST_SEQUENCES
from mcm_compiler.registry import ADDITIONS
from mcm_compiler.text import json_text
from mcm_compiler.text.json_text import (
    Count,
    Index,
    Place,
    Seed,
    Size,
    UnreadableError,
    parse_json,
    read_bounded,
    record_of,
)

T = TypeVar("T")

SCHEMA_VERSION = 1

PLACEMENT_KIND = "placement"
"""Kind of manifests that are none of a compiled model."""

PROFILE_NAME = r"^[a-z0-9][a-z0-9_-]{0,63}$"
"""Pattern of names of profiles; names of files begin with them."""

MAX_JSON_BYTES = 1 << 28
"""Size of a JSON file of an output folder; the program of 100,000 ops has a quarter of it."""


@dataclass(frozen=True)
class WeightEntry:
    """One weight of a chip.

    Attributes:
        name: of the initializer.
        bytes: as stored in the ONNX file.
    """

    name: str
    bytes: Size


@dataclass(frozen=True)
class TensorEntry:
    """A graph input or output of the source model.

    Attributes:
        name: of the tensor.
        dtype: ONNX element type in lower case, or the whole type where it is not a tensor.
        shape: static shape, or None where it is not known.
    """

    name: str
    dtype: str
    shape: tuple[Size, ...] | None


@dataclass(frozen=True)
class ChipEntry:
    """One chip's model.

    Attributes:
        chip: index on the ring.
        file: its ONNX file.
        inputs: graph inputs of the file.
        outputs: graph outputs of the file.
        receives: `(tensor, sending chip or -1)` for each input; the chip itself for a past that
            stays.
        sends: `(tensor, receiving chip or -1)` for each output and receiver; likewise.
        weights: its initializers, then those in bodies of control flow.
        order: names of its nodes in execution order.
        shared_data: files of weights that further chips need, besides `chip_data_file`.
    """

    chip: Index
    file: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    receives: tuple[tuple[str, Place], ...]
    sends: tuple[tuple[str, Place], ...]
    weights: tuple[WeightEntry, ...]
    order: tuple[str, ...]
    shared_data: tuple[str, ...] = ()

    @property
    def classes(self) -> tuple[int, ...]:
        """Classes of a round that its ops belong to, ascending."""
        names = (*self.inputs, *self.outputs, *self.order)
        return tuple(sorted({found[1] for found in map(class_of, names) if found is not None}))


@dataclass(frozen=True)
class FolderStates:
    """States that stay on the chips from one inference of a sequence to the next.

    Attributes:
        held: each state with its chip. No wire brings its past, or takes its present to the host.
        sequences: in flight, whose states the chips hold at once.
        reserved: sequences that the placement had to leave space for.
    """

    held: tuple[ChipState, ...] = ()
    sequences: Annotated[int, Meta(ge=1, le=MOST_SEQUENCES)] = 1
    reserved: Annotated[int, Meta(ge=1, le=MOST_SEQUENCES)] = 1

    def of_chip(self, chip: int) -> tuple[ChipState, ...]:
        """The states of one chip."""
        return tuple(state for state in self.held if state.chip == chip)


@dataclass(frozen=True)
class Counted:
    """Counts and times of the simulation, and further fields of the report.

    Attributes:
        trip_counts: stated trip counts of loops of the source model.
        inferences: that the simulation was asked for; 0 where an older release has not said.
        stated: fields of the report that follow from nothing else in the folder, by their names;
            empty where an older release has not recorded them.
        round: inferences that each pipeline computes together; class k of them is inference k
            modulo this number, and its ops, inputs and outputs are named after it.
        profiles: names of the programs that share the weights, from the first, which this manifest
            is about; see `mcm_compiler.artifact.profiles`. Empty where there is one alone.
    """

    trip_counts: Mapping[str, Size] = field(default_factory=dict[str, int])
    inferences: Size = 0
    stated: Mapping[str, Any] = field(default_factory=dict[str, Any])
    round: Annotated[int, Meta(ge=1, le=MOST_CLASSES)] = 1
    profiles: tuple[Annotated[str, Meta(pattern=PROFILE_NAME)], ...] = ()


@dataclass(frozen=True)
class Manifest:
    """The table of contents of an output folder.

    Attributes:
        model: name of the source model.
        model_sha256: hash of the source model.
        target: name of the package.
        target_sha256: hash of `target.toml`.
        routing: rule for long dependencies.
        seed: seed of the compile.
        shape_only: whether weights are placeholders.
        inputs: graph inputs of the source model, without those that have a default (weights).
        outputs: graph outputs of the source model.
        wires: all tensors that travel.
        chips: all chips that are used.
        files: sha256 of every other file by name.
        replicas: pipelines side by side that run these chips' models.
        chips_each: chips of the package from one pipeline to the next: chip `r * chips_each + c`
            runs the model of chip `c`; 0 where one pipeline has all.
        pipeline: the passes that made the folder.
        unfollowed_passes: those of them whose changes no rule of the proof by structure covers.
        dims: sizes of symbolic dimensions that the user gave.
        shapes: shapes of inputs that the user gave, as such or by arrays.
        states: what stays on the chips.
        counted: what was counted.
    """

    model: str
    model_sha256: str
    target: str
    target_sha256: str
    routing: Routing
    seed: Seed
    shape_only: bool
    inputs: tuple[TensorEntry, ...]
    outputs: tuple[TensorEntry, ...]
    wires: tuple[Wire, ...]
    chips: tuple[ChipEntry, ...]
    files: dict[str, str]
    replicas: Count = 1
    chips_each: Count = 0
    pipeline: str = ""
    unfollowed_passes: tuple[str, ...] = ()
    dims: Mapping[str, Size] = field(default_factory=dict[str, int])
    shapes: Mapping[str, tuple[Size, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    states: FolderStates = FolderStates()
    counted: Counted = Counted()

    def with_stated(self, stated: Mapping[str, Any]) -> Manifest:
        """The manifest with what the report states."""
        return replace(self, counted=replace(self.counted, stated=stated))

    @property
    def round(self) -> int:
        """Inferences that each pipeline computes together."""
        return self.counted.round

    @property
    def profiles(self) -> tuple[str, ...]:
        """Names of the programs that share the weights; empty where there is one alone."""
        return self.counted.profiles

    @property
    def at_once(self) -> int:
        """Inferences that the package completes in each period of one pipeline."""
        return self.replicas * self.round

    def of_classes(self, entries: Iterable[TensorEntry]) -> tuple[TensorEntry, ...]:
        """Inputs or outputs of the source model as the chips have them."""
        return tuple(
            replace(entry, name=name)
            for entry in entries
            for name in class_names(entry.name, self.round)
        )

    @property
    def run_wires(self) -> tuple[Wire, ...]:
        """The wires of one inference, with states that come and go; see `with_state_wires`."""
        return with_state_wires(self.wires, self.states.held)

    @property
    def placement(self) -> Iterator[ChipRole]:
        """Roles of every used chip of the package, ascending; the file spells them out."""
        served = {chip.chip: chip.classes if self.round > 1 else () for chip in self.chips}
        return chip_roles(self.replicas, self.chips_each, dict(sorted(served.items())))

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        placement = [role.to_dict() for role in self.placement]
        own = to_builtins(self)
        # Of a manifest that was read, a field that its file leaves out is missing here, too.
        if self.round == 1:
            own["counted"].pop("round", None)
        if not self.profiles:
            own["counted"].pop("profiles", None)
        for state in own["states"]["held"]:
            if not state.get("places"):
                state.pop("places", None)
        for chip in own["chips"]:
            if not chip.get("shared_data"):
                chip.pop("shared_data", None)
        return {"schema_version": SCHEMA_VERSION, **own, "placement": placement}


def write_manifest(manifest: Manifest, folder: Path) -> None:
    """Writes `manifest.json`."""
    json_text.write(folder / layout.MANIFEST, manifest.to_dict())


def read_manifest(folder: Path) -> Manifest:
    """Reads `manifest.json` of an output folder.

    Raises:
        CompileError: MCM-A004 if the folder or the file is missing, MCM-A005 if it is damaged,
            of another schema version, or names a file outside the folder, MCM-D085 if it is that
            of a placement.
    """
    path = folder / layout.MANIFEST
    if path.is_symlink():
        raise damaged(path, "it is a link")
    if not path.is_file():
        raise no_output_folder(folder)
    data = read_json(path)
    if data.get("kind") == PLACEMENT_KIND:
        raise CompileError.of(
            "MCM-D085",
            "this is the folder of a placement, and nothing in it is compiled for chips",
            at=str(folder),
        )
    version = data.get("schema_version")
    if version != SCHEMA_VERSION:
        shown = quote(str(version)) if isinstance(version, (int, str)) else "something else"
        raise damaged(path, f"schema version {shown}, this release reads {SCHEMA_VERSION}")
    manifest = folder_record(path, data, Manifest)
    refuse_outside(path, (*manifest.files, *(chip.file for chip in manifest.chips)))
    if "placement" in data and not _is_placement(data["placement"], manifest):
        raise damaged(
            path,
            "placement is not what chips, replicas, chips_each and round say: chip "
            "pipeline * chips_each + runs runs the model of chip runs",
        )
    return manifest


def refuse_outside(manifest: Path, names: Iterable[str]) -> None:
    """Refuses a manifest with a name that leads out of its folder.

    Raises:
        CompileError: MCM-A005.
    """
    for name in names:
        if PurePosixPath(name).name != name or name in ("", ".", ".."):
            raise damaged(manifest, f"{quote(name)} is not the name of a file in the folder")


def _is_placement(rows: Any, manifest: Manifest) -> bool:
    # Lengths first: an untrusted number of replicas may be anything.
    if not isinstance(rows, list) or len(rows) != manifest.replicas * len(manifest.chips):
        return False
    roles = manifest.placement
    return all(row == role.to_dict() for row, role in zip(rows, roles, strict=True))


def read_json(path: Path) -> Mapping[str, Any]:
    """Reads a JSON object.

    Raises:
        CompileError: MCM-A005 if the file is missing or holds something else.
    """
    try:
        return record_of(parse_json(read_bounded(path, MAX_JSON_BYTES)), dict[str, Any])
    except UnreadableError as error:
        raise damaged(path, str(error)) from error


def is_placement(path: Path) -> bool:
    """Return whether the manifest of a folder says that it holds a placement."""
    manifest = path / layout.MANIFEST
    if manifest.is_symlink() or not manifest.is_file():
        return False
    try:
        return read_json(manifest).get("kind") == PLACEMENT_KIND
    except CompileError:
        return False


def other_folder(path: Path) -> OtherTargets | None:
    """The other verb that wrote a folder; None for a folder of `mcmc compile`."""
    return ADDITIONS.get(PLACEMENT_KIND).other if is_placement(path) else None


def folder_record(path: Path, data: Mapping[str, Any], kind: type[T]) -> T:
    """The record that the JSON of a file stands for.

    Raises:
        CompileError: MCM-A005 for the first part that does not fit.
    """
    try:
        return record_of(data, kind)
    except UnreadableError as error:
        raise damaged(path, str(error)) from None


def no_output_folder(path: Path) -> CompileError:
    """The diagnostic for a path that is no folder with a manifest."""
    if not path.exists():
        hint = f"write it with `mcmc compile MODEL -o {shlex.quote(str(path))}`"
        return CompileError.of("MCM-A004", "no such folder", str(path), hint)
    lack = "it has no manifest.json" if path.is_dir() else "it is a file"
    message = f"this is not an output folder of mcmc: {lack}"
    return CompileError.of("MCM-A004", message, at=str(path))


def damaged(path: Path, reason: str) -> CompileError:
    """The diagnostic for a file of the output folder that cannot be used."""
    return CompileError.of("MCM-A005", f"{path.name} is damaged: {reason}", at=str(path))


def folder_target(folder: Path) -> Target:
    """The package that a folder was compiled for, from its `target.toml`.

    Raises:
        CompileError: MCM-A004 if `folder` is not an output folder, MCM-A005 if the file is
            missing, MCM-T### if it is faulty, MCM-C### if its cost model cannot be used.
    """
    return target_of(folder, read_manifest(folder))


def target_of(folder: Path, manifest: Manifest) -> Target:
    """The same where the manifest is known."""
    path = folder / layout.TARGET
    read = stored_files(folder, manifest.files)
    return target_from_text(manifest.target, description_text(path), str(path), read)


def description_text(path: Path) -> str:
    """The description of a target in an output folder.

    Raises:
        CompileError: MCM-A005 if it cannot be read.
    """
    try:
        if path.stat().st_size > MAX_JSON_BYTES or not path.is_file():
            raise damaged(path, "it is no description of a target")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise damaged(path, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise damaged(path, "it is not UTF-8 text") from error
