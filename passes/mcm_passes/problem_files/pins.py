"""Where the user pins ops, and what can contradict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.fusion import FusionPlan
from mcm_compiler.ir.constants import placeable_nodes
from mcm_compiler.partition import Ints, Longs, PartitionProblem
from mcm_passes.problem_files.name_matching import KnownNames
from mcm_passes.solver.relay_domains import match
from mcm_passes.solver.rule_graph import RuleGraph, rule_graph

MAX_FAULTS = 10
"""Contradictions that are spelled out."""

AT = "option --pin"


def known_names(model: ir.Model, plan: FusionPlan) -> KnownNames:
    """Names that a pin or an assignment may use: those of ops and of fusion groups."""
    nodes = [node.name or "" for node in placeable_nodes(model.graph)]
    return KnownNames([*nodes, *(group.name for group in plan.groups)])


def match_pins(pins: Sequence[tuple[str, int]], names: KnownNames) -> dict[str, int]:
    """The chip of each name that a pin matches.

    Args:
        pins: names or patterns, and chips.
        names: of the graph.

    Raises:
        CompileError: MCM-F011 for a pin that matches nothing, MCM-F012 where two pins want one op
            on two chips.
    """
    chip_of: dict[str, int] = {}
    by: dict[str, str] = {}
    faults: list[Diagnostic] = []
    for wanted, chip in pins:
        found = names.matching(wanted)
        if not found:
            message = f"{quote(wanted)} is pinned to chip {chip}, and no op or group has that name"
            faults.append(Diagnostic("MCM-F011", message, at=AT, hint=names.hint(wanted)))
        for name in found:
            if chip_of.setdefault(name, chip) == chip:
                by.setdefault(name, wanted)
                continue
            if len(faults) < MAX_FAULTS:
                message = (
                    f"{quote(name)} is pinned to chip {chip_of[name]} by {quote(by[name])} and to "
                    f"chip {chip} by {quote(wanted)}"
                )
                hint = "an op runs on one chip; leave one of the two out"
                faults.append(Diagnostic("MCM-F012", message, at=AT, hint=hint))
            break
    if faults:
        raise CompileError(faults)
    return chip_of


def refuse_contradictions(problem: PartitionProblem, pins: Mapping[str, int]) -> None:
    """Refuses pins that no partition can keep.

    Args:
        problem: with the pins in `pinned_chip`.
        pins: from `match_pins`.

    Raises:
        CompileError: MCM-F012 for ops of one unit on two chips, for dataflow against the ring, and
            for chips that would have to stay empty.
    """
    faults = _torn_units(problem, pins)
    if not faults and int(problem.pinned_chip.max(initial=-1)) < problem.num_chips:
        graph = rule_graph(problem)
        faults = _against_the_ring(problem, graph) or _empty_chip(problem, graph)
    if faults:
        raise CompileError(faults[:MAX_FAULTS])


def _torn_units(problem: PartitionProblem, pins: Mapping[str, int]) -> list[Diagnostic]:
    faults: list[Diagnostic] = []
    for unit, members in zip(problem.names, problem.members, strict=True):
        wanted = {name: pins[name] for name in (unit, *members) if name in pins}
        if len(set(wanted.values())) > 1:
            first, *rest = wanted
            second = next(name for name in rest if wanted[name] != wanted[first])
            message = (
                f"{quote(first)} is pinned to chip {wanted[first]} and {quote(second)} to chip "
                f"{wanted[second]}, but they stay together in {quote(unit)}"
            )
            hint = "pin both to one chip, or compile without `fuse` (--passes)"
            faults.append(Diagnostic("MCM-F012", message, at=AT, hint=hint))
    return faults


def _against_the_ring(problem: PartitionProblem, graph: RuleGraph) -> list[Diagnostic]:
    crossed = np.flatnonzero(graph.low > graph.high)
    if not crossed.size:
        return []
    v = int(crossed[0])
    pinned = problem.pinned_chip[graph.units]
    early = _pinned_at(
        v, int(graph.low[v]), pinned, graph.low, graph.before_ptr, graph.before_nodes
    )
    late = _pinned_at(v, int(graph.high[v]), pinned, graph.high, graph.next_ptr, graph.next_nodes)
    before, after = (quote(problem.names[graph.units[w]]) for w in (early, late))
    message = (
        f"{before} is pinned to chip {graph.low[v]} and {after} to chip {graph.high[v]}, but "
        f"{after} depends on {before} and data flows to higher chips only"
    )
    hint = f"pin {after} to chip {graph.low[v]} or higher, or {before} lower"
    return [Diagnostic("MCM-F012", message, at=AT, hint=hint)]


def _pinned_at(v: int, chip: int, pinned: Ints, reach: Ints, ptr: Longs, nodes: Ints) -> int:
    """The node whose pin gave `v` its bound: back along the nodes that share it."""
    while pinned[v] != chip:
        v = next(int(u) for u in nodes[ptr[v] : ptr[v + 1]] if reach[u] == chip)
    return v


def _empty_chip(problem: PartitionProblem, graph: RuleGraph) -> list[Diagnostic]:
    highest = int(graph.low.max(initial=-1))
    needed = np.arange(graph.num_chips) <= highest
    nodes = np.arange(graph.num_nodes, dtype=np.int32)
    chosen = np.full(graph.num_chips, -1, np.int32)
    empty = match(nodes, graph.low, graph.high, needed, chosen)
    if empty < 0:
        return []
    v = int(graph.low.argmax())
    name = quote(problem.names[graph.units[v]])
    message = (
        f"the pins put {name} on chip {highest} or higher, and leave too few ops for the chips "
        f"before it: chip {empty} would stay empty"
    )
    hint = "no chip below a used one may be empty; pin to lower chips, or pin fewer ops"
    return [Diagnostic("MCM-F012", message, at=AT, hint=hint)]
