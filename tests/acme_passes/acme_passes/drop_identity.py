"""A pass that changes the graph: ops that copy their input are taken out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler.diagnostics import Diagnostic, Severity
from mcm_compiler.pipeline.passes import Pass, PassContext


@dataclass(frozen=True)
class DropIdentity(Pass):
    """Readers of an `Identity` read its input instead. Graph outputs keep theirs: it names them."""

    name: ClassVar[str] = "acme_drop_identity"
    summary: ClassVar[str] = "bypass Identity ops"

    def run(self, model: ir.Model, context: PassContext) -> None:
        outputs = set(model.graph.outputs)
        dropped = 0
        for node in list(model.graph):
            if node.op_type != "Identity" or node.domain or node.outputs[0] in outputs:
                continue
            source = node.inputs[0]
            if source is None:
                continue
            node.outputs[0].replace_all_uses_with(source)
            model.graph.remove(node, safe=True)
            dropped += 1
        context.report(
            Diagnostic("ACME-002", f"{dropped} Identity ops dropped", severity=Severity.NOTE)
        )
