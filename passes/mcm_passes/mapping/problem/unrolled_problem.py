"""The partition problem of a round: L inferences that one pipeline computes together.

The graph of a round has each op L times, and weights and constants once. Its problem follows from
that of one inference by arrays alone, so that a search needs no graph to look at rounds.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mcm_compiler.arrays.types import Longs
from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.graph.rounds import class_name


def unrolled(problem: PartitionProblem, classes: int) -> PartitionProblem:
    """The problem of a round of `classes` inferences; the problem itself where that is 1.

    Unit u of class k is number `k * N + u`. Graph inputs come first, class by class, then the
    tensors that units make, class by class. Each class has buffers of its own, and a chip stores a
    weight once for all classes. The copied units are those of one inference.

    Args:
        problem: of one inference, without joules.
        classes: L, at least 1.
    """
    if classes == 1:
        return problem
    units = problem.num_units
    number = _tensor_numbers(problem, classes)
    # Tensor t of the round is tensor `old[t]` of one inference, in class `of[t]`.
    old, of = np.empty((2, number.size), np.int64)
    old[number] = np.arange(problem.tensor_bytes.size)
    of[number] = np.arange(classes)[:, np.newaxis]
    counts = np.diff(problem.tensor_ptr)[old]
    ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    at = np.arange(int(ptr[-1])) + np.repeat(problem.tensor_ptr[:-1][old] - ptr[:-1], counts)
    consumers = problem.tensor_consumers[at] + np.repeat(of * units, counts)
    user, user_class = _users_of_classes(problem.weight_ptr, classes)
    producer, alias = problem.tensor_producer[old], problem.tensor_alias[old]
    kinds, copies = problem.kinds, problem.copies
    if kinds is not None:
        kinds = replace(
            kinds,
            unit_s=np.tile(kinds.units, classes).ravel(),
            relay_s=kinds.relays[:, old].ravel(),
            runs=np.tile(kinds.can_run, classes).ravel(),
        )
    if copies is not None:
        tensor = number[:, copies.tensor]
        copied = np.argsort(tensor, axis=None)
        shift = np.arange(classes)[:, np.newaxis] * units
        writer = np.where(copies.writer < 0, copies.writer, copies.writer + shift)
        copies = replace(
            copies,
            tensor=tensor.ravel()[copied].astype(np.int32),
            writer=writer.ravel()[copied].astype(np.int32),
            seconds=np.tile(copies.by_kind, classes)[:, copied].ravel(),
        )
    return replace(
        problem,
        names=tuple(class_name(name, k) for k in range(classes) for name in problem.names),
        members=tuple(
            tuple(class_name(op, k) for op in ops)
            for k in range(classes)
            for ops in problem.members
        ),
        compute_s=np.tile(problem.compute_s, classes),
        clonable=np.tile(problem.clonable, classes),
        pinned_chip=np.tile(problem.pinned_chip, classes),
        tensor_names=tuple(
            class_name(problem.tensor_names[t], k)
            for t, k in zip(old.tolist(), of.tolist(), strict=True)
        ),
        tensor_bytes=problem.tensor_bytes[old],
        tensor_producer=np.where(producer < 0, producer, producer + of * units).astype(np.int32),
        tensor_ptr=ptr,
        tensor_consumers=consumers.astype(np.int32),
        tensor_to_host=problem.tensor_to_host[old],
        relay_s=problem.relay_s[old],
        weight_ptr=problem.weight_ptr * classes,
        weight_users=(problem.weight_users[user] + user_class * units).astype(np.int32),
        op_types=problem.op_types * classes,
        tensor_alias=np.where(alias < 0, alias, number[of, alias]).astype(np.int32),
        tensor_touched=problem.tensor_touched[at],
        weight_touched=problem.weight_touched[user],
        one_kernel=np.tile(problem.one_kernel, classes),
        energy=None,
        kinds=kinds,
        copies=copies,
    )


def _tensor_numbers(problem: PartitionProblem, classes: int) -> Longs:
    """`[L, T]`, the number in the round of each tensor of each class."""
    count = problem.tensor_bytes.size
    inputs = int((problem.tensor_producer < 0).sum())
    number, of = np.arange(count), np.arange(classes)[:, np.newaxis]
    return np.where(
        number < inputs,
        number + of * inputs,
        number + inputs * (classes - 1) + of * (count - inputs),
    )


def _users_of_classes(ptr: Longs, classes: int) -> tuple[Longs, Longs]:
    """Where each user of each weight of the round comes from, and its class."""
    counts = np.diff(ptr)
    rows = np.repeat(np.arange(counts.size), counts * classes)
    place = np.arange(rows.size) - ptr[rows] * classes
    return ptr[rows] + place % counts[rows], place // counts[rows]
