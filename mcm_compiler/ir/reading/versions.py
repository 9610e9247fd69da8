"""IR versions and opsets: what onnxruntime, the functional reference, can load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import onnx

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.execution.runner import open_session
from mcm_compiler.graph.structure import all_nodes
from mcm_compiler.text.units import count_text

MIN_OPSET = 7
"""The oldest opset of the default domain that onnxruntime guarantees to run."""

SURE_OPSET = 21
"""Every onnxruntime from 1.23 on loads opsets up to this one; for newer ones it is asked."""

MIN_IR_VERSION = 4
"""The first version in which weights need not be inputs, too."""

_ML = "ai.onnx.ml"


@cache
def newest_opset() -> int:
    """The newest opset of the default domain that the installed onnxruntime loads."""
    return _newest(range(onnx.defs.onnx_opset_version(), MIN_OPSET, -1), lambda n: _probe(8, n))


@cache
def newest_ir_version() -> int:
    """The newest IR version that the installed onnxruntime loads."""
    return _newest(range(int(onnx.IR_VERSION), 7, -1), lambda n: _probe(n, 13))


@cache
def _newest_ml_opset() -> int:
    return _newest(range(5, 1, -1), lambda n: _probe(8, 13, [onnx.helper.make_opsetid(_ML, n)]))


_IMPLIED: dict[str, Callable[[], int]] = {
    "ai.onnx": newest_opset,
    _ML: _newest_ml_opset,
    "com.microsoft": lambda: 1,
    "com.microsoft.nchwc": lambda: 1,
}
"""Domains that onnxruntime knows without an import, and the version that it takes: its newest."""


def check_versions(proto: onnx.ModelProto) -> list[Diagnostic]:
    """Checks the versions of `proto`, and brings them to what onnxruntime handles, in place.

    Opsets that onnxruntime takes for granted are imported where the model forgot to.

    IR versions only add fields, so that lowering one keeps the meaning of what onnxruntime knows.
    Below version 4 weights have to be listed among the inputs, which no part of a split model
    could keep up; they are taken off that list, where they are constants either way.

    Returns:
        MCM-I005 for an opset that onnx does not know (`lower_opset` handles those that onnx knows
        and onnxruntime does not), MCM-I007 for a missing or repeated one. The notes MCM-I043 for a
        lowered IR version and MCM-I045 for added imports.
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
    found += _complete_imports(proto, versions)
    for function in proto.functions:
        own = {entry.domain or "ai.onnx" for entry in function.opset_import}
        found += [
            _not_imported(domain, f"function {quote(function.name)}")
            for domain in sorted(_domains_of(function) - own)
        ]
    known = onnx.defs.onnx_opset_version()
    if opset is not None and (opset < 1 or opset > max(known, 20)):
        found.append(
            Diagnostic(
                "MCM-I005",
                f"the model needs opset {opset}; the installed onnxruntime guarantees "
                f"{MIN_OPSET} to {newest_opset()}, and newer ones are converted up to {known}, the "
                "newest of the installed onnx",
                at="opset_import",
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
            )
        )
        proto.ir_version = newest_ir_version()
    return found


def complete_imports(proto: onnx.ModelProto) -> None:
    """Imports the opsets that onnxruntime takes for granted, as `check_versions` does, in place."""
    _complete_imports(proto, {e.domain or "ai.onnx": e.version for e in proto.opset_import})


def _domains_of(graph: onnx.GraphProto | onnx.FunctionProto) -> set[str]:
    return {node.domain or "ai.onnx" for node in all_nodes(graph)}


def _complete_imports(proto: onnx.ModelProto, versions: dict[str, int]) -> list[Diagnostic]:
    """Adds imports that onnxruntime does without; a model must import something, though."""
    missing = sorted(_domains_of(proto.graph) - versions.keys())
    implied = [domain for domain in missing if versions and domain in _IMPLIED]
    found = [_not_imported(domain, "opset_import") for domain in missing if domain not in implied]
    added: list[str] = []
    for domain in implied:
        version = _IMPLIED[domain]()
        proto.opset_import.add(domain="" if domain == "ai.onnx" else domain, version=version)
        added.append(f"{domain} {version}")
    if added:
        found.append(
            Diagnostic(
                "MCM-I045",
                f"the model uses ops of {count_text(len(added), 'domain')} without an import; "
                f"as in onnxruntime, these opsets are meant: {', '.join(added)}",
                at="opset_import",
            )
        )
    return found


def _not_imported(domain: str, at: str) -> Diagnostic:
    return Diagnostic(
        "MCM-I007",
        f"no opset of the domain {quote(domain)} is imported, but its ops are used",
        at=at,
    )


def _newest(candidates: range, loads: Callable[[int], bool]) -> int:
    for number in candidates:
        if loads(number):
            return number
    return candidates[-1]


def _probe(ir_version: int, opset: int, further: Sequence[onnx.OperatorSetIdProto] = ()) -> bool:
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["x"], ["y"])],
        "probe",
        [value("x", onnx.TensorProto.FLOAT, [1])],
        [value("y", onnx.TensorProto.FLOAT, [1])],
    )
    model = onnx.helper.make_model(
        graph, ir_version=ir_version, opset_imports=[onnx.helper.make_opsetid("", opset), *further]
    )
    try:
        open_session(model)
    except CompileError:
        return False
    return True
