"""Structural faults of an ONNX graph, found before the IR is built.

onnx's own checker refuses models that onnxruntime runs (nodes out of order), and onnxruntime's
messages name no hint; so the rules that matter are checked here, each with its own diagnostic.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache

import onnx

from mcm_compiler.arrays.dags import find_circle
from mcm_compiler.diagnostics import Diagnostic, quote

MAX_FAULTS = 20
"""Diagnostics of one kind that are worth printing."""

MAX_COMPARED = 2000
"""Names that an undefined one is compared with for the hint."""

MAX_SUBGRAPH_DEPTH = 30
"""Nesting of subgraphs that is followed. Protobuf readers, onnxruntime's among them, give up at 100
messages within each other, and a subgraph is three: the graph, its node and the attribute."""


def check_structure(graph: onnx.GraphProto) -> list[Diagnostic]:
    """Checks names and data flow of the main graph and its subgraphs.

    Returns:
        MCM-I004 (no node), MCM-I009 (an input or weight without a name), MCM-I010 (a value
        produced twice), MCM-I011 (a value that nobody produces), MCM-I012 (a cycle). MCM-I013 (a
        graph output that nobody produces, or that onnxruntime leaves unwritten), MCM-I014
        (subgraphs nested too deep).
    """
    if not graph.node:
        return [
            Diagnostic(
                "MCM-I004",
                "the graph has no node, so there is nothing to place",
                at=f"graph {quote(graph.name)}",
            )
        ]
    return _check_body(_body_of(graph), (), MAX_SUBGRAPH_DEPTH)[:MAX_FAULTS]


def check_function(function: onnx.FunctionProto) -> list[Diagnostic]:
    """Checks names and data flow of a model-local function.

    Returns:
        As `check_structure`, without MCM-I004.
    """
    body = _Body(
        f"function {quote(function.name)}",
        function.node,
        list(function.input),
        [],
        list(function.output),
    )
    return _check_body(body, (), MAX_SUBGRAPH_DEPTH)[:MAX_FAULTS]


def subgraphs_of(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """The graphs that the attributes of `node` hold."""
    found: list[onnx.GraphProto] = []
    for attribute in node.attribute:
        if attribute.HasField("g") or attribute.type == onnx.AttributeProto.GRAPH:
            found.append(attribute.g)
        found += attribute.graphs
    return found


def all_nodes(graph: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.NodeProto]:
    """The nodes of `graph` and of the graphs within them, each before what it holds."""
    for node in graph.node:
        yield node
        for subgraph in subgraphs_of(node):
            yield from all_nodes(subgraph)


def all_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """`graph` and the graphs within it."""
    yield graph
    for node in graph.node:
        for subgraph in subgraphs_of(node):
            yield from all_graphs(subgraph)


@lru_cache(maxsize=4096)
def schema_of(op_type: str, version: int, domain: str = "") -> onnx.defs.OpSchema | None:
    """The definition of an op in a version of its domain; None where ONNX has none."""
    if not 0 < version < 1 << 31:
        return None
    try:
        return onnx.defs.get_schema(op_type, version, domain)
    except onnx.defs.SchemaError:
        return None


def since_version(op_type: str, version: int, domain: str = "") -> int:
    """The version in which an op got the meaning that it has in `version`; 0 for none."""
    schema = schema_of(op_type, version, domain)
    return 0 if schema is None else int(schema.since_version)


def onnx_domain(name: str) -> str:
    """A domain, with one name for ONNX's own."""
    return "" if name == "ai.onnx" else name


def place_of(node: onnx.NodeProto) -> str:
    """How a diagnostic names a node of a file."""
    kind = quote(node.op_type)[1:-1]
    return f"node {quote(node.name)} ({kind})" if node.name else f"a {kind} node"


@dataclass(frozen=True)
class _Body:
    """Nodes with what goes in and out: a graph or a function."""

    place: str
    nodes: Sequence[onnx.NodeProto]
    inputs: list[str]
    weights: list[str]
    outputs: list[str]


def _body_of(graph: onnx.GraphProto) -> _Body:
    weights = [tensor.name for tensor in graph.initializer]
    weights += [sparse.values.name for sparse in graph.sparse_initializer]
    return _Body(
        f"graph {quote(graph.name)}",
        graph.node,
        [value.name for value in graph.input],
        weights,
        [value.name for value in graph.output],
    )


