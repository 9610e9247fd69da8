"""A pass in one file: `mcmc opt MODEL --plugin count_ops.py --passes count_ops`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler import Diagnostic, Pass, PassContext, register
from mcm_compiler.diagnostics import Severity


@register("pass")
@dataclass(frozen=True)
class CountOps(Pass):
    """Tells which ops are most frequent; changes nothing."""

    name: ClassVar[str] = "count_ops"
    summary: ClassVar[str] = "tell the most frequent ops"
    top: int = 3

    def run(self, model: ir.Model, context: PassContext) -> None:
        frequent = Counter(node.op_type for node in model.graph).most_common(self.top)
        text = ", ".join(f"{count} {op_type}" for op_type, count in frequent)
        context.report(Diagnostic("MY-001", text, severity=Severity.NOTE))
