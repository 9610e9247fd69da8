"""The key of a cell: a hash of everything that its output depends on.

A cell is found again by what it is made of: the paths that it was given and the content of files.
A model that was touched and not changed keeps its key, however its cell is named.

An installed distribution lists the hashes of its files. One that is installed for development has
no such list, so that its sources are hashed themselves: a changed line makes other results.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import mmap
import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any, cast

from mcm_compiler.artifact.layout import sha256_file
from mcm_compiler.contracts import zoo
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.project.cache import BuildCache
from mcm_compiler.project.cells import is_path
from mcm_compiler.project.records import Cell
from mcm_compiler.report.versions import DISTRIBUTIONS
from mcm_compiler.text.toml_description import parse_description, read_description

KEY_FORMAT = 1
"""Rises with what a key is made of, or what an entry of the cache holds."""

_EXTERNAL = b"location"
"""Key of the place of external data in every tensor that has such; without it there is none."""

_DATA_SETS = "test_data_set_*"
_TOKEN = re.compile(r"[^{}=,;\"'\s]+")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


class Content:
    """Hashes of the files of a project, each read once.

    Args:
        root: the folder that paths are relative to.
        environment: see `environment_digest`.
        memory: remembers the names of external data by the hash of a model; None parses again.
    """

    def __init__(self, root: Path, environment: str, memory: BuildCache | None = None) -> None:
        self.root = root
        self._memory = memory
        self._environment = environment
        self._files: dict[Path, str] = {}
        self._models: dict[str, dict[str, Any]] = {}

    def key(self, cell: Cell) -> str:
        """The key of a cell, 64 hexadecimal digits.

        Raises:
            OSError: if a file that it is made of cannot be read.
        """
        made_of = {
            "format": KEY_FORMAT,
            "environment": self._environment,
            "model": self._model(cell),
            "target": self._description(cell.target),
            "level": self._description(str(cell.options.get("level", ""))),
            "dims": dict(cell.dims),
            "lenient": sorted(cell.lenient),
            "inputs": self._file(self.root / cell.inputs) if cell.inputs else None,
            "options": dict(cell.options),
            "sources": dict(cell.sources),
            "files": self._named_files(self.root, cell.options.values()),
        }
        text = json.dumps(made_of, sort_keys=True, default=list)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def _model(self, cell: Cell) -> dict[str, Any]:
        # The path stands in the report.
        found: dict[str, Any] = {"path": cell.model}
        if cell.model.startswith(zoo.PREFIX):
            return found
        if cell.model not in self._models:
            path = self.root / cell.model
            digest = self._file(path)
            names = self._external(path, digest)
            data = {name: self._file(path.parent / name) for name in names}
            self._models[cell.model] = {"sha256": digest, "data": data}
        tests = cell.options.get("test_data", True)
        return {
            **found,
            **self._models[cell.model],
            "test_data": self._test_data(self.root / cell.model) if tests else None,
        }

    def _external(self, model: Path, digest: str) -> list[str]:
        names = self._memory.recall(digest) if self._memory is not None else None
        if names is None:
            names = external_data(model)
            if self._memory is not None:
                self._memory.remember(digest, names)
        return [name for name in names if _is_file(model.parent / name)]

    def _test_data(self, model: Path) -> dict[str, Any] | None:
        """Test data next to a model and compared with it; None where there are none."""
        folders = sorted(path for path in model.parent.glob(_DATA_SETS) if path.is_dir())
        if not folders:
            return None
        files = [path for folder in folders for path in sorted(folder.iterdir())]
        models = sum(1 for path in model.parent.iterdir() if path.suffix == model.suffix)
        return {
            "models": models,
            "files": {
                f"{path.parent.name}/{path.name}": self._file(path)
                for path in files
                if path.is_file()
            },
        }

    def _description(self, name: str) -> dict[str, Any]:
        """A target or level: its name, and of a file its text and the files that it names."""
        if not is_path(name):
            return {"name": name}
        path = self.root / name
        try:
            data = parse_description(name, read_description(str(path))).data
        except CompileError:
            # The compile tells what is wrong with it.
            return {"name": name, "sha256": self._file(path) if path.is_file() else None}
        # A target's files lie beside its description; a level's strategy takes paths from here.
        named = {
            "beside": self._named_files(path.parent, data.values()),
            "here": self._named_files(self.root, data.values()),
        }
        return {"name": name, "sha256": self._file(path), "files": named}

    def _named_files(self, folder: Path, values: Any) -> dict[str, str]:
        """Hashes of the files that texts name, such as `table{file=times.csv}`.

        Whatever is the name of a file counts: one too many costs a compile, one too few would
        serve an old result.
        """
        names: set[str] = set()
        for text in _texts(values):
            names |= _possible_names(text)
        found: dict[str, str] = {}
        for name in sorted(names):
            path = folder / name
            try:
                if path.is_file():
                    found[name] = self._file(path)
            except (OSError, ValueError):
                continue  # a text that can be no name of a file
        return found

    def _file(self, path: Path) -> str:
        if path not in self._files:
            self._files[path] = sha256_file(path)
        return self._files[path]


def external_data(model: Path) -> list[str]:
    """Names of the files that hold the model's external data, whether they exist or not.

    Only a model that can have such is parsed. What is no ONNX file has none: its compile fails.
    """
    if not _mentions_external(model):
        return []
    from google.protobuf.message import DecodeError
    from onnx import ModelProto

    from mcm_compiler.ir.reading.external_data import external_files

    proto = ModelProto()
    try:
        proto.ParseFromString(model.read_bytes())
    except DecodeError:
        return []
    return external_files(proto)


def _mentions_external(model: Path) -> bool:
    with model.open("rb") as stream:
        try:
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return data.find(_EXTERNAL) >= 0
        except ValueError:
            return False  # empty


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _possible_names(text: str) -> set[str]:
    """All that may be the name of a file in a text: whole, without spaces, or in quotes.

    Quotes may hold a list, or a thing with options whose values are in quotes again.
    """
    found: set[str] = set()
    waiting = [text]
    while waiting:
        part = waiting.pop()
        found |= {part, *part.split(";"), *_TOKEN.findall(part)}
        waiting += [_ESCAPED.sub(r"\1", quoted) for quoted in _QUOTED.findall(part)]
    return found


def _texts(values: Any) -> Iterator[str]:
    """All texts in tables and lists."""
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            waiting += cast("Mapping[str, Any]", value).values()
        elif isinstance(value, (list, tuple)):
            waiting += cast("list[Any]", value)


PLUGIN_GROUPS = "mcm_compiler."
"""Prefix of the entry-point groups of components."""

_CODE = (".py", ".so", ".pyd", ".toml", ".json", ".npz")


def environment_digest(plugins: Iterable[Path] = ()) -> str:
    """A digest of the compiler, what it runs on, its components, and plug-in files.

    Args:
        plugins: files that register components.

    Raises:
        CompileError: MCM-X004 for a plug-in file that cannot be read.
    """
    found: dict[str, str] = {
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
    }
    for distribution in importlib.metadata.distributions():
        name = distribution.name
        entries = [e for e in distribution.entry_points if e.group.startswith(PLUGIN_GROUPS)]
        if name in DISTRIBUTIONS or entries:
            modules = {entry.value.partition(":")[0].partition(".")[0] for entry in entries}
            found.setdefault(f"distribution {name}", _code_of(distribution, sorted(modules)))
    for path in plugins:
        found[f"plug-in {path}"] = hashlib.sha256(_plugin_bytes(path)).hexdigest()
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def _plugin_bytes(path: Path) -> bytes:
    reason = "it is not a regular file"
    try:
        # A device may never end.
        if path.is_file() or not path.exists():
            return path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
    raise CompileError.of(
        "MCM-X004",
        f"the plug-in file cannot be read: {reason}",
        at=str(path),
        hint="give the path of a file that can be read",
    )


def _code_of(distribution: Distribution, modules: list[str]) -> str:
    """Version and hash of the code of a distribution.

    Args:
        distribution: that is installed.
        modules: top names of the modules that its entry points name.
    """
    if _is_editable(distribution):
        return f"{distribution.version} {_sources_digest(modules)}"
    record = distribution.read_text("RECORD") or ""
    return f"{distribution.version} {hashlib.sha256(record.encode()).hexdigest()}"


def _is_editable(distribution: Distribution) -> bool:
    try:
        origin = json.loads(distribution.read_text("direct_url.json") or "{}")
        return bool(origin.get("dir_info", {}).get("editable"))
    except (ValueError, AttributeError):
        return False


def _sources_digest(modules: list[str]) -> str:
    digest = hashlib.sha256()
    for module in modules:
        for path in _files_of(module):
            digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _files_of(module: str) -> list[Path]:
    """The files of a package or module, which is not imported."""
    spec = importlib.util.find_spec(module)
    if spec is None:
        return []
    if spec.submodule_search_locations is None:
        return [Path(spec.origin)] if spec.origin else []
    found: list[Path] = []
    for place in spec.submodule_search_locations:
        for here, folders, files in os.walk(place):
            folders[:] = sorted(name for name in folders if not name.startswith((".", "__")))
            found += [Path(here, name) for name in sorted(files) if name.endswith(_CODE)]
    return found