def _check_body(body: _Body, outer: tuple[AbstractSet[str], ...], depth: int) -> list[Diagnostic]:
    """Faults of `body` and its subgraphs, `depth` levels down.

    Args:
        body: what to check.
        outer: names that are visible from outside, one set for each level.
        depth: levels of subgraphs that are followed.
    """
    if depth < 0:
        return [
            Diagnostic(
                "MCM-I014",
                f"subgraphs are nested more than {MAX_SUBGRAPH_DEPTH} deep",
                at=body.place,
            )
        ]
    faults = _check_given(body)
    given = {*body.inputs, *body.weights}
    producer: dict[str, int] = {}
    for i, node in enumerate(body.nodes):
        for name in node.output:
            if name and (name in producer or name in given):
                faults.append(_twice(name, place_of(node)))
            producer[name] = i
    producer.pop("", None)
    own = given | producer.keys()
    scopes = (*outer, own)
    for node in body.nodes:
        for name in node.input:
            if name and not any(name in scope for scope in scopes):
                near = _nearest(name, scopes) if len(faults) < MAX_FAULTS else None
                faults.append(
                    Diagnostic(
                        "MCM-I011",
                        f"the value {quote(name)} is read but never produced",
                        at=place_of(node),
                        hint=f"the nearest name is {quote(near)}" if near else "export it again",
                    )
                )
        for subgraph in subgraphs_of(node):
            faults += _check_body(_body_of(subgraph), scopes, depth - 1)
            if node.op_type == "Scan" and node.domain in ("", "ai.onnx"):
                faults += _unwritten_outputs(node, subgraph)
    faults += [
        _unmade_output(name, body.place, any(name in scope for scope in outer))
        for name in body.outputs
        if name not in own
    ]
    if not faults and (cycle := _find_cycle(body, producer)):
        shown = " -> ".join(quote(n.name or n.op_type) for n in cycle[:5])
        faults.append(
            Diagnostic(
                "MCM-I012",
                f"{len(cycle)} nodes form a cycle: {shown}{' -> ...' if len(cycle) > 5 else ''}",
                at=place_of(cycle[0]),
            )
        )
    return faults


def _check_given(body: _Body) -> list[Diagnostic]:
    faults: list[Diagnostic] = []
    for kind, names in (("input", body.inputs), ("initializer", body.weights)):
        seen: set[str] = set()
        for name in names:
            if not name:
                faults.append(Diagnostic("MCM-I009", f"an {kind} has no name", at=body.place))
            elif name in seen:
                faults.append(_twice(name, f"{kind} of {body.place}"))
            seen.add(name)
    return faults


def _twice(name: str, place: str) -> Diagnostic:
    return Diagnostic("MCM-I010", f"the value {quote(name)} is produced twice", at=place)


def _unmade_output(name: str, place: str, outside: bool) -> Diagnostic:
    # onnxruntime refuses a subgraph that hands a value of the outer graph straight through.
    return Diagnostic(
        "MCM-I013",
        f"the graph output {quote(name)} is "
        + ("a value of the outer graph" if outside else "never produced"),
        at=place,
        hint="put an Identity node between them"
        if outside
        else "remove the output, or add the node that makes it",
    )


def _unwritten_outputs(scan: onnx.NodeProto, body: onnx.GraphProto) -> list[Diagnostic]:
    """Outputs of the body of a Scan that onnxruntime 1.31 returns with whatever was in memory.

    It has the body write each of them straight to its place; nothing writes a state that is an
    input of the body, nor the second of two that are one value.
    """
    scanned = next((int(a.i) for a in scan.attribute if a.name == "num_scan_inputs"), 0)
    states = len(body.input) - scanned
    inputs = {value.name for value in body.input}
    seen: set[str] = set()
    faults: list[Diagnostic] = []
    for i, value in enumerate(body.output):
        name = value.name
        why = "given twice" if name in seen else "an input of it"
        if name in seen or (i < states and name in inputs):
            faults.append(
                Diagnostic(
                    "MCM-I013",
                    f"the output {quote(name)} of the body of a Scan is {why}, and onnxruntime "
                    "leaves the result unwritten",
                    at=place_of(scan),
                    hint="put an Identity node between them",
                )
            )
        seen.add(name)
    return faults


def _nearest(name: str, scopes: tuple[AbstractSet[str], ...]) -> str | None:
    # Names of one file are alike in length; comparing with all of them would take seconds.
    known = set[str]().union(*scopes) - {""}
    candidates = sorted(known, key=lambda other: (abs(len(other) - len(name)), other))
    short = [other[:MAX_COMPARED] for other in candidates[:MAX_COMPARED]]
    return next(iter(difflib.get_close_matches(name[:MAX_COMPARED], short, n=1)), None)


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    """Names of the node's own graph that it reads; a name inside may shadow one of those."""
    yield from node.input
    for subgraph in subgraphs_of(node):
        body = _body_of(subgraph)
        own = {*body.inputs, *body.weights}
        own.update(name for inner in subgraph.node for name in inner.output)
        for inner in subgraph.node:
            yield from (name for name in _reads(inner) if name not in own)


def _find_cycle(body: _Body, producer: dict[str, int]) -> list[onnx.NodeProto]:
    """The nodes of one cycle, in order; empty where there is none."""
    reads = [
        (producer[n], i) for i, node in enumerate(body.nodes) for n in _reads(node) if n in producer
    ]
    if all(maker < reader for maker, reader in reads):
        return []
    return [body.nodes[i] for i in find_circle(reads)]
