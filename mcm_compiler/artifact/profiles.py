"""Profiles of an output folder: programs for several sizes that share one set of weights.

The files of the first profile have the usual names. Those of another one are `NAME.<usual name>`,
without files of weights, the target and its cost files, which are those of the first.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PosixPath

import onnx

from mcm_compiler.artifact import layout
from mcm_compiler.artifact.layout import sha256_file
from mcm_compiler.artifact.manifest import Manifest, read_manifest
from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.ir.rewriting.writer import ALIGNMENT
from mcm_compiler.text import json_text

_OWN = frozenset(
    {layout.MANIFEST, layout.ANNOTATED, layout.PROGRAM, layout.CERTIFICATE,
     layout.CERTIFICATE_ARRAYS, layout.REPORT, layout.REPORT_TEXT}
)  # fmt: skip


def is_own(name: str) -> bool:
    """Return whether each profile has a file of this usual name for itself."""
    chip = name.startswith("chip_") and name.endswith(".onnx")
    return chip or name in _OWN or layout.is_mapping_file(name)


class ProfileFolder(PosixPath):
    """An output folder as if it were that of one profile: `folder / NAME` is the profile's file.

    Attributes:
        profile: its name.
    """

    profile: str

    @classmethod
    def of(cls, folder: Path, profile: str) -> Path:
        """The folder of a profile that is not the first."""
        found = cls(folder)
        found.profile = profile
        return found

    def __truediv__(self, key: str | os.PathLike[str]) -> Path:
        name = os.fspath(key)
        return Path(os.fspath(self)) / (f"{self.profile}.{name}" if is_own(name) else name)

    def iterdir(self) -> Generator[Path]:
        """The files by their usual names."""
        for path in Path(os.fspath(self)).iterdir():
            usual = path.name.removeprefix(f"{self.profile}.")
            yield Path(usual if is_own(usual) else path.name)

    def with_segments(self, *segments: str | os.PathLike[str]) -> Path:
        """A path derived from this one, which is a plain one."""
        return Path(*segments)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


def profile_folder(folder: Path, profile: str | None) -> Path:
    """The folder as if it were that of one profile; None for the first.

    Raises:
        CompileError: MCM-A024 if the folder has none of that name, and as `read_manifest`.
    """
    if profile is None:
        return folder
    known = read_manifest(folder).profiles
    if profile not in known:
        listed = ", ".join(known) or "none"
        raise CompileError.of(
            "MCM-A024",
            f"the folder has no profile {quote(profile)}; it has: {listed}",
            at=str(folder),
        )
    return folder if profile == known[0] else ProfileFolder.of(folder, profile)


@dataclass(frozen=True)
class _Place:
    file: str
    offset: int
    length: int


@dataclass(eq=False)
class StoredWeights:
    """Weights in the data files of a folder, found by their bytes.

    Attributes:
        folder: of the first profile.
    """

    folder: Path
    _places: dict[tuple[str, bytes], _Place] = field(
        default_factory=dict[tuple[str, bytes], _Place], repr=False
    )
    _digests: dict[_Place, bytes] = field(default_factory=dict[_Place, bytes], repr=False)

    def __post_init__(self) -> None:
        for path in sorted(self.folder.glob("*.onnx")):
            self._take(_proto(path))

    def adopt(self, follower: Path, profile: str) -> None:
        """Moves the files of another profile here, without the weights that are here already.

        Args:
            follower: the folder of the profile by itself; it is left without files.
            profile: its name.
        """
        for path in sorted(follower.glob("*.onnx")):
            proto = _proto(path)
            own = f"{profile}.{path.name}.data"
            self._refer(proto, follower, f"{path.name}.data", own)
            (self.folder / f"{profile}.{path.name}").write_bytes(
                proto.SerializeToString(deterministic=True)
            )
            self._take(proto)
        for path in sorted(follower.iterdir()):
            if is_own(path.name) and path.suffix != ".onnx":
                os.replace(path, self.folder / f"{profile}.{path.name}")

    def _refer(self, proto: onnx.ModelProto, follower: Path, near: str, own: str) -> None:
        for tensor in _external(proto.graph):
            data = _bytes_at(follower, _place(tensor))
            key = hashlib.sha256(data).digest()
            place = self._places.get((near, key)) or self._places.get(("", key))
            if place is None:
                with (self.folder / own).open("ab") as file:
                    file.write(b"\0" * (-file.tell() % ALIGNMENT))
                    place = _Place(own, file.tell(), len(data))
                    file.write(data)
                self._digests[place] = key
                self._places[near, key] = self._places["", key] = place
            values = {"location": place.file, "offset": place.offset, "length": place.length}
            del tensor.external_data[:]
            for name, value in values.items():
                tensor.external_data.add(key=name, value=str(value))

    def _take(self, proto: onnx.ModelProto) -> None:
        for tensor in _external(proto.graph):
            place = _place(tensor)
            if place not in self._digests:
                digest = hashlib.sha256(_bytes_at(self.folder, place)).digest()
                self._digests[place] = digest
                self._places.setdefault((place.file, digest), place)
                self._places.setdefault(("", digest), place)


def adopted_manifest(folder: Path, profile: str, manifest: Manifest) -> None:
    """Writes the manifest of a profile whose other files are in the folder."""
    view = ProfileFolder.of(folder, profile)
    chips = tuple(
        replace(chip, shared_data=tuple(sorted(
            _files_of(_proto(view / chip.file)) - {layout.chip_data_file(chip.chip)}
        )))
        for chip in manifest.chips
    )  # fmt: skip
    data = _files_of(_proto(view / layout.ANNOTATED)).union(
        *(_files_of(_proto(view / chip.file)) for chip in chips)
    )
    names = sorted(data | {name for name in manifest.files if not name.endswith(".data")})
    files = {name: sha256_file(view / name) for name in names}
    found = replace(manifest, chips=chips, files=files)
    json_text.write(view / layout.MANIFEST, found.to_dict())


def _proto(path: Path) -> onnx.ModelProto:
    return onnx.load(path, load_external_data=False)


def _files_of(proto: onnx.ModelProto) -> set[str]:
    return {_place(tensor).file for tensor in _external(proto.graph)}


def _external(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    def of(tensors: Iterable[onnx.TensorProto]) -> Iterator[onnx.TensorProto]:
        return (t for t in tensors if t.data_location == onnx.TensorProto.EXTERNAL)

    yield from of(graph.initializer)
    for node in graph.node:
        for attribute in node.attribute:
            yield from of([attribute.t, *attribute.tensors])
            for body in (attribute.g, *attribute.graphs):
                yield from _external(body)


def _place(tensor: onnx.TensorProto) -> _Place:
    facts: Mapping[str, str] = {entry.key: entry.value for entry in tensor.external_data}
    return _Place(facts["location"], int(facts.get("offset", 0)), int(facts["length"]))


def _bytes_at(folder: Path, place: _Place) -> bytes:
    with (folder / place.file).open("rb") as file:
        file.seek(place.offset)
        return file.read(place.length)
