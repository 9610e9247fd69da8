"""Groups without names: each op joins its nearest weight."""

from __future__ import annotations

import numpy as np
from numba import njit

from mcm_compiler.arrays.types import Ints, Longs
from mcm_compiler.contracts.boxes.step import VARIABLE, StepProblem


def nearest_weight_groups(problem: StepProblem) -> Ints:
    """`[N]`, group of each op, numbers from 0 without gaps.

    A search in breadth begins at all weights at once, in the order of ops, and goes along values in
    both directions. Of variables the largest count that hold 99 % of all bytes; those of equal size
    that one op reads are one weight with what an optimiser keeps of it. Weights that lie ready
    count like variables, by the first op that reads them. Ops that no weight reaches form a group
    of their own. Ops that run together share the group of the first of them (our derivation).
    """
    seeds = _seeds(problem)
    edges = problem.edges
    both = np.concatenate([edges, edges[:, ::-1]])
    both = both[np.argsort(both[:, 0], kind="stable")]
    begin = np.zeros(problem.num_ops + 1, np.int64)
    np.cumsum(np.bincount(both[:, 0], minlength=problem.num_ops), out=begin[1:])
    first = np.unique(problem.together, return_index=True)[1]
    found = _spread(begin, np.ascontiguousarray(both[:, 1]), seeds)[first[problem.together]]
    return np.unique(found, return_inverse=True)[1].astype(np.int32)


def _seeds(problem: StepProblem) -> Longs:
    """Ops that groups begin at, ascending."""
    holder = problem.producer.astype(np.int64)
    reader = np.repeat(np.arange(problem.num_ops), np.diff(problem.read_begin))
    ready = np.flatnonzero(holder < 0)
    read, where = np.unique(problem.reads, return_index=True)
    first_reader = np.full(problem.num_values, -1, np.int64)
    first_reader[read] = reader[where]
    holder[ready] = first_reader[ready]
    is_variable = np.array([kind == VARIABLE for kind in problem.op_types], np.bool_)
    weight = (problem.producer < 0) | is_variable[np.maximum(problem.producer, 0)]
    values = np.flatnonzero(weight & (holder >= 0))
    values = values[np.argsort(-problem.value_bytes[values], kind="stable")]
    sums = np.cumsum(problem.value_bytes[values])
    most = int(np.searchsorted(sums, 0.99 * sums[-1])) + 1 if len(sums) else 0
    return np.unique(holder[values[:most]])


@njit(cache=True, nogil=True)
def _spread(begin: Longs, others: Ints, seeds: Longs) -> Ints:
    num_ops = len(begin) - 1
    found = np.full(num_ops, -1, np.int32)
    queue = np.empty(num_ops, np.int64)
    tail = 0
    for g in range(len(seeds)):
        found[seeds[g]] = g
        queue[tail] = seeds[g]
        tail += 1
    head = 0
    while head < tail:
        n = queue[head]
        head += 1
        for e in range(begin[n], begin[n + 1]):
            if found[others[e]] < 0:
                found[others[e]] = found[n]
                queue[tail] = others[e]
                tail += 1
    return found
