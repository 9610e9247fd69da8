"""Models of a data set with sizes of their symbolic dimensions: `model.onnx{batch=1;8,seq=128}`.

What stands in braces behind a file are sizes; behind `zoo:NAME` it is the builder's options, which
have sizes among them.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from pathlib import Path

from mcm_compiler.contracts.zoo import PREFIX
from mcm_compiler.diagnostics import quote
from mcm_compiler.text.json_text import UnreadableError

MAX_VARIANTS = 256
"""Sizes of one model that an entry may stand for."""

_SIZED = re.compile(r"(?P<path>[^{]+)\{(?P<sizes>[^{}]*)\}")
_SIZE = re.compile(r"[1-9][0-9]{0,17}")


@dataclass(frozen=True)
class SizedModel:
    """What a compile takes.

    Attributes:
        model: a path, or `zoo:` and a builder.
        dims: sizes of symbolic dimensions by name.
    """

    model: str
    dims: dict[str, int] = field(default_factory=dict[str, int])


def sized_model(text: str) -> SizedModel:
    """The model of an entry that has one size for each dimension, as `each_size` gives them.

    Raises:
        UnreadableError: if braces hold anything else than sizes.
    """
    path, sizes = _parsed(text)
    return SizedModel(path, {name: values[0] for name, values in sizes.items()})


def each_size(text: str) -> tuple[str, ...]:
    """The entries that an entry with several sizes stands for, each with one size by dimension.

    Args:
        text: such as `model.onnx{batch=1;8,seq=128}`, which gives two.

    Raises:
        UnreadableError: if braces hold anything else than sizes, or stand for more than
            `MAX_VARIANTS` models.
    """
    path, sizes = _parsed(text)
    if not sizes:
        return (text,)
    count = 1
    for values in sizes.values():
        count *= len(values)
    if count > MAX_VARIANTS:
        raise UnreadableError(
            f"{quote(text)} stands for {count} sizes; {MAX_VARIANTS} are the most"
        )
    return tuple(
        f"{path}{{{','.join(f'{name}={size}' for name, size in zip(sizes, each, strict=True))}}}"
        for each in itertools.product(*sizes.values())
    )


def _parsed(text: str) -> tuple[str, dict[str, tuple[int, ...]]]:
    """The path, and the sizes of each dimension in their order; none for what has no braces."""
    found = _SIZED.fullmatch(text)
    # A file may have any name.
    if found is None or text.startswith(PREFIX) or Path(text).exists():
        return text, {}
    sizes: dict[str, tuple[int, ...]] = {}
    for part in found["sizes"].split(","):
        name, equals, values = part.strip().rpartition("=")
        given = [value.strip() for value in values.split(";")]
        if not equals or not name or not all(map(_SIZE.fullmatch, given)):
            raise UnreadableError(
                f"{quote(part)} in {quote(text)} is no size such as batch=8, or batch=1;8 for two"
            )
        if name in sizes:
            raise UnreadableError(f"{quote(name)} has sizes twice in {quote(text)}")
        sizes[name] = tuple(dict.fromkeys(map(int, given)))
    return found["path"].strip(), sizes
