"""`manifest.json`: what lies in an output folder and how its parts fit together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, cast

from mcm_compiler.artifact import json_text, layout
from mcm_compiler.artifact.json_shapes import (
    Flag,
    ListOf,
    Maybe,
    Pair,
    Record,
    Table,
    Text,
    Whole,
)
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.replication import ChipRole, chip_roles
from mcm_compiler.target import HOST, Routing, Wire

SCHEMA_VERSION = 1

MAX_JSON_BYTES = 1 << 28
"""Size of a JSON file of an output folder; the program of 100,000 ops has a quarter of it."""

_PLACE = Whole(HOST, 2**31 - 1)
_TEXTS = ListOf(Text())
_TENSORS = ListOf(
    Record({"name": Text(), "dtype": Text(), "shape": Maybe(ListOf(Whole(0)))}),
)

MANIFEST_SHAPE = Record(
    {
        "model": Text(),
        "model_sha256": Text(),
        "target": Text(),
        "target_sha256": Text(),
        "routing": Text(("strict", "relay")),
        "seed": Whole(0, 2**63),
        "shape_only": Flag(),
        "inputs": _TENSORS,
        "outputs": _TENSORS,
        "wires": ListOf(
            Record({"tensor": Text(), "source": _PLACE, "destinations": ListOf(_PLACE)})
        ),
        "chips": ListOf(
            Record(
                {
                    "chip": Whole(0, 2**31 - 1),
                    "file": Text(),
                    "inputs": _TEXTS,
                    "outputs": _TEXTS,
                    "receives": ListOf(Pair(Text(), _PLACE)),
                    "sends": ListOf(Pair(Text(), _PLACE)),
                    "weights": ListOf(Record({"name": Text(), "bytes": Whole(0)})),
                    "order": _TEXTS,
                }
            )
        ),
        "files": Table(Text()),
    },
    {
        "replicas": Whole(1, 2**31 - 1),
        "chips_each": Whole(1, 2**31 - 1),
        "pipeline": Text(),
        "unfollowed_passes": _TEXTS,
        "dims": Table(Whole(1)),
        "shapes": Table(ListOf(Whole(0))),
        "placement": ListOf(
            Record(
                {
                    "chip": Whole(0, 2**31 - 1),
                    "pipeline": Whole(0, 2**31 - 1),
                    "runs": Whole(0, 2**31 - 1),
                }
            )
        ),
    },
)
"""What `manifest.json` holds besides its version."""


@dataclass(frozen=True)
class WeightEntry:
    """One weight of a chip.

    Attributes:
        name: of the initializer.
        bytes: as stored in the ONNX file.
    """

    name: str
    bytes: int


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
    shape: tuple[int, ...] | None


@dataclass(frozen=True)
class ChipEntry:
    """One chip's model.

    Attributes:
        chip: index on the ring.
        file: its ONNX file.
        inputs: graph inputs of the file.
        outputs: graph outputs of the file.
        receives: `(tensor, sending chip or -1)` for each input.
        sends: `(tensor, receiving chip or -1)` for each output and receiver.
        weights: its initializers, then those in bodies of control flow.
        order: names of its nodes in execution order.
    """

    chip: int
    file: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    receives: tuple[tuple[str, int], ...]
    sends: tuple[tuple[str, int], ...]
    weights: tuple[WeightEntry, ...]
    order: tuple[str, ...]


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
        shapes: shapes of inputs that the user gave.
    """

    model: str
    model_sha256: str
    target: str
    target_sha256: str
    routing: Routing
    seed: int
    shape_only: bool
    inputs: tuple[TensorEntry, ...]
    outputs: tuple[TensorEntry, ...]
    wires: tuple[Wire, ...]
    chips: tuple[ChipEntry, ...]
    files: dict[str, str]
    replicas: int = 1
    chips_each: int = 0
    pipeline: str = ""
    unfollowed_passes: tuple[str, ...] = ()
    dims: Mapping[str, int] = field(default_factory=dict[str, int])
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])

    @property
    def placement(self) -> Iterator[ChipRole]:
        """What every used chip of the package runs, ascending; the file spells it out."""
        used = tuple(sorted(chip.chip for chip in self.chips))
        return chip_roles(self.replicas, self.chips_each, used)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        placement = [asdict(role) for role in self.placement]
        return {"schema_version": SCHEMA_VERSION, **asdict(self), "placement": placement}


def write_manifest(manifest: Manifest, folder: Path) -> None:
    """Writes `manifest.json`."""
    json_text.write(folder / layout.MANIFEST, manifest.to_dict())


