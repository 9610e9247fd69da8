"""The model as it was given, kept next to the one that passes change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx_ir as ir

from mcm_compiler.graph.annotations import AnnotationKey


@dataclass(frozen=True)
class SourceModel:
    """Where the model came from.

    Attributes:
        name: what the user called it: a path, or `zoo:NAME`.
        path: the file that onnxruntime can run, or None for a model that was never a file.
        sha256: hash of the model: of its file and its external data, in a canonical order.
        original: the imported graph before any pass, with the user's dimensions bound and every
            node named; it shares its weights with the model that passes change.
        dims: bindings of symbolic dimensions that were applied.
        shape_only: weights are placeholders, so that outputs mean nothing.
        given: the user's own arrays by graph input, for runs of the model.
        shapes: of inputs, as the user gave them, those of `given` included.
    """

    name: str
    path: Path | None
    sha256: str
    original: ir.Model
    dims: dict[str, int]
    shape_only: bool = False
    given: Mapping[str, Any] = field(default_factory=dict[str, Any])
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])


SOURCE: AnnotationKey[SourceModel] = AnnotationKey("source", derived_from=())
"""The source of the model; there from the import on."""
