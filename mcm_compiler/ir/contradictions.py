"""Declared types and shapes that shape inference contradicts."""

from __future__ import annotations

import re

from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.ir.structure import MAX_FAULTS

_CONTRADICTION = re.compile(
    r"\(op_type:(?P<op>[^,()]*)(?:, node name: (?P<name>.*?))?\): \[\w+Error\] "
    r"Inferred (?P<what>shape and existing shape differ[^:]*|elem type differs[^:]*): "
    r"\((?P<inferred>[^)]*)\) vs \((?P<declared>[^)]*)\)",
    re.DOTALL,
)


def contradictions(inference_error: str) -> list[Diagnostic]:
    """What onnx's strict inference says against `value_info` and the types of graph outputs.

    onnxruntime takes the inferred shape and goes on, so that the declared one would be a lie in
    everything that is computed from it: sizes, transfers, memory.

    Args:
        inference_error: text of `onnx.shape_inference.InferenceError`.

    Returns:
        MCM-I032, one for each op whose result is declared otherwise; other errors are not ours.
    """
    faults: list[Diagnostic] = []
    for found in _CONTRADICTION.finditer(inference_error):
        op, name = found["op"], found["name"]
        inferred, declared = found["inferred"], found["declared"]
        if found["what"].startswith("elem"):
            message = f"the op makes element type {inferred}, the model declares {declared}"
        else:
            where = found["what"].removeprefix("shape and existing shape differ in ")
            message = f"the op makes a value with {where} {inferred}, the model declares {declared}"
        faults.append(
            Diagnostic(
                "MCM-I032",
                message,
                at=f"node {quote(name)} ({op})" if name else f"a {op} node",
                hint="correct or remove the value_info or the type of the graph output, or run "
                "onnx.shape_inference anew",
            )
        )
    return list(dict.fromkeys(faults))[:MAX_FAULTS]
