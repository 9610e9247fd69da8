"""What chips need at least, computed from a problem in plain Python, for checkers.

Shares no code with the search: families of tensors are sets that are grown along aliases.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    """Whether nothing that the tensor is a view of can leave the chip that it leaves."""
    while alias[t] >= 0:
        source = alias[t]
        only = {u for u, _ in readers[source]} == {makers[t]}
        if not only or problem.tensor_to_host[source] or views[source][0] != t:
            return False
        t = source
    return True
