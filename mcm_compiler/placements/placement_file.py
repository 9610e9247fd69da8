"""Placement problems in the JSON of Tarnawski et al. 2020, as they published their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta, Struct

from mcm_compiler.arrays.dags import find_circle
from mcm_compiler.contracts.partition import Ints
from mcm_compiler.contracts.placement import PlacementProblem
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.text import json_text

MAX_FILE_BYTES = 1 << 26
"""A graph of 200,000 operators."""

MAX_DEVICES = 4096

MAX_FAULTS = 20
"""Faults of one kind that are spelled out."""

SAME_COST = 1e-6
"""Transfer times of one output may differ by so much, as in the published programs."""


Devices = Annotated[int, Meta(ge=0, le=MAX_DEVICES)]

Flag = bool | Literal[0, 1]


_LIMITS = {"max_size_per_fpga": "maxSizePerFPGA", "max_fpgas": "maxFPGAs", "max_cpus": "maxCPUs"}


class _Node(Struct, frozen=True, rename="camel"):
    """An operator; in files names are in camel case, and those of limits shout."""

    id: json_text.Whole
    supported_on_fpga: Flag
    cpu_latency: json_text.Amount
    fpga_latency: json_text.Amount
    is_backward_node: Flag
    color_class: json_text.Whole | None = None
    size: json_text.Amount = 0.0
    name: str | None = None


class _Edge(Struct, frozen=True, rename="camel"):
    """An edge of the graph."""

    source_id: json_text.Whole
    dest_id: json_text.Whole
    cost: json_text.Amount
    size: json_text.Amount = 0.0


class _PlacementFile(Struct, frozen=True, rename=_LIMITS):
    """Content of a file."""

    max_size_per_fpga: json_text.Amount
    max_fpgas: Devices
    max_cpus: Devices
    nodes: tuple[_Node, ...]
    edges: tuple[_Edge, ...]


def read_placement(path: Path) -> PlacementProblem:
    """Reads a problem and checks it.

    Raises:
        CompileError: MCM-F001 for a file that is no such problem, MCM-F002 for a number that no
            cost can be, MCM-F004 for a cycle. MCM-F003 for operators that are listed twice, edges
            between operators that are not there, and outputs with two transfer times.
    """
    try:
        data = json_text.parse_json(json_text.read_bounded(path, MAX_FILE_BYTES))
    except json_text.UnreadableError as error:
        message = f"the problem file cannot be read: {error}"
        raise CompileError.of("MCM-F001", message, at=str(path)) from error
    return placement_from_json(data, str(path))


def placement_from_json(data: Any, source: str) -> PlacementProblem:
    """`read_placement` for JSON that was read.

    Raises:
        CompileError: as `read_placement`.
    """
    try:
        found = json_text.record_of(data, _PlacementFile)
    except json_text.OutOfRangeError as error:
        raise CompileError.of("MCM-F002", str(error), at=source) from None
    except json_text.UnreadableError as error:
        message = f"the file is no placement problem: {error}"
        raise CompileError.of("MCM-F001", message, at=source) from None
    nodes, edges = found.nodes, found.edges
    if not nodes:
        message = "the problem has no nodes, so there is nothing to place"
        raise CompileError.of("MCM-F001", message, at=source)
    index = {node.id: v for v, node in enumerate(nodes)}
    names = _names(nodes)
    faults = _contradictions(nodes, edges, index, names, source)
    CompileError.raise_any(faults)
    n = len(nodes)
    transfer = np.zeros(n)
    pairs: dict[tuple[int, int], None] = {}
    for edge in edges:
        u, v = index[edge.source_id], index[edge.dest_id]
        transfer[u] = max(transfer[u], edge.cost)
        pairs[u, v] = None
    ends = np.array(list(pairs), np.int32).reshape(-1, 2)
    problem = PlacementProblem(
        source=source,
        names=names,
        ids=tuple(node.id for node in nodes),
        accelerator_time=np.array([node.fpga_latency for node in nodes], np.float64),
        cpu_time=np.array([node.cpu_latency for node in nodes], np.float64),
        on_accelerator=np.array([bool(node.supported_on_fpga) for node in nodes], np.bool_),
        backward=np.array([bool(node.is_backward_node) for node in nodes], np.bool_),
        size_bytes=np.array([node.size for node in nodes], np.float64),
        color=_colors(nodes),
        transfer_time=transfer,
        edge_source=np.ascontiguousarray(ends[:, 0]),
        edge_target=np.ascontiguousarray(ends[:, 1]),
        max_accelerators=found.max_fpgas,
        max_cpus=found.max_cpus,
        memory_bytes=found.max_size_per_fpga,
    )
    if cycle := find_circle(pairs):
        shown = [quote(names[v]) for v in cycle[:5]] + (["..."] if len(cycle) > 5 else [])
        raise CompileError.of(
            "MCM-F004",
            f"the graph has a cycle of {len(cycle)} node{'s' if len(cycle) > 1 else ''}: "
            f"{' -> '.join([*shown, shown[0]])}",
            at=source,
        )
    return problem


def _names(nodes: Sequence[_Node]) -> tuple[str, ...]:
    """Names from the file where all are there and distinct; else with the id behind."""
    given = [node.name or f"node{node.id}" for node in nodes]
    if len(set(given)) == len(given):
        return tuple(given)
    return tuple(f"{name}#{node.id}" for name, node in zip(given, nodes, strict=True))


def _colors(nodes: Sequence[_Node]) -> Ints:
    index: dict[tuple[str, int], int] = {}
    colors = (
        ("own", v) if node.color_class is None else ("class", node.color_class)
        for v, node in enumerate(nodes)
    )
    return np.array([index.setdefault(color, len(index)) for color in colors], np.int32)


def _contradictions(
    nodes: Sequence[_Node],
    edges: Sequence[_Edge],
    index: dict[int, int],
    names: tuple[str, ...],
    source: str,
) -> list[Diagnostic]:
    found: list[str] = []
    if len(index) < len(nodes):
        twice = [v for v, node in enumerate(nodes) if index[node.id] != v]
        found += [f"nodes[{v}] has the id {nodes[v].id} of another node" for v in twice]
    cost: dict[int, float] = {}
    for k, edge in enumerate(edges):
        for key, end in (("sourceId", edge.source_id), ("destId", edge.dest_id)):
            if end not in index:
                found.append(f"edges[{k}].{key} is {end}, and no node has that id")
        u = edge.source_id
        first = cost.setdefault(u, edge.cost)
        if u in index and abs(edge.cost - first) > SAME_COST:
            found.append(
                f"edges[{k}] transfers the output of {quote(names[index[u]])} in {edge.cost:g}, "
                f"and an edge before in {first:g}"
            )
    diagnostics = [Diagnostic("MCM-F003", message, at=source) for message in found[:MAX_FAULTS]]
    if len(found) > MAX_FAULTS:
        message = f"{len(found) - MAX_FAULTS:,} more faults of this kind"
        diagnostics.append(Diagnostic("MCM-F003", message, at=source))
    return diagnostics


def with_devices(
    problem: PlacementProblem, max_accelerators: int | None, max_cpus: int | None
) -> PlacementProblem:
    """The problem with other numbers of devices, where they are given.

    Raises:
        CompileError: MCM-F006 if more devices are asked for than there are nodes.
    """
    changes: dict[str, int] = {}
    if max_accelerators is not None:
        changes["max_accelerators"] = max_accelerators
    if max_cpus is not None:
        changes["max_cpus"] = max_cpus
    asked = sum(changes.values())
    if asked > problem.num_operators:
        raise CompileError.of(
            "MCM-F006",
            f"{asked} devices are asked for, and the problem has {problem.num_operators} nodes",
            at=problem.source,
            hint="ask for at most one device per node",
        )
    return replace(problem, **changes)
