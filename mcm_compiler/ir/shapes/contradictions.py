"""Declared element types that shape inference contradicts."""

from __future__ import annotations

import re

from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.graph.structure import MAX_FAULTS

_CONTRADICTION = re.compile(
    r"\(op_type:(?P<op>[^,()]*)(?:, node name: (?P<name>.*?))?\): \[\w+Error\] "
    r"Inferred elem type differs[^:]*: "
    r"\((?P<inferred>[^)]*)\) vs \((?P<declared>[^)]*)\)",
    re.DOTALL,
)


def contradictions(inference_error: str) -> list[Diagnostic]:
    """What onnx's strict inference says against the declared element types.

    Args:
        inference_error: text of `onnx.shape_inference.InferenceError`.

    Returns:
        MCM-I032, one for each op whose result is declared with another element type, which
        onnxruntime refuses; other errors are not ours.
    """
    faults = [
        Diagnostic(
            "MCM-I032",
            f"the op makes element type {found['inferred']}, the model declares "
            f"{found['declared']}",
            at=f"node {quote(found['name'])} ({found['op']})"
            if found["name"]
            else f"a {found['op']} node",
            hint="correct or remove the value_info or the type of the graph output, or run "
            "onnx.shape_inference again",
        )
        for found in _CONTRADICTION.finditer(inference_error)
    ]
    return list(dict.fromkeys(faults))[:MAX_FAULTS]
