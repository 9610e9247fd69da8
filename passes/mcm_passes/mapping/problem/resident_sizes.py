"""Bytes that tensors and weights take in SRAM, rounded up to the target's alignment."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mcm_compiler.arrays.rows import Rows, distinct_rows
from mcm_compiler.contracts.partition import IN_A_WEIGHT, Bools, Ints, Longs, PartitionProblem


def aligned(sizes: npt.NDArray[np.int64], alignment: int) -> Longs:
    """Sizes in bytes, rounded up to `alignment`."""
    return -(-sizes // alignment) * alignment


def tensor_sizes(problem: PartitionProblem) -> Longs:
    """`[T]`, bytes of one buffer of each tensor."""
    return aligned(problem.tensor_bytes, problem.limits.buffer_alignment_bytes)


def weight_sizes(problem: PartitionProblem) -> Longs:
    """`[W]`, bytes that each weight takes; without what is streamed, a multiple of the alignment.

    At need where weights may be streamed, they are rounded down: what is streamed are the bytes of
    a weight, and the memory that this frees is larger by the rounding.
    """
    alignment = problem.limits.buffer_alignment_bytes
    if problem.memory == "need" and problem.streams:
        return problem.weight_bytes // alignment * alignment
    return aligned(problem.weight_bytes, alignment)


def weight_blocks(problem: PartitionProblem) -> Longs:
    """`[W]`, what each weight takes in blocks of the alignment."""
    return weight_sizes(problem) // problem.limits.buffer_alignment_bytes


def sram_blocks(problem: PartitionProblem) -> Longs:
    """`[C]`, blocks of the alignment in the SRAM of each chip: whole ones, for proofs and CP-SAT.

    Where weights may be streamed, part of a block counts as a block: it saves bytes of these.
    """
    sram, block = (
        np.array(problem.limits.sram_bytes, np.int64),
        problem.limits.buffer_alignment_bytes,
    )
    return -(-sram // block) if problem.streams else sram // block


class NeededSizes(NamedTuple):
    """Least sizes of tensors, in whatever order the kernels of a chip run.

    A tensor that is made on a chip and read there alone, by views of it as well, is held while its
    maker runs and while each kernel runs that reads its memory. All that one kernel holds is thus
    held at once. What views make takes nothing else. Of what leaves a chip the send buffers are
    counted, once where a tensor and a view of it may share them.

    Attributes:
        send: `[T]`, bytes of one send buffer on the chip that makes it; 0 where it may share those
            of what it is a view of.
        live: `[T]`, bytes while it is held; 0 for what is not counted.
        held: `[T]` rows of the units that hold it.
        stay: `[T]` rows of the units that must be on its maker's chip for that.
    """

    send: Longs
    live: Longs
    held: Rows
    stay: Rows


def needed_sizes(problem: PartitionProblem) -> NeededSizes:
    """The needed spaces of a problem, in linear time but for sorting."""
    room = tensor_sizes(problem)
    count = room.size
    root = memory_roots(problem.tensor_alias)
    producer = problem.tensor_producer
    tensor = np.repeat(np.arange(count), np.diff(problem.tensor_ptr))
    owner = root[tensor]
    reader = problem.tensor_consumers.astype(np.int64)
    # Only what is made by a unit with a place of its own, and stays until the last reader.
    counted = (producer >= 0) & (problem.tensor_alias == -1)
    counted &= ~problem.clonable[np.maximum(producer, 0)]
    goes = np.zeros(count, np.bool_)
    goes[root[problem.tensor_to_host & (root >= 0)]] = True
    counted &= ~goes
    inside = owner >= 0
    inside[inside] = counted[owner[inside]]
    # What its own maker alone reads stays in registers.
    reads = inside & problem.tensor_touched & (reader != producer[np.maximum(owner, 0)])
    makers = np.unique(owner[reads])
    of = np.concatenate([owner[reads], makers])
    holder = np.concatenate([reader[reads], producer[makers]])
    single = problem.one_kernel[holder]
    live = np.zeros(count, np.int64)
    live[makers] = room[makers]
    return NeededSizes(
        np.where(_sends(problem), room, 0),
        live,
        distinct_rows(of[single], holder[single], count),
        distinct_rows(owner[inside], reader[inside], count),
    )


def memory_roots(alias: Ints) -> npt.NDArray[np.int64]:
    """`[T]`, the tensor at the end of each chain of aliases, or what is negative there."""
    root = np.arange(alias.size)
    for t in np.flatnonzero(alias != -1).tolist():
        root[t] = root[alias[t]] if alias[t] >= 0 else alias[t]
    return root


def aliases_among(problem: PartitionProblem, kept: Longs) -> Ints:
    """The aliases of the `kept` tensors among themselves, in a problem that has no others.

    A view of a tensor that is left out counts like a view of a weight. It takes nothing in
    addition, and has send buffers of its own, which is no less than in the whole problem.
    """
    index = np.full(problem.tensor_bytes.size, IN_A_WEIGHT, np.int64)
    index[kept] = np.arange(kept.size)
    alias = problem.tensor_alias[kept]
    return np.where(alias >= 0, index[np.maximum(alias, 0)], alias).astype(np.int32)


def _sends(problem: PartitionProblem) -> Bools:
    """`[T]`, whether a tensor that leaves its maker's chip has send buffers that no other has.

    A view shares those of what it views if both leave one chip. That cannot be where the view is
    the only reader, and so for all that this is a view of in turn: then what is viewed leaves
    another chip, or stays.
    """
    alias = problem.tensor_alias
    sends = alias < 0
    seen: set[int] = set()
    for t in np.flatnonzero(alias >= 0).tolist():
        source = int(alias[t])
        readers = problem.tensor_consumers[
            problem.tensor_ptr[source] : problem.tensor_ptr[source + 1]
        ]
        alone = readers.size == 1 and readers[0] == problem.tensor_producer[t]
        sends[t] = (
            alone
            and bool(sends[source])
            and not problem.tensor_to_host[source]
            and source not in seen
        )
        seen.add(source)
    return sends
