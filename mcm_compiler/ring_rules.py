"""The rules of the ring: whether a partition is valid, decided here and nowhere else.

The four constraints of MCM, section 3 (Eq. 2-5), on plain arrays. A node may be a placement unit
or a whole chip: `mcmc check` calls the same function with the wires of a compiled folder, where
every chip is one node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mcm_compiler.diagnostics import quote
from mcm_compiler.partition import Ints, Longs, PartitionProblem
from mcm_compiler.target import Routing

Rule = Literal["range", "acyclic", "no_skip", "triangle", "memory", "pin"]

MAX_REPORTED = 20
"""Violations of one rule that are spelled out; a broken partition can have millions."""


@dataclass(frozen=True)
class Violation:
    """One broken rule.

    Attributes:
        rule: which one.
        message: one sentence with the names and numbers.
        nodes: indices of the nodes involved.
        chips: the chips involved.
    """

    rule: Rule
    message: str
    nodes: tuple[int, ...]
    chips: tuple[int, ...]


def find_violations(
    chip_of: Ints,
    edge_source: Ints,
    edge_target: Ints,
    *,
    num_chips: int,
    routing: Routing,
    demand_bytes: Longs | None = None,
    limit_bytes: Sequence[int] = (),
    names: Sequence[str] | None = None,
) -> list[Violation]:
    """The rules that a placement breaks; empty where it is valid.

    Edges out of clonable units must be left out: the copies are computed where they are read.
    Under `relay` the triangle rule holds by construction once the relays stand, since every hop
    is one chip long; it is not checked here. A graph that has its relays, such as the wires of a
    compiled folder, is checked with `routing="strict"`, whatever it was made under.

    Args:
        chip_of: `[N]`, chip of each node.
        edge_source: `[E]`, the node that each dependency comes from.
        edge_target: `[E]`, the node that each dependency goes to.
        num_chips: chips on the ring.
        routing: the rule for long dependencies.
        demand_bytes: `[C]`, memory that each chip needs, or None to leave Eq. 5 out.
        limit_bytes: `[C]`, memory that each chip has; needed with `demand_bytes`.
        names: `[N]`, for the messages; indices where None.
    """
    found = _out_of_range(chip_of, num_chips, names)
    if found:
        return found
    found += _backward_edges(chip_of, edge_source, edge_target, names)
    found += _skipped_chips(chip_of)
    if routing == "strict" and not found:
        found += _triangles(chip_of, edge_source, edge_target, num_chips, names)
    if demand_bytes is not None:
        found += [
            Violation("memory", f"chip {c} needs {need} bytes and has {have}", (), (c,))
            for c, (need, have) in enumerate(zip(demand_bytes.tolist(), limit_bytes, strict=True))
            if need > have
        ]
    return found


def dependency_edges(problem: PartitionProblem) -> tuple[Ints, Ints]:
    """The edges `(source, target)` between units that the rules speak of.

    Edges out of clonable units are exempt, and the host's tensors are no edges.
    """
    lengths = np.diff(problem.tensor_ptr)
    source = np.repeat(problem.tensor_producer, lengths)
    keep = (source >= 0) & ~problem.clonable[np.maximum(source, 0)] if source.size else source >= 0
    return source[keep], problem.tensor_consumers[keep]


def find_partition_violations(
    problem: PartitionProblem, chip_of: Ints, demand_bytes: Longs | None = None
) -> list[Violation]:
    """`find_violations` for a partition of `problem`, and the user's pins.

    Args:
        problem: what was to be placed.
        chip_of: `[N]`; entries of clonable units hold the first chip with a copy.
        demand_bytes: `[C]`, memory that each chip needs, or None.
    """
    source, target = dependency_edges(problem)
    found = find_violations(
        chip_of,
        source,
        target,
        num_chips=problem.num_chips,
        routing=problem.routing,
        demand_bytes=demand_bytes,
        limit_bytes=problem.limits.sram_bytes,
        names=problem.names,
    )
    moved = np.flatnonzero((problem.pinned_chip >= 0) & (problem.pinned_chip != chip_of))
    for u in moved[:MAX_REPORTED].tolist():
        want, is_on = int(problem.pinned_chip[u]), int(chip_of[u])
        message = f"{_name(u, problem.names)} is pinned to chip {want} but is on chip {is_on}"
        found.append(Violation("pin", message, (u,), (want, is_on)))
    return found


def _name(node: int, names: Sequence[str] | None) -> str:
    return f"node {node}" if names is None else quote(names[node])


def _out_of_range(chip_of: Ints, num_chips: int, names: Sequence[str] | None) -> list[Violation]:
    outside = np.flatnonzero((chip_of < 0) | (chip_of >= num_chips))
    return [
        Violation(
            "range",
            f"{_name(u, names)} is on chip {chip_of[u]}, and there are {num_chips} chips",
            (u,),
            (int(chip_of[u]),),
        )
        for u in outside[:MAX_REPORTED].tolist()
    ]


def _backward_edges(
    chip_of: Ints, source: Ints, target: Ints, names: Sequence[str] | None
) -> list[Violation]:
    backward = np.flatnonzero(chip_of[source] > chip_of[target])
    found: list[Violation] = []
    for e in backward[:MAX_REPORTED].tolist():
        u, v = int(source[e]), int(target[e])
        a, b = int(chip_of[u]), int(chip_of[v])
        message = (
            f"{_name(v, names)} on chip {b} reads {_name(u, names)} on chip {a}, "
            "against the direction of the ring"
        )
        found.append(Violation("acyclic", message, (u, v), (a, b)))
    return found


def _skipped_chips(chip_of: Ints) -> list[Violation]:
    if not chip_of.size:
        return []
    used = np.bincount(chip_of) > 0
    return [
        Violation("no_skip", f"chip {c} is empty and chip {used.size - 1} is used", (), (c,))
        for c in np.flatnonzero(~used).tolist()
    ]


def _triangles(
    chip_of: Ints, source: Ints, target: Ints, num_chips: int, names: Sequence[str] | None
) -> list[Violation]:
    """Direct dependencies between chips beside which a longer path exists (MCM, Eq. 4).

    Reachability over the quotient graph is kept as one integer bitset per chip; chips are in
    topological order already, so one sweep from the last to the first closes it.
    """
    a, b = chip_of[source], chip_of[target]
    pairs = np.unique(np.stack([a, b], axis=1)[a != b], axis=0).tolist()
    successors: list[list[int]] = [[] for _ in range(num_chips)]
    for first, second in pairs:
        successors[first].append(second)
    reach = [0] * num_chips
    found: list[Violation] = []
    for c in range(num_chips - 1, -1, -1):
        beyond = 0
        for s in successors[c]:
            beyond |= reach[s]
        for s in successors[c]:
            if beyond >> s & 1 and len(found) < MAX_REPORTED:
                via = next(m for m in successors[c] if reach[m] >> s & 1)
                edge = int(np.flatnonzero((a == c) & (b == s))[0])
                u, v = int(source[edge]), int(target[edge])
                message = (
                    f"{_name(v, names)} on chip {s} reads {_name(u, names)} on chip {c} directly, "
                    f"and a longer path leads there through chip {via}"
                )
                found.append(Violation("triangle", message, (u, v), (c, via, s)))
        for s in successors[c]:
            beyond |= 1 << s
        reach[c] = beyond
    return found
