"""The partition problem of a round: L inferences that one pipeline computes together.

The graph of a round has each op L times, and weights and constants once. Its problem follows from
that of one inference by arrays alone, so that a search needs no graph to look at rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from mcm_compiler.arrays.types import Longs
from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.graph.rounds import class_name


def unrolled(
    problem: PartitionProblem, classes: int, own: Mapping[str, Sequence[str]] | None = None
) -> PartitionProblem:
    """The problem of a round of `classes` inferences; the problem itself where that is 1.

    Unit u of class k is number `k * N + u`. Graph inputs come first, class by class, then the
    tensors that units make, class by class. Each class has buffers of its own, and a chip stores a
    weight once for all classes, but for `own`, of which those of classes behind the first follow
    all others. The copied units are those of one inference.

    Args:
        problem: of one inference, without joules.
        classes: L, at least 1.
        own: names, by class, of each weight that each class has for itself (`own_weights`).
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
    own = own or {}
    mine = np.array([name in own for name in problem.weight_names], np.bool_)
    stored = np.concatenate([np.arange(mine.size), np.tile(np.flatnonzero(mine), classes - 1)])
    in_class = np.repeat(np.arange(classes), [mine.size] + [mine.sum()] * (classes - 1))
    user, user_class, weight = _users_of_classes(problem.weight_ptr, classes)
    behind = mine[weight] & (user_class > 0)
    weight[behind] = (
        mine.size + (user_class[behind] - 1) * mine.sum() + np.cumsum(mine)[weight[behind]] - 1
    )
    by_weight = np.argsort(weight, kind="stable")
    user, user_class = user[by_weight], user_class[by_weight]
    users = np.bincount(weight, minlength=stored.size)
    producer, alias = problem.tensor_producer[old], problem.tensor_alias[old]
    kinds, copies, deviation_s = problem.kinds, problem.copies, problem.deviation_s
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
        deviation_s=None if deviation_s is None else np.tile(deviation_s, classes),
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
        weight_names=tuple(
            own[name][k] if (name := problem.weight_names[w]) in own else name
            for w, k in zip(stored.tolist(), in_class.tolist(), strict=True)
        ),
        weight_bytes=problem.weight_bytes[stored],
        weight_ptr=np.concatenate([[0], np.cumsum(users)]).astype(np.int64),
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


def _users_of_classes(ptr: Longs, classes: int) -> tuple[Longs, Longs, Longs]:
    """Where each user of each weight of the round comes from, its class, and the weight."""
    counts = np.diff(ptr)
    rows = np.repeat(np.arange(counts.size), counts * classes)
    place = np.arange(rows.size) - ptr[rows] * classes
    return ptr[rows] + place % counts[rows], place // counts[rows], rows
