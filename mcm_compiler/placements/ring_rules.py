"""The rules of the ring: whether a partition is valid, decided here and nowhere else.

The four constraints of MCM, section 3 (Eq. 2-5), on plain arrays. A node may be a placement unit
or a whole chip: `mcmc check` calls the same function with the wires of a compiled folder, where
every chip is one node.

The host is one more node. Where every chip reaches it, a graph input goes from the host to each
chip that reads it, and a graph output from its maker's chip to the host. Where only the ends of the
package do, the last chip still gets inputs directly, and the first gives outputs directly. What
other chips read enters at the first and what they give leaves at the last, over the links between.

A tensor is *forwarded* where each chip between its maker and its last reader receives it and passes
it on. Else its maker's chip sends it once, and the chips that read it receive it: where long
dependencies are ruled out, where routers pass tensors on, and between the host and inner chips.
What clonable units make never travels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mcm_compiler.contracts.mapping import Violation
from mcm_compiler.contracts.partition import Bools, Ints, Longs, PartitionProblem
from mcm_compiler.contracts.target import Routing
from mcm_compiler.diagnostics import quote
from mcm_compiler.text.units import bytes_text

MAX_REPORTED = 20
"""Violations of one rule that are spelled out; a broken partition can have millions."""

MAX_STEPS = 4
"""Steps of a path that a message spells out; a path can lead over all chips."""

MAX_CONTRIBUTORS = 3
"""Nodes that the message about an overflowing chip names."""


def find_violations(
    chip_of: Ints,
    edge_source: Ints,
    edge_target: Ints,
    *,
    num_chips: int,
    routing: Routing,
    names: Sequence[str] | None = None,
) -> list[Violation]:
    """The rules that a placement breaks but for memory, which is `overflows`; empty if it is valid.

    Takes O(N + E + C^2), but for the few violations that are spelled out.

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
        names: `[N]`, for the messages; indices where None.
    """
    if found := out_of_range(chip_of, num_chips, names):
        return found
    found = _backward_edges(chip_of, edge_source, edge_target, names)
    found += _skipped_chips(chip_of, names)
    if routing == "strict" and not found:
        found += _triangles(chip_of, edge_source, edge_target, names)
    return found


def dependency_edges(problem: PartitionProblem) -> tuple[Ints, Ints]:
    """The edges `(source, target)` between units that the rules speak of.

    Edges out of clonable units are exempt, and the host's tensors are no edges.
    """
    lengths = np.diff(problem.tensor_ptr)
    source = np.repeat(problem.tensor_producer, lengths)
    keep = (source >= 0) & ~problem.clonable[np.maximum(source, 0)] if source.size else source >= 0
    return source[keep], problem.tensor_consumers[keep]


def find_overflows(
    problem: PartitionProblem, chip_of: Ints, demand_bytes: Longs
) -> list[Violation]:
    """Chips that need more memory than they have.

    Args:
        problem: what was to be placed.
        chip_of: `[N]`, chips in range.
        demand_bytes: `[C]`, memory that each chip needs.
    """
    limits = problem.limits.sram_bytes
    over = bool((demand_bytes > np.array(limits, np.int64)).any())
    node_bytes = _unit_weight_bytes(problem) if over else None
    return overflows(chip_of, demand_bytes, limits, node_bytes, problem.names)


def misplaced_pins(problem: PartitionProblem, chip_of: Ints) -> list[Violation]:
    """Units that are elsewhere than where the user wants them."""
    pinned = problem.pinned_chip
    moved = np.flatnonzero((pinned >= 0) & (pinned != chip_of))[:MAX_REPORTED]
    return [
        Violation(
            "pin",
            f"{_name(u, problem.names)} is pinned to chip {want} but is on chip {is_on}",
            (u,),
            (want, is_on),
        )
        for u, want, is_on in np.stack([moved, pinned[moved], chip_of[moved]], axis=1).tolist()
    ]


def _unit_weight_bytes(problem: PartitionProblem) -> Longs:
    """`[N]`, bytes of the weights that each unit uses; one that several use counts for each."""
    shares = np.repeat(problem.weight_bytes, np.diff(problem.weight_ptr))
    return np.bincount(problem.weight_users, shares, problem.num_units).astype(np.int64)


def _name(node: int, names: Sequence[str] | None) -> str:
    return f"node {node}" if names is None else quote(names[node])


def out_of_range(chip_of: Ints, num_chips: int, names: Sequence[str] | None) -> list[Violation]:
    """Nodes on chips that do not exist."""
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
    """Dependencies against the ring (MCM, Eq. 2)."""
    backward = np.flatnonzero(chip_of[source] > chip_of[target])[:MAX_REPORTED]
    ends = np.stack([source[backward], target[backward]], axis=1)
    return [
        Violation(
            "acyclic",
            f"{_name(v, names)} on chip {b} reads {_name(u, names)} on chip {a}, against the "
            f"direction of the ring: f({_name(u, names)}) = {a} > f({_name(v, names)}) = {b}",
            (u, v),
            (a, b),
        )
        for (u, v), (a, b) in zip(ends.tolist(), chip_of[ends].tolist(), strict=True)
    ]


def _skipped_chips(chip_of: Ints, names: Sequence[str] | None) -> list[Violation]:
    """Chips without a node below the highest one that has some (MCM, Eq. 3)."""
    if not chip_of.size:
        return []
    top = int(np.argmax(chip_of))
    used = np.bincount(chip_of) > 0
    return [
        Violation(
            "no_skip",
            f"chip {c} is empty and chip {used.size - 1} is used, by {_name(top, names)}",
            (top,),
            (c, used.size - 1),
        )
        for c in np.flatnonzero(~used).tolist()
    ]


def overflows(
    chip_of: Ints,
    demand_bytes: Longs,
    limit_bytes: Sequence[int],
    node_bytes: Longs | None = None,
    names: Sequence[str] | None = None,
) -> list[Violation]:
    """Chips that need more memory than they have (MCM, Eq. 5).

    Args:
        chip_of: `[N]`, chip of each node.
        demand_bytes: `[C]`, memory that each chip needs.
        limit_bytes: `[C]`, memory that each chip has.
        node_bytes: `[N]`, what each node brings to its chip, so that the message about a chip
            that overflows can name the largest; or None.
        names: `[N]`, for the messages; indices where None.

    Raises:
        ValueError: if there are not as many limits as chips.
    """
    limits = np.array(limit_bytes, np.int64)
    if limits.shape != demand_bytes.shape:
        raise ValueError(f"{limits.size} limits for {demand_bytes.size} chips")
    found: list[Violation] = []
    for c in np.flatnonzero(demand_bytes > limits).tolist():
        need, have = int(demand_bytes[c]), int(limits[c])
        message = (
            f"chip {c} needs {bytes_text(need)} ({need:,} bytes) and has {bytes_text(have)}, "
            f"{need - have:,} bytes too little"
        )
        largest: list[int] = []
        if node_bytes is not None and len(found) < MAX_REPORTED:
            mine = np.flatnonzero((chip_of == c) & (node_bytes > 0))
            order = np.argsort(-node_bytes[mine], kind="stable")[:MAX_CONTRIBUTORS]
            largest = mine[order].tolist()
            parts = [f"{_name(u, names)} with {bytes_text(int(node_bytes[u]))}" for u in largest]
            message += f"; the largest there: {', '.join(parts)}" if parts else ""
        found.append(Violation("memory", message, tuple(largest), (c,)))
    return found


def _triangles(
    chip_of: Ints, source: Ints, target: Ints, names: Sequence[str] | None
) -> list[Violation]:
    """Direct dependencies between chips with a longer parallel path (MCM, Eq. 4).

    Chips are in topological order already, so one sweep from the last to the first finds all longer
    paths.
    """
    a, b = chip_of[source], chip_of[target]
    size = int(chip_of.max(initial=-1)) + 1
    # Of the edges between two chips the first one is told.
    edge_of = np.full((size, size), a.size)
    np.minimum.at(edge_of, (a, b), np.arange(a.size))
    np.fill_diagonal(edge_of, a.size)
    direct = edge_of < a.size
    longer = np.zeros_like(direct)
    for c in range(size - 1, -1, -1):
        longer[c] = (direct | longer)[direct[c]].any(axis=0)
    found: list[Violation] = []
    for c, s in np.argwhere((direct & longer)[::-1])[:MAX_REPORTED].tolist():
        chips = _longer_path(size - 1 - c, s, direct, longer)
        steps = [(int(source[e]), int(target[e])) for e in edge_of[chips[:-1], chips[1:]]]
        edge = int(source[edge_of[chips[0], s]]), int(target[edge_of[chips[0], s]])
        message = _triangle_message(edge, steps, chips, names)
        found.append(Violation("triangle", message, edge, tuple(chips), tuple(steps)))
    return found


def _longer_path(start: int, end: int, direct: Bools, longer: Bools) -> list[int]:
    """Chips from `start` to `end` over at least one other, by the lowest ones."""
    path, reaches = [start], direct[:, end] | longer[:, end]
    while len(path) == 1 or not direct[path[-1], end]:
        path.append(int(np.argmax(direct[path[-1]] & reaches)))
    return [*path, end]


def _triangle_message(
    direct: tuple[int, int],
    path: Sequence[tuple[int, int]],
    chips: Sequence[int],
    names: Sequence[str] | None,
) -> str:
    all_steps = [f"{_name(v, names)} reads {_name(u, names)}" for u, v in path]
    steps = _shortened(all_steps, MAX_STEPS, f"{len(path) - MAX_STEPS} more")
    shown = _shortened([str(chip) for chip in chips], MAX_STEPS + 1, "...")
    u, v = direct
    return (
        f"{_name(v, names)} on chip {chips[-1]} reads {_name(u, names)} on chip {chips[0]} "
        f"directly, and a longer path leads there, chips {' -> '.join(shown)}: {', '.join(steps)}"
    )


def _shortened(parts: Sequence[str], most: int, gap: str) -> Sequence[str]:
    """At most this many parts, the last one among them, and `gap` in place of the others."""
    return parts if len(parts) <= most else [*parts[: most - 1], gap, parts[-1]]


HOST = -1
"""The maker of graph inputs, where a chip is expected."""

FROM_HOST, EVERYWHERE, TO_HOST, COLLECTED, FORWARDED, CLONED, SENT_ONCE = (1 << k for k in range(7))
"""Bits of a tensor's kind: the host makes it. It reaches each reader's chip from the host, over
channels of that chip alone. The host wants it; it leaves at the ends of the package; the chips
between pass it on; clonable units make it; one set of send buffers serves the host and the next
chip."""


def route_kinds(problem: PartitionProblem) -> Longs:
    """`[T]`, the bits of each tensor."""
    made = problem.tensor_producer >= 0
    cloned = made & problem.clonable[np.maximum(problem.tensor_producer, 0)]
    ends = problem.limits.at_ends
    to_host = problem.tensor_to_host & made & ~cloned
    forwarded = problem.relays & made & ~cloned
    once = (problem.memory == "need") & to_host
    parts = (
        (FROM_HOST, ~made),
        (EVERYWHERE, ~made & (not ends) & (problem.on_ring)),
        (TO_HOST, to_host),
        (COLLECTED, to_host & ends),
        (FORWARDED, forwarded),
        (CLONED, cloned),
        (SENT_ONCE, once),
    )
    return np.sum([bit * holds.astype(np.int64) for bit, holds in parts], axis=0)
