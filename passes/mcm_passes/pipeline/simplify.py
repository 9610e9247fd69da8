"""Makes the graph smaller without changing a bit of its outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler.graph.source import SOURCE
from mcm_compiler.pipeline.passes import Pass, PassContext
from mcm_compiler.text.option_fields import at_least, checked
from mcm_passes.rewriting.simplification.constant_folding import fold_constants, fold_static_shapes
from mcm_passes.rewriting.simplification.redundancy import (
    make_range_operands_scalar,
    merge_common_subexpressions,
    merge_duplicate_weights,
    remove_dead_code,
    remove_identities,
)

MAX_ROUNDS = 8
"""Rounds until nothing changes are two or three; more only where folding ran out of its limits."""


@dataclass(frozen=True)
@checked(max_fold_bytes=at_least(0))
class Simplify(Pass):
    """Folds constants, merges duplicates, and removes identities and dead code.

    Exact: onnxruntime with graph optimisations off gives the same bits before and after.

    Attributes:
        max_fold_bytes: no constant above this size is computed or compared, so that no weight is
            ever turned into a changed copy of itself.

    Raises:
        ValueError: if `max_fold_bytes` is negative.
    """

    name: ClassVar[str] = "simplify"
    summary: ClassVar[str] = "fold constants, merge duplicates, drop identities and dead code"
    looks_at_target: ClassVar[bool] = False

    max_fold_bytes: int = 1 << 20

    def run(self, model: ir.Model, context: PassContext) -> None:
        """See the class."""
        source = SOURCE.find(model)
        shape_only = source is not None and source.shape_only
        for _ in range(MAX_ROUNDS):
            changes = remove_identities(model.graph)
            changes += fold_static_shapes(model.graph)
            changes += fold_constants(model, self.max_fold_bytes, keep_placeholders=shape_only)
            changes += make_range_operands_scalar(model.graph)
            changes += remove_dead_code(model.graph)
            changes += merge_duplicate_weights(model.graph, self.max_fold_bytes)
            changes += merge_common_subexpressions(model.graph)
            if not changes:
                break
