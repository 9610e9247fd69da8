"""The contract of a zoo model: a named builder that makes an ONNX model from its options.

A builder is a frozen dataclass registered as kind `zoo`.
Its fields are its options, so `zoo:bert{layers=48}` on the command line sets them the way
`fuse{max_group=8}` sets those of a pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol, cast, runtime_checkable

from mcm_compiler.registry import ZOO
from mcm_compiler.text import spec_text

if TYPE_CHECKING:
    import onnx_ir as ir

PREFIX = "zoo:"
"""Prefix of a name of the zoo in place of a path."""

WEIGHTS_KEY = "mcm.weights"
"""Key in `model.metadata_props` for the origin of the weights."""

SHAPE_ONLY = "shape-only"
"""Value of `WEIGHTS_KEY`: weights have shapes but no meaningful values."""


@runtime_checkable
class ModelBuilder(Protocol):
    """Builds one model of the zoo.

    Attributes:
        name: the name after `zoo:`.
        summary: one line for `mcmc zoo`.
        seed: seed of the random weights; same seed, same bytes.
        shape_only: weights become `ConstantOfShape` nodes, so the file stays tiny and the
            model is marked with `WEIGHTS_KEY = SHAPE_ONLY`.
    """

    name: ClassVar[str]
    summary: ClassVar[str]

    @property
    def seed(self) -> int: ...

    @property
    def shape_only(self) -> bool: ...

    def build(self) -> ir.Model:
        """Makes the model. Weights are lazy tensors: nothing large is in memory yet."""
        ...


def build_zoo_model(spec: str) -> ir.Model:
    """Builds `NAME` or `NAME{option=value,...}` of the zoo.

    Raises:
        CompileError: MCM-U001 to MCM-U003 for text, options and names, MCM-X007 for a builder that
            fails.
    """
    parsed = spec_text.parse_one(spec)
    builder = cast("ModelBuilder", ZOO.made(parsed))
    with ZOO.at_work(parsed.name):
        return built(builder)


def built(builder: ModelBuilder) -> ir.Model:
    """The model that a builder makes.

    Raises:
        TypeError: if it makes something else.
    """
    import onnx_ir as ir

    model = builder.build()
    if not isinstance(model, ir.Model):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"it built a {type(model).__name__}, not an onnx_ir.Model")
    return model
