"""A pass that enforces a rule of the house: only certain op types may reach the chips."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.constants import placeable_nodes
from mcm_compiler.pipeline.passes import Pass, PassContext


@dataclass(frozen=True)
class AllowOps(Pass):
    """Refuses a model with ops outside `allowed`; an empty list allows everything.

    Attributes:
        allowed: op types, as in `acme_allow_ops{allowed=Conv;Relu}`.
    """

    name: ClassVar[str] = "acme_allow_ops"
    summary: ClassVar[str] = "refuse models with ops that are not on a list"

    allowed: tuple[str, ...] = ()

    def run(self, model: ir.Model, context: PassContext) -> None:
        """Changes nothing.

        Raises:
            CompileError: ACME-001 for each op type that is not allowed.
        """
        if not self.allowed:
            return
        counts = Counter(node.op_type for node in placeable_nodes(model.graph))
        refused = sorted(set(counts) - set(self.allowed))
        if refused:
            raise CompileError(
                [
                    Diagnostic(
                        "ACME-001",
                        f"{counts[op_type]} ops of type {quote(op_type)} are not allowed",
                        hint=f"allowed are {', '.join(self.allowed)}",
                    )
                    for op_type in refused
                ]
            )
