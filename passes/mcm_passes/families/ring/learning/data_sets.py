"""Which models a policy is trained and validated on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from mcm_compiler.bounded_json import UnreadableError, parse_json, read_bounded
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_models.policy.dataset import split

DEFAULT_DATA_SET = "mcm87"
"""The zoo's 87 convolutional and recurrent models."""

MAX_FILE_BYTES = 1 << 24
_PARTS = ("train", "validation")


@dataclass(frozen=True)
class DataSet:
    """Models by what the compiler's driver takes: `zoo:` and a builder, or a path.

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
        raise CompileError(
            Diagnostic(
                "MCM-L011",
                f"the data set cannot be read: {error}",
                at=quote(name),
                hint=f"take '{DEFAULT_DATA_SET}', or a JSON file with the lists train and "
                "validation of models",
            )
        ) from error


def _from_json(name: str, data: Any) -> DataSet:
    if not isinstance(data, dict):
        raise UnreadableError("it is no JSON object")
    fields = cast("dict[str, Any]", data)
    if unknown := sorted(fields.keys() - set(_PARTS)):
        raise UnreadableError(f"it has an unknown key {quote(unknown[0])}")
    lists: list[tuple[str, ...]] = []
    for part in _PARTS:
        models = fields.get(part)
        if not isinstance(models, list) or not models:
            raise UnreadableError(f"its '{part}' is not a list of models")
        texts = cast("list[Any]", models)
        if not all(isinstance(text, str) for text in texts):
            raise UnreadableError(f"its '{part}' holds something that is no text")
        lists.append(tuple(texts))
    return DataSet(name, *lists)
