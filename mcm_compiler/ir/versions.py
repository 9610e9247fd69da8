"""IR versions and opsets: what onnxruntime, the functional judge, can load."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import onnx

from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity, quote
from mcm_compiler.execution import open_session
from mcm_compiler.ir.structure import all_nodes

MIN_OPSET = 7
"""The oldest opset of the default domain that onnxruntime guarantees to run."""


MIN_IR_VERSION = 4
"""The first version in which weights need not be inputs, too."""


@cache
def newest_opset() -> int:
    """The newest opset of the default domain that the installed onnxruntime loads."""
    return _newest(range(onnx.defs.onnx_opset_version(), MIN_OPSET, -1), lambda n: _probe(8, n))


@cache
def newest_ir_version() -> int:
    """The newest IR version that the installed onnxruntime loads."""
    return _newest(range(int(onnx.IR_VERSION), 7, -1), lambda n: _probe(n, 13))


def check_versions(proto: onnx.ModelProto) -> list[Diagnostic]:
    """Checks the versions of `proto`, and brings its IR version to one that onnxruntime handles.

    IR versions only add fields, so that lowering one keeps the meaning of what onnxruntime knows.
    Below version 4 weights have to be listed among the inputs, which no part of a split model
    could keep up; they are taken off that list, where they are constants either way.

    Returns:
        MCM-I005 for an opset outside what runs, MCM-I007 for a missing or repeated one, the note
        MCM-I043 for a lowered IR version.
    """
    found: list[Diagnostic] = []
    versions: dict[str, int] = {}
    for entry in proto.opset_import:
        domain = entry.domain or "ai.onnx"
        if versions.setdefault(domain, entry.version) != entry.version:
            found.append(
                Diagnostic(
                    "MCM-I007",
                    f"the model imports opset {versions[domain]} and opset {entry.version} of the "
                    f"domain {quote(domain)}",
                    at="opset_import",
                    hint="keep the one that the nodes follow",
                )
            )
    opset = versions.get("ai.onnx")
    missing = {node.domain or "ai.onnx" for node in all_nodes(proto.graph)} - versions.keys()
    found += [
        Diagnostic(
            "MCM-I007",
            f"the model imports no opset of the domain {quote(domain)}, but uses its ops",
            at="opset_import",
            hint="export again, or set opset_import",
        )
        for domain in sorted(missing)
    ]
    if opset is not None and (opset < 1 or (opset > 20 and opset > newest_opset())):
        found.append(
            Diagnostic(
                "MCM-I005",
                f"the model needs opset {opset}; the installed onnxruntime guarantees "
                f"{MIN_OPSET} to {newest_opset()}",
                at="opset_import",
                hint="export with another opset_version, or convert with onnx.version_converter",
            )
        )
    if proto.ir_version < MIN_IR_VERSION:
        proto.ir_version = MIN_IR_VERSION
        weights = {tensor.name for tensor in proto.graph.initializer}
        inputs = [value for value in proto.graph.input if value.name not in weights]
        del proto.graph.input[:]
        proto.graph.input.extend(inputs)
    if proto.ir_version > 10 and proto.ir_version > newest_ir_version():
        found.append(
            Diagnostic(
                "MCM-I043",
                f"IR version {proto.ir_version} is newer than the installed onnxruntime loads; "
                f"emitted models say {newest_ir_version()}",
                severity=Severity.NOTE,
            )
        )
        proto.ir_version = newest_ir_version()
    return found


def _newest(candidates: range, loads: Callable[[int], bool]) -> int:
    for number in candidates:
        if loads(number):
            return number
    return candidates[-1]


def _probe(ir_version: int, opset: int) -> bool:
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["x"], ["y"])],
        "probe",
        [value("x", onnx.TensorProto.FLOAT, [1])],
        [value("y", onnx.TensorProto.FLOAT, [1])],
    )
    model = onnx.helper.make_model(
        graph, ir_version=ir_version, opset_imports=[onnx.helper.make_opsetid("", opset)]
    )
    try:
        open_session(model)
    except CompileError:
        return False
    return True
