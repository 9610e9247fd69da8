"""Model-local functions: which calls which, and how many nodes the calls stand for.

A file of a few kilobytes can hold layers of functions that each call the next one twice, and so
expand to millions of nodes; onnxruntime inlines all of them. So they are counted beforehand.

Model-local functions that onnxruntime never calls, since it has an op of their name itself.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import onnx
import onnx_ir as ir
from onnx_ir.passes.common import InlinePass, RemoveUnusedFunctionsPass

from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.graph.structure import all_nodes, check_function, onnx_domain, place_of

MAX_EXPANDED_NODES = 500_000
"""Nodes that all functions, inlined, may amount to."""

MAX_CALL_DEPTH = 64
"""Functions within functions; onnxruntime inlines recursively."""

FunctionId = tuple[str, str, str]


def check_functions(proto: onnx.ModelProto) -> list[Diagnostic]:
    """Checks definitions and calls of model-local functions.

    Returns:
        MCM-I010 for a function defined twice, MCM-I017 for a call with more inputs or outputs
        than the function has, MCM-I015 for recursion or calls nested too deep. MCM-I016 where the
        nodes after inlining pass `MAX_EXPANDED_NODES`, and the faults of the bodies as
        `check_structure` finds them.
    """
    if not proto.functions:
        return []
    bodies: dict[FunctionId, onnx.FunctionProto] = {}
    faults: list[Diagnostic] = []
    for function in proto.functions:
        key = (onnx_domain(function.domain), function.name, function.overload)
        if key in bodies:
            faults.append(
                Diagnostic(
                    "MCM-I010",
                    "the function is defined twice",
                    at=f"function {quote(function.name)}",
                    hint="rename one of them, or give it another domain or overload",
                )
            )
        bodies[key] = function
        faults += check_function(function)
    return faults or _check_calls(proto, bodies)


def _check_calls(
    proto: onnx.ModelProto, bodies: dict[FunctionId, onnx.FunctionProto]
) -> list[Diagnostic]:
    for caller in (proto.graph, *proto.functions):
        for node in all_nodes(caller):
            key = _callee(node, bodies)
            if key is not None and (fault := _check_arity(node, bodies[key])) is not None:
                return [fault]
    calls = {key: _count(body, bodies) for key, body in bodies.items()}
    expanded: dict[FunctionId, int] = {}
    depth: dict[FunctionId, int] = {}
    for start in bodies:
        # Depth first without recursion: a chain of functions may be as long as the file.
        stack = [(start, iter(calls[start][1]))]
        entered = {start: None}
        while stack:
            key, callees = stack[-1]
            callee = next((c for c in callees if c not in expanded), None)
            if callee is None:
                stack.pop()
                entered.pop(key)
                own, called = calls[key]
                expanded[key] = own + sum(expanded[c] * n for c, n in called.items())
                depth[key] = 1 + max((depth[c] for c in called), default=0)
            elif callee in entered:
                return [_recursion(list(entered), callee)]
            else:
                entered[callee] = None
                stack.append((callee, iter(calls[callee][1])))
    own, called = _count(proto.graph, bodies)
    total = own + sum(expanded[key] * n for key, n in called.items())
    deepest = max(depth, key=lambda key: depth[key])
    if depth[deepest] > MAX_CALL_DEPTH:
        return [
            Diagnostic(
                "MCM-I015",
                f"function calls are nested {depth[deepest]} deep, at most {MAX_CALL_DEPTH} are "
                "followed",
                at=f"function {quote(deepest[1])}",
            )
        ]
    if total > MAX_EXPANDED_NODES:
        largest = max(called, key=lambda key: expanded[key] * called[key])
        caller = next(n for n in all_nodes(proto.graph) if _callee(n, bodies) == largest)
        return [
            Diagnostic(
                "MCM-I016",
                f"with all functions inlined the model has {total} nodes, at most "
                f"{MAX_EXPANDED_NODES} are compiled",
                at=place_of(caller),
            )
        ]
    return []


def _check_arity(node: onnx.NodeProto, body: onnx.FunctionProto) -> Diagnostic | None:
    """Checks a call; one with fewer outputs than the function gets empty ones for the others."""
    for what, given, known in (
        ("inputs", len(node.input), len(body.input)),
        ("outputs", len(node.output), len(body.output)),
    ):
        if given > known:
            return Diagnostic(
                "MCM-I017",
                f"it has {given} {what}, the function {quote(body.name)} has {known}",
                at=place_of(node),
            )
    node.output.extend([""] * (len(body.output) - len(node.output)))
    return None


def _recursion(path: list[FunctionId], again: FunctionId) -> Diagnostic:
    circle = [*path[path.index(again) :], again]
    shown = " -> ".join(quote(name) for _, name, _ in circle[:5])
    return Diagnostic(
        "MCM-I015",
        f"functions call each other in a circle: {shown}{' -> ...' if len(circle) > 5 else ''}",
        at=f"function {quote(again[1])}",
    )


def _count(
    graph: onnx.GraphProto | onnx.FunctionProto, bodies: dict[FunctionId, onnx.FunctionProto]
) -> tuple[int, dict[FunctionId, int]]:
    """Nodes that are not calls, and the calls of each function, subgraphs included."""
    own, calls = 0, dict[FunctionId, int]()
    for node in all_nodes(graph):
        callee = _callee(node, bodies)
        if callee is None:
            own += 1
        else:
            calls[callee] = calls.get(callee, 0) + 1
    return own, calls


def _callee(
    node: onnx.NodeProto, bodies: dict[FunctionId, onnx.FunctionProto]
) -> FunctionId | None:
    key = (onnx_domain(node.domain), node.op_type, node.overload)
    return key if key in bodies else None


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
    """Return whether onnxruntime knows an op in a version of its domain."""
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


def inline_functions(model: ir.Model) -> int:
    """Replaces calls of functions by their bodies, in place; unused functions go.

    Onnxruntime does the same when it loads a model, so that no bit changes. A function stays as
    it is, and each call of it one op, if its opsets are not those of the model, or if it takes or
    is given a graph as attribute. The same holds if an output of it is one of its inputs or given
    twice. The version of a *private* domain, of which the model's functions are all ops that it
    uses, means nothing: calls find a function by domain, name and overload. How far calls expand
    has to be checked before.

    Returns:
        The number of functions that were inlined.
    """
    if not model.functions:
        return 0
    RemoveUnusedFunctionsPass()(model)
    _agree_on_private_domains(model)
    opsets = dict(model.opset_imports)
    given_graphs = _called_with_graphs(model)
    wanted = {
        key
        for key, function in model.functions.items()
        if key not in given_graphs and _fits(function, opsets)
    }
    InlinePass(criteria=lambda function: function.identifier() in wanted)(model)
    return len(wanted)


def _agree_on_private_domains(model: ir.Model) -> None:
    """Gives every function the model's version of each private domain, in place."""
    defined = set(model.functions)
    bodies = (model.graph, *model.functions.values())
    used = {node.op_identifier() for body in bodies for node in body.all_nodes()}
    foreign = {domain for domain, _, _ in used - defined}
    private = {domain for domain, _, _ in defined} - foreign - _STANDARD
    agreed = {d: version for d, version in model.opset_imports.items() if d in private}
    for function in model.functions.values():
        for domain, version in function.opset_imports.items():
            if domain in private:
                function.opset_imports[domain] = agreed.setdefault(domain, version)


_STANDARD = {"", "ai.onnx", "ai.onnx.ml"}
_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def _called_with_graphs(model: ir.Model) -> set[ir.OperatorIdentifier]:
    """Ops of which some node has a graph as attribute."""
    return {
        node.op_identifier()
        for body in (model.graph, *model.functions.values())
        for node in body.all_nodes()
        if any(attribute.type in _GRAPHS for attribute in node.attributes.values())
    }


def _fits(function: ir.Function, opsets: dict[str, int]) -> bool:
    """Return whether `function` can be inlined; adds the opsets that it brings to `opsets`."""
    if any(opsets.get(domain, version) != version
           for domain, version in function.opset_imports.items()):  # fmt: skip
        return False
    if any(a.type in _GRAPHS for a in function.attributes.values()):
        return False
    outputs = list(function.outputs)
    if len(set(outputs)) < len(outputs) or set(outputs) & set(function.inputs):
        return False
    opsets.update(function.opset_imports)
    return True
