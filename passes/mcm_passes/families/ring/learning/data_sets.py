"""Which models a policy is trained and validated on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Struct

from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.text.json_text import UnreadableError, parse_json, read_bounded, record_of
from mcm_models.policy.dataset import split
from mcm_passes.families.ring.learning.sized_models import each_size

DEFAULT_DATA_SET = "mcm87"
"""The zoo's 87 convolutional and recurrent models."""

MAX_FILE_BYTES = 1 << 24


@dataclass(frozen=True)
class DataSet:
    """Models by what `sized_model` takes: `zoo:` and a builder, or a path, with or without sizes.

    Attributes:
        name: as the user gave it.
        train: models to learn from.
        validation: models that choose among checkpoints.
    """

    name: str
    train: tuple[str, ...]
    validation: tuple[str, ...]

    @property
    def digest(self) -> str:
        """SHA-256 of the names of its models."""
        text = "\n".join([*self.train, "", *self.validation])
        return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def data_set(name: str) -> DataSet:
    """The data set of a name, or of a JSON file `{"train": [...], "validation": [...]}`.

    Raises:
        CompileError: MCM-L011 if it is neither.
    """
    if name == DEFAULT_DATA_SET:
        parts = split()
        return DataSet(
            name,
            tuple(f"zoo:{spec}" for spec in parts.train),
            tuple(f"zoo:{spec}" for spec in parts.validation),
        )
    try:
        return _from_json(name, parse_json(read_bounded(Path(name), MAX_FILE_BYTES)))
    except UnreadableError as error:
        raise CompileError.of(
            "MCM-L011",
            f"the data set cannot be read: {error}",
            at=quote(name),
            hint=f"take '{DEFAULT_DATA_SET}', or a JSON file with the lists train and "
            "validation of models",
        ) from error


class _DataSetFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A data set of a user's own."""

    train: tuple[str, ...]
    validation: tuple[str, ...]


def _from_json(name: str, data: Any) -> DataSet:
    found = record_of(data, _DataSetFile)
    if not found.train or not found.validation:
        raise UnreadableError("it lists no models to learn from, or none to choose by")
    train, validation = (
        tuple(entry for text in part for entry in each_size(text))
        for part in (found.train, found.validation)
    )
    return DataSet(name, train, validation)
