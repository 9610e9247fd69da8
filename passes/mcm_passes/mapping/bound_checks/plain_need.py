"""Least needs of chips, computed from a problem in plain Python, for checkers.

Shares no code with the search: families of tensors are sets that are grown along aliases.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcm_compiler.contracts.partition import PartitionProblem


@dataclass(frozen=True)
class PlainTensor:
    """Memory of one tensor.

    Attributes:
        room: bytes of a buffer.
        sent_room: bytes of one send buffer of its own where it is made; 0 where it may share one.
        live_room: bytes while it is held where it is made; 0 where that is not counted.
        family: units that must be on one chip for it to stay there, its maker among them.
        holders: units that hold it then.
    """

    room: int
    sent_room: int
    live_room: int
    family: frozenset[int]
    holders: frozenset[int]


@dataclass(frozen=True)
class PlainWeight:
    """Memory of one weight.

    Attributes:
        room: bytes; rounded down where it may be streamed.
        users: units that hold it.
    """

    room: int
    users: tuple[int, ...]


def readers_of(problem: PartitionProblem, t: int) -> list[int]:
    """The units that read a tensor."""
    return problem.tensor_consumers[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]].tolist()


def needed_units(problem: PartitionProblem) -> set[int]:
    """Units with a place of their own, and clonable ones that some of them read from."""
    needed = {u for u, clonable in enumerate(problem.clonable.tolist()) if not clonable}
    # Readers come after makers, so that it is known of them.
    for t in np.argsort(-problem.tensor_producer, kind="stable").tolist():
        maker = int(problem.tensor_producer[t])
        if maker >= 0 and any(v in needed for v in readers_of(problem, t)):
            needed.add(maker)
    return needed


def host_sizes(problem: PartitionProblem) -> tuple[list[int], list[int]]:
    """Bytes of each tensor that comes from the host in every placement, and that goes there."""
    needed = needed_units(problem)
    entering: list[int] = []
    leaving: list[int] = []
    for t, maker in enumerate(problem.tensor_producer.tolist()):
        if maker < 0 and any(v in needed for v in readers_of(problem, t)):
            entering.append(int(problem.tensor_bytes[t]))
        elif maker >= 0 and problem.tensor_to_host[t] and not problem.clonable[maker]:
            leaving.append(int(problem.tensor_bytes[t]))
    return entering, leaving


def plain_copies(problem: PartitionProblem) -> dict[int, tuple[int, float]]:
    """Of each view that is copied where it leaves a chip, the unit or -1 that writes its memory.

    With the least seconds of a copy.
    """
    if problem.copies is None:
        return {}
    columns = problem.copies.tensor, problem.copies.writer, problem.copies.least.seconds
    return {t: (u, s) for t, u, s in zip(*(c.tolist() for c in columns), strict=True)}


def plain_weights(problem: PartitionProblem) -> list[PlainWeight]:
    """The weights of a problem."""
    block = problem.limits.buffer_alignment_bytes
    found: list[PlainWeight] = []
    for w, size in enumerate(problem.weight_bytes.tolist()):
        span = slice(int(problem.weight_ptr[w]), int(problem.weight_ptr[w + 1]))
        pairs = zip(problem.weight_users[span].tolist(), problem.weight_touched[span], strict=True)
        blocks = size // block if problem.streams else (size + block - 1) // block
        found.append(PlainWeight(blocks * block, tuple(u for u, touched in pairs if touched)))
    return found


def plain_tensors(problem: PartitionProblem) -> list[PlainTensor]:
    """The tensors of a problem."""
    block = problem.limits.buffer_alignment_bytes
    count = len(problem.tensor_bytes)
    rooms = [(size + block - 1) // block * block for size in problem.tensor_bytes.tolist()]
    makers = problem.tensor_producer.tolist()
    alias = problem.tensor_alias.tolist()
    readers: list[list[tuple[int, bool]]] = []
    for t in range(count):
        touched = problem.tensor_touched[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]]
        readers.append(list(zip(readers_of(problem, t), touched.tolist(), strict=True)))
    views: list[list[int]] = [[] for _ in range(count)]
    for t, source in enumerate(alias):
        if source >= 0:
            views[source].append(t)
    found: list[PlainTensor] = []
    for t in range(count):
        sent = rooms[t] if _leaves_alone(problem, t, alias, makers, readers, views) else 0
        kin, queue = [t], [t]
        while queue:
            more = views[queue.pop()]
            kin += more
            queue += more
        reading = [pair for one in kin for pair in readers[one]]
        others = {u for u, touched in reading if touched and u != makers[t]}
        counted = (
            makers[t] >= 0
            and not problem.clonable[makers[t]]
            and alias[t] == -1
            and bool(others)
            and not any(problem.tensor_to_host[one] for one in kin)
        )
        holders = {u for u in (*others, makers[t]) if counted and problem.one_kernel[u]}
        family = {makers[t], *(u for u, _ in reading)} if counted else set[int]()
        live = rooms[t] if counted else 0
        found.append(PlainTensor(rooms[t], sent, live, frozenset(family), frozenset(holders)))
    return found


def _leaves_alone(
    problem: PartitionProblem,
    t: int,
    alias: list[int],
    makers: list[int],
    readers: list[list[tuple[int, bool]]],
    views: list[list[int]],
) -> bool:
    """Return whether nothing that the tensor is a view of can leave the chip that it leaves."""
    while alias[t] >= 0:
        source = alias[t]
        only = {u for u, _ in readers[source]} == {makers[t]}
        if not only or problem.tensor_to_host[source] or views[source][0] != t:
            return False
        t = source
    return True
