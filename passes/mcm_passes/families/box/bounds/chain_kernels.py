"""Longest chains of ops, and how much work lies between them; compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inner_njit
from mcm_compiler.arrays.types import Floats, Ints, Longs


class Reads(NamedTuple):
    """Who reads what, as `StepProblem` says it, without weights that lie ready.

    Attributes:
        begin: `[N + 1]`.
        maker: `[R]`, the op that makes what is read.
        size: `[R]`, bytes.
    """

    begin: Longs
    maker: Ints
    size: Longs


@entry_njit
def starts_and_rests(reads: Reads, times: Floats, latency: Floats, per_byte: Floats) -> Floats:
    """`[2, N, C]`: how early an op can start on each class, and what follows its end at least.

    What an op reads comes from the class from which it is there first, with a copy where that is
    another class than its own: no placement has it earlier, and none is done sooner afterwards.

    Args:
        reads: see there.
        times: `[N, C]`, seconds, infinite where an op cannot run.
        latency: `[C, C]`, seconds of a copy between classes at least, besides those of its bytes; 0
            within a class, where both ops may be on one device.
        per_byte: `[C, C]`, seconds, likewise.
    """
    ops, classes = times.shape
    found = np.zeros((2, ops, classes))
    start, rest = found[0], found[1]
    for n in range(ops):
        for r in range(reads.begin[n], reads.begin[n + 1]):
            p = reads.maker[r]
            for c in range(classes):
                there = np.inf
                for a in range(classes):
                    copied = latency[a, c] + reads.size[r] * per_byte[a, c]
                    there = min(there, start[p, a] + times[p, a] + copied)
                start[n, c] = max(start[n, c], there)
    for n in range(ops - 1, -1, -1):
        for r in range(reads.begin[n], reads.begin[n + 1]):
            p = reads.maker[r]
            for a in range(classes):
                done = np.inf
                for c in range(classes):
                    copied = latency[a, c] + reads.size[r] * per_byte[a, c]
                    done = min(done, copied + times[n, c] + rest[n, c])
                rest[p, a] = max(rest[p, a], done)
    return found


@entry_njit
def best_window(
    work: Floats, by_head: Longs, heads: Floats, position: Longs, tails: Floats
) -> tuple[float, float, float]:
    """The pair of a head and a tail with the most work between them.

    For a head h and a tail q, all ops whose heads are h at least and whose tails are q at least run
    between h and the step's end less q; the window is worth h, plus their work, plus q.

    A tree over the tails holds sums of work, and the best of `q + work of that tail or a longer
    one`; ops enter it by falling heads.

    Args:
        work: `[N]`, what each op adds, in seconds of the whole box.
        by_head: ops by falling heads.
        heads: `[N]`.
        position: `[N]`, the place of each op's tail in `tails`.
        tails: distinct, ascending.

    Returns:
        What the window is worth, its head and its tail.
    """
    size = 1
    while size < len(tails):
        size *= 2
    total = np.zeros(2 * size)
    best = np.full(2 * size, -np.inf)
    worth, head, tail = 0.0, 0.0, 0.0
    for i in range(len(by_head)):
        n = by_head[i]
        at = size + position[n]
        total[at] += work[n]
        best[at] = tails[position[n]] + total[at]
        at //= 2
        while at:
            total[at] = total[2 * at] + total[2 * at + 1]
            best[at] = max(best[2 * at + 1], best[2 * at] + total[2 * at + 1])
            at //= 2
        if i + 1 < len(by_head) and heads[by_head[i + 1]] == heads[n]:
            continue
        if heads[n] + best[1] > worth:
            worth, head = heads[n] + best[1], float(heads[n])
            tail = _tail_of_best(total, best, size, tails)
    return worth, head, tail


@inner_njit
def _tail_of_best(total: Floats, best: Floats, size: int, tails: Floats) -> float:
    """The tail that the best of the whole tree stands for."""
    at = 1
    while at < size:
        right = best[2 * at + 1] >= best[2 * at] + total[2 * at + 1]
        at = 2 * at + 1 if right else 2 * at
    return tails[at - size]
