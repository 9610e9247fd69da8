"""Results of an exploration so far, in a file next to its final result.

A line for each point, written as it comes, so that a killed exploration goes on where it was. The
file goes when the result is written. A last line without an end was cut off, and counts as none.

`docs/reference/schema/exploration.schema.json` is rendered from these records.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypedDict

import msgspec

from mcm_compiler.contracts.requests import Measure
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.processes.staging import cannot_write, refuse_irregular
from mcm_compiler.results.points import FaultRow, PlacedPoint, PointFacts
from mcm_compiler.text.json_text import Index, Seed

SUFFIX = ".part"

MAX_BYTES = 1 << 28
"""A line has some hundred bytes, with faults a few thousand."""

Key = tuple[int, int]
"""Position of the model, and of the point."""


class _Line(msgspec.Struct):
    model: Index
    sha256: str
    point: Index
    facts: PlacedPoint


def journal_path(result: Path) -> Path:
    """The journal of the exploration whose result is written there."""
    return result.with_name(result.name + SUFFIX)


def request_digest(request: Mapping[str, Any]) -> str:
    """Identity key of an exploration, and of the layout of its journal."""
    asked = [msgspec.json.schema(_Line), request]
    text = json.dumps(asked, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


class Journal(AbstractContextManager["Journal"]):
    """The journal of one exploration.

    Args:
        path: the file.
        digest: of what was asked for.
        resume: whether what the file holds is taken over.

    Attributes:
        found: points of earlier runs, with the hash of their model's file.

    Raises:
        CompileError: MCM-U063 for a journal that is there where none should be, that lacks, or that
            is of something else; MCM-A002 and MCM-U050 if it cannot be written.
    """

    def __init__(self, path: Path, digest: str, *, resume: bool) -> None:
        self.found: dict[Key, tuple[str, PlacedPoint]] = {}
        self._path = path
        refuse_irregular(path)
        head = json.dumps({"exploration": digest}).encode() + b"\n"
        kept = head
        if resume:
            kept = self._read(head)
        elif path.exists():
            raise _refused(
                path,
                "an exploration that was interrupted has left its journal here",
                "go on with --resume, or start again with --force",
            )
        try:
            self._stream: BinaryIO = path.open("r+b" if resume else "xb")
            if resume:
                # A kill in between leaves the file as it is, or without its torn end.
                self._stream.truncate(min(len(kept), self._path.stat().st_size))
                self._stream.seek(0)
            self._write(kept)
        except OSError as error:
            raise cannot_write(error, path) from error

    def _read(self, head: bytes) -> bytes:
        try:
            with self._path.open("rb") as stream:
                data = stream.read(MAX_BYTES + 1)
        except FileNotFoundError:
            raise _refused(
                self._path, "there is no journal to go on with", "leave --resume out"
            ) from None
        except OSError as error:
            raise cannot_write(error, self._path) from error
        if len(data) > MAX_BYTES:
            raise _refused(self._path, f"it has more than {MAX_BYTES:,} bytes")
        if head.startswith(data):
            return head  # killed before it found anything
        if not data.startswith(head):
            raise _refused(
                self._path,
                "the journal is of other models, sweeps, options, or versions",
                "ask for the same as before, or start again with --force",
            )
        whole = len(head)
        for line in data[whole:].splitlines(keepends=True):
            if not line.endswith(b"\n"):
                break
            try:
                one = msgspec.json.decode(line, type=_Line)
            except msgspec.DecodeError as error:
                what = f"a line of the journal is damaged: {error}"
                raise _refused(self._path, what) from None
            self.found[one.model, one.point] = (one.sha256, one.facts)
            whole += len(line)
        return data[:whole]

    def add(self, key: Key, sha256: str, facts: PlacedPoint) -> None:
        """Keeps a point.

        Raises:
            CompileError: MCM-A002 if it cannot be written.
        """
        model, point = key
        try:
            self._write(msgspec.json.encode(_Line(model, sha256, point, facts)) + b"\n")
        except OSError as error:
            raise cannot_write(error, self._path) from error

    def _write(self, data: bytes) -> None:
        self._stream.write(data)
        self._stream.flush()

    def end(self) -> None:
        """Takes the file away: the result is written."""
        self._stream.close()
        self._path.unlink(missing_ok=True)

    def __exit__(self, *_: object) -> None:
        self._stream.close()


def _refused(path: Path, what: str, hint: str = "start again with --force") -> CompileError:
    return CompileError.of("MCM-U063", what, at=str(path), hint=hint)


# ruff: noqa: UP013 - a row of few keys is one line here


SweptKey = TypedDict("SweptKey", {"key": str, "values": list[bool | float | str]})
"""A key that was swept.

Attributes:
    key: dotted, of the target's description.
    values: in the order given.
"""


class ExploredPoint(PointFacts):
    """A combination of values, and the model's results there.

    Attributes:
        settings: value of each swept key.
        front: whether no other point of the model is as good in all measures and better in one.
        same_as: position of an earlier point whose target has the same content, so that it was
            compiled once; null for others.
    """

    settings: dict[str, bool | float | str]
    front: bool
    same_as: Index | None


class ExploredModel(TypedDict):
    """A model on all combinations.

    Attributes:
        name: file name of the model, or zoo:NAME.
        sha256: hash of the model and its external data; null where it could not be read.
        measures: what its front is of.
        points: in the order of the sweeps, the last of which runs fastest; empty where the model
            could not be read.
        faults: why it could not be read.
    """

    name: str
    sha256: str | None
    measures: list[Measure]
    points: list[ExploredPoint]
    faults: list[FaultRow]


ExploredTarget = TypedDict("ExploredTarget", {"name": str, "sha256": str})
"""The target that the combinations change.

Attributes:
    sha256: of its description.
"""


class Exploration(TypedDict):
    """Results of `mcmc explore`. Equal requests and versions give equal bytes.

    Attributes:
        schema_version: version of this schema.
        target: what was changed.
        sweeps: in the order given.
        pipeline: passes of each compile; those that write or verify did not run.
        level: effort of the search.
        partitioner: partition strategy that was asked for; auto for that of the level.
        seed: of everything random.
        models: in the order given.
        versions: versions of the distributions that decide the result, and of Python.
    """

    schema_version: Literal[1]
    target: ExploredTarget
    sweeps: list[SweptKey]
    pipeline: str
    level: int | str
    partitioner: str
    seed: Seed
    models: list[ExploredModel]
    versions: dict[str, str | None]
