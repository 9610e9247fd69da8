"""The contract of an exporter module: what it writes and what a compile has to be told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Equality = Literal["bits", "float16"]
"""How the chips' results are compared.

`bits` for equal bits; `float16` where onnxruntime's CPU kernels compute in float32 between casts,
so that a cut adds a rounding.
"""


def _no_dims() -> Mapping[str, int]:
    return {}


def _no_shapes() -> Mapping[str, tuple[int, ...]]:
    return {}


@dataclass(frozen=True)
class Export:
    """One model to write.

    Attributes:
        name: stem of the file.
        description: the network and what is special in its graph.
        write: writes the model to the path it is given; files of external data go beside it.
        dims: sizes for its symbolic dimensions.
        shapes: full shapes for inputs that have more unknown than symbolic dimensions.
        target: the package to compile for; `mcm4` where the graph is tiny.
        equality: how results are compared.
        constant_outputs: outputs that do not depend on the inputs.
    """

    name: str
    description: str
    write: Callable[[Path], None]
    dims: Mapping[str, int] = field(default_factory=_no_dims)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=_no_shapes)
    target: Literal["mcm36", "mcm4"] = "mcm36"
    equality: Equality = "bits"
    constant_outputs: tuple[str, ...] = ()
