"""Structural faults of an ONNX graph, found before the IR is built.

onnx's own checker refuses models that onnxruntime runs (nodes out of order), and onnxruntime's
messages name no hint; so the rules that matter are checked here, each with its own diagnostic.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

import onnx

from mcm_compiler.diagnostics import Diagnostic, quote

MAX_FAULTS = 20
"""Diagnostics of one kind that are worth printing."""

MAX_SUBGRAPH_DEPTH = 50
"""Nesting of subgraphs that is followed; onnxruntime and protobuf give up not much later."""


def check_structure(graph: onnx.GraphProto) -> list[Diagnostic]:
    """Checks names and data flow of the main graph and its subgraphs.

    Returns:
        MCM-I004 (no node), MCM-I010 (a value produced twice), MCM-I011 (a value that nobody
        produces), MCM-I012 (a cycle), MCM-I013 (a graph output that nobody produces),
        MCM-I014 (subgraphs nested too deep).
    """
    if not graph.node:
        return [
            Diagnostic(
                "MCM-I004",
                "the graph has no node, so there is nothing to place",
                at=f"graph {quote(graph.name)}",
                hint="check that the export wrote the model that you meant",
            )
        ]
    faults = _check_graph(graph, frozenset(), 0)
    return faults[:MAX_FAULTS]


def _check_graph(graph: onnx.GraphProto, outer: frozenset[str], depth: int) -> list[Diagnostic]:
    if depth > MAX_SUBGRAPH_DEPTH:
        return [
            Diagnostic(
                "MCM-I014",
                f"subgraphs are nested more than {MAX_SUBGRAPH_DEPTH} deep",
                at=f"graph {quote(graph.name)}",
                hint="inline or merge the inner branches",
            )
        ]
    faults: list[Diagnostic] = []
    given = {i.name for i in graph.initializer} | {i.values.name for i in graph.sparse_initializer}
    given |= {i.name for i in graph.input}
    producer: dict[str, onnx.NodeProto] = {}
    for node in graph.node:
        for name in node.output:
            if not name:
                continue
            if name in producer or name in given:
                faults.append(
                    Diagnostic(
                        "MCM-I010",
                        f"the value {quote(name)} is produced twice",
                        at=_place(node),
                        hint="a graph is in single-assignment form; rename one of them",
                    )
                )
            producer[name] = node
    visible = outer | given | producer.keys()
    for node in graph.node:
        for name in node.input:
            if name and name not in visible:
                near = difflib.get_close_matches(name, list(visible)[:2000], n=1)
                faults.append(
                    Diagnostic(
                        "MCM-I011",
                        f"the value {quote(name)} is read but never produced",
                        at=_place(node),
                        hint=f"the nearest name is {quote(near[0])}" if near else "export it again",
                    )
                )
        for subgraph in _subgraphs(node):
            faults += _check_graph(subgraph, frozenset(visible), depth + 1)
    faults += [
        Diagnostic(
            "MCM-I013",
            f"the graph output {quote(output.name)} is never produced",
            at=f"graph {quote(graph.name)}",
            hint="remove the output, or add the node that makes it",
        )
        for output in graph.output
        if output.name not in visible
    ]
    if not faults and depth == 0 and (cycle := _find_cycle(graph, producer)):
        shown = " -> ".join(quote(n.name or n.op_type) for n in cycle[:5])
        faults.append(
            Diagnostic(
                "MCM-I012",
                f"{len(cycle)} nodes form a cycle: {shown}{' -> ...' if len(cycle) > 5 else ''}",
                at=_place(cycle[0]),
                hint="a graph must be acyclic; loops are written with the Loop or Scan op",
            )
        )
    return faults


def _place(node: onnx.NodeProto) -> str:
    return f"node {quote(node.name)} ({node.op_type})" if node.name else f"a {node.op_type} node"


def _subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    yield from node.input
    for subgraph in _subgraphs(node):
        for inner in subgraph.node:
            yield from _reads(inner)
        for output in subgraph.output:
            yield output.name


def _find_cycle(
    graph: onnx.GraphProto, producer: dict[str, onnx.NodeProto]
) -> list[onnx.NodeProto]:
    """The nodes of one cycle, in order; empty where there is none (Kahn's algorithm)."""
    index = {id(node): i for i, node in enumerate(graph.node)}
    sources: list[list[int]] = []
    readers: list[list[int]] = [[] for _ in graph.node]
    for i, node in enumerate(graph.node):
        before = {index[id(producer[name])] for name in _reads(node) if name in producer}
        sources.append(sorted(before))
        for j in before:
            readers[j].append(i)
    waiting = [len(before) for before in sources]
    ready = [i for i, count in enumerate(waiting) if count == 0]
    while ready:
        for j in readers[ready.pop()]:
            waiting[j] -= 1
            if waiting[j] == 0:
                ready.append(j)
    stuck = [i for i, count in enumerate(waiting) if count]
    if not stuck:
        return []
    # Walking backwards among stuck nodes must come back to a node that was seen.
    path: dict[int, None] = {}
    at = stuck[0]
    while at not in path:
        path[at] = None
        at = next(j for j in sources[at] if waiting[j])
    walk = list(path)
    return [graph.node[i] for i in reversed(walk[walk.index(at) :])]