def read_manifest(folder: Path) -> Manifest:
    """Reads `manifest.json` of an output folder.

    Raises:
        CompileError: MCM-A004 if the folder or the file is missing, MCM-A005 if it is damaged,
            of another schema version, or names a file outside the folder.
    """
    path = folder / layout.MANIFEST
    if path.is_symlink():
        raise damaged(path, "it is a link")
    if not path.is_file():
        raise CompileError(
            Diagnostic(
                "MCM-A004",
                "this is not an output folder of mcmc: it has no manifest.json",
                at=str(folder),
                hint="name the folder that mcmc compile wrote",
            )
        )
    data = read_json(path)
    version = data.get("schema_version")
    if version != SCHEMA_VERSION:
        shown = quote(str(version)) if isinstance(version, (int, str)) else "something else"
        raise damaged(path, f"schema version {shown}, this release reads {SCHEMA_VERSION}")
    fault = MANIFEST_SHAPE.fault(data, "")
    if fault is not None:
        raise damaged(path, fault)
    manifest = _from_dict(data)
    for name in (*manifest.files, *(chip.file for chip in manifest.chips)):
        if PurePosixPath(name).name != name or name in ("", ".", ".."):
            raise damaged(path, f"{quote(name)} is not the name of a file in the folder")
    if "placement" in data and not _is_placement(data["placement"], manifest):
        raise damaged(
            path,
            "placement is not what chips, replicas and chips_each say: chip "
            "pipeline * chips_each + runs runs the model of chip runs",
        )
    return manifest


def _is_placement(rows: Sequence[Mapping[str, int]], manifest: Manifest) -> bool:
    # Lengths first: a number of replicas from strangers may be anything.
    if len(rows) != manifest.replicas * len(manifest.chips):
        return False
    return all(row == asdict(role) for row, role in zip(rows, manifest.placement, strict=True))


def read_json(path: Path) -> Mapping[str, Any]:
    """Reads a JSON object.

    Raises:
        CompileError: MCM-A005 if the file is missing or holds something else.
    """
    try:
        # A pipe or a device would keep the reader for ever.
        if path.exists() and not path.is_file():
            raise damaged(path, "it is not a plain file")
        if (size := path.stat().st_size) > MAX_JSON_BYTES:
            raise damaged(path, f"it has {size:,} bytes, more than {MAX_JSON_BYTES:,}")
        data = json.loads(
            path.read_bytes(), parse_constant=_refuse_constant, object_pairs_hook=_single_keys
        )
    except RecursionError as error:
        raise damaged(path, "it is nested too deep") from error
    except OSError as error:
        raise damaged(path, error.strerror or str(error)) from error
    except ValueError as error:
        raise damaged(path, f"it is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise damaged(path, "it does not hold a JSON object")
    return data


def _single_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; two readers need not take the same of two values of one key."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a key twice")
    return found


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is no number there")


def damaged(path: Path, reason: str) -> CompileError:
    """The diagnostic for a file of the output folder that cannot be used."""
    return CompileError(
        Diagnostic(
            "MCM-A005", f"{path.name} is damaged: {reason}", at=str(path), hint="compile again"
        )
    )


def sha256_file(path: Path) -> str:
    """Hex digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _from_dict(data: Mapping[str, Any]) -> Manifest:
    return Manifest(
        model=str(data["model"]),
        model_sha256=str(data["model_sha256"]),
        target=str(data["target"]),
        target_sha256=str(data["target_sha256"]),
        routing=cast("Routing", data["routing"]),
        seed=int(data["seed"]),
        shape_only=bool(data["shape_only"]),
        inputs=tuple(map(_tensor_entry, data["inputs"])),
        outputs=tuple(map(_tensor_entry, data["outputs"])),
        wires=tuple(
            Wire(str(w["tensor"]), int(w["source"]), tuple(int(d) for d in w["destinations"]))
            for w in data["wires"]
        ),
        chips=tuple(
            ChipEntry(
                chip=int(c["chip"]),
                file=str(c["file"]),
                inputs=tuple(c["inputs"]),
                outputs=tuple(c["outputs"]),
                receives=tuple((str(t), int(k)) for t, k in c["receives"]),
                sends=tuple((str(t), int(k)) for t, k in c["sends"]),
                weights=tuple(WeightEntry(str(w["name"]), int(w["bytes"])) for w in c["weights"]),
                order=tuple(c["order"]),
            )
            for c in data["chips"]
        ),
        files={str(k): str(v) for k, v in data["files"].items()},
        replicas=int(data.get("replicas", 1)),
        chips_each=int(data.get("chips_each", 0)),
        pipeline=str(data.get("pipeline", "")),
        unfollowed_passes=tuple(data.get("unfollowed_passes", ())),
        dims={str(name): int(size) for name, size in data.get("dims", {}).items()},
        shapes={
            str(name): tuple(int(size) for size in shape)
            for name, shape in data.get("shapes", {}).items()
        },
    )


def _tensor_entry(data: Mapping[str, Any]) -> TensorEntry:
    shape = data["shape"]
    dims = None if shape is None else tuple(int(dim) for dim in shape)
    return TensorEntry(str(data["name"]), str(data["dtype"]), dims)
