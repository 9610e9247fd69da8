"""Model-local functions that onnxruntime never calls, since it has an op of their name itself."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import onnx

from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.graph.structure import onnx_domain


def drop_overruled_functions(proto: onnx.ModelProto) -> list[Diagnostic]:
    """Removes functions with the domain and name of an op of onnxruntime, in place.

    ONNX leaves open which of the two a node means. onnxruntime takes its own op, whatever the
    overload of the function is, so that the function has no call.

    Args:
        proto: opsets of all domains in use are imported.

    Returns:
        A warning MCM-I053 for each function.
    """
    if not proto.functions:
        return []
    versions: dict[str, int] = {}
    for importer in (proto, *proto.functions):
        for entry in importer.opset_import:
            versions.setdefault(onnx_domain(entry.domain), entry.version)
    kept: list[onnx.FunctionProto] = []
    found: list[Diagnostic] = []
    for function in proto.functions:
        domain = onnx_domain(function.domain)
        if not _has_op(domain, function.name, versions.get(domain, 1)):
            kept.append(function)
            continue
        owner = quote(domain or "ai.onnx")
        found.append(
            Diagnostic(
                "MCM-I053",
                f"onnxruntime has an op of this name in the domain {owner} and never calls the "
                "function, which is left out",
                at=f"function {quote(function.name)}",
            )
        )
    if found:
        del proto.functions[:]
        proto.functions.extend(kept)
    return found


def _has_op(domain: str, name: str, version: int) -> bool:
    """Whether onnxruntime knows an op in a version of its domain."""
    known = [entry for entry in _schemas().get((domain, name), ()) if entry[0] <= version]
    return bool(known) and not max(known)[1]


@cache
def _schemas() -> dict[tuple[str, str], list[tuple[int, bool]]]:
    """By domain and name of an op: versions that changed it, and whether they deprecate it."""
    # Compiled, and without stubs.
    runtime: Any = import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    found: dict[tuple[str, str], list[tuple[int, bool]]] = {}
    for entry in runtime.get_all_operator_schema():
        versions = found.setdefault((entry.domain, entry.name), [])
        versions.append((int(entry.since_version), bool(entry.deprecated)))
    return found
