"""The bound of steps in boxes: chains, shared work, and work between heads and tails of chains.

Shared work is bounded by prices of each class of devices, see `kind_prices`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inner_njit
from mcm_compiler.arrays.rows import starts
from mcm_compiler.arrays.types import Floats, Ints, Longs
from mcm_compiler.contracts.boxes.bounds import StepBound
from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.text.units import bytes_text, seconds_text
from mcm_passes.families.box.clusters.weight_clusters import heads_and_tails
from mcm_passes.mapping.problem.kind_prices import best_prices, priced, weighed


class Reads(NamedTuple):
    """Readers and what they read, as in `StepProblem`, without stored weights.

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
    another class than its own. No placement has it earlier, and none is done sooner afterwards.

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
    between h and the step's end less q. The window is worth h, plus their work, plus q.

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


def check_memory(problem: StepProblem, box: Box) -> None:
    """Checks what can be checked without a placement.

    All variables are in memory throughout, in one copy at least, and so are weights that lie ready.
    Besides them at any time what the op that runs then reads and makes, and in the end the outputs.
    What one op reads and makes is on one device, and so do variables of ops that run together.

    Raises:
        CompileError: MCM-D012 where that is more than there is.
    """
    held = _held_throughout(problem)
    need = _need_of_ops(problem)
    passing = _need_of_ops(problem, without=held)
    outputs = problem.kept & ~problem.stays & (problem.view_of < 0) & (problem.producer >= 0)
    at_end = int(problem.value_bytes[outputs].sum())
    throughout = int(problem.value_bytes[held].sum())
    least = throughout + max(int(passing.max(initial=0)), at_end)
    memory = int(box.memory_bytes.sum())
    if least > memory:
        raise _refusal(
            f"a step holds {bytes_text(least)} at once wherever its ops run "
            f"({bytes_text(throughout)} of weights and variables), and the host has "
            f"{bytes_text(memory)}",
            None,
        )
    room = np.where(problem.allowed, box.memory_bytes, 0).max(axis=1, initial=0)
    variables = np.zeros(problem.num_groups, np.int64)
    stays = np.flatnonzero(problem.stays)
    np.add.at(variables, problem.together[problem.producer[stays]], problem.value_bytes[stays])
    need = np.maximum(need, variables[problem.together])
    worst = int(np.argmax(need - room)) if len(need) else 0
    if len(need) and need[worst] > room[worst]:
        raise _refusal(
            f"op {quote(problem.names[worst])} needs {bytes_text(int(need[worst]))} on one device, "
            f"and none that may run it has more than {bytes_text(int(room[worst]))}",
            f"op {quote(problem.names[worst])}",
        )


def _refusal(message: str, at: str | None) -> CompileError:
    return CompileError.of("MCM-D012", message, at=at)


def _held_throughout(problem: StepProblem) -> np.ndarray:
    """`[V]`, variables, and weights that lie ready and are read."""
    read = np.zeros(problem.num_values, np.bool_)
    read[problem.reads] = True
    return problem.stays | ((problem.producer < 0) & read)


def _need_of_ops(problem: StepProblem, without: np.ndarray | None = None) -> Longs:
    """`[N]`, bytes that lie on an op's device while it runs: what it reads, and what it makes.

    Values that are views of each other may lie in one block, which is as large as the smallest of
    those that it is a view of, at least. Of what one op reads of them the largest counts.
    """
    root, least = _roots(problem)
    counts = problem.value_bytes.copy()
    views = problem.view_of >= 0
    counts[views] = 0
    if without is not None:
        counts[without] = 0
        least = np.where(without[root], 0, least)
    made = np.flatnonzero(problem.producer >= 0)
    need = np.zeros(problem.num_ops, np.int64)
    np.add.at(need, problem.producer[made], counts[made])
    sizes = least[problem.reads]
    order = np.lexsort((-sizes, root[problem.reads], problem.reader))
    reader, roots, sizes = problem.reader[order], root[problem.reads][order], sizes[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (reader[1:] != reader[:-1]) | (roots[1:] != roots[:-1])
    np.add.at(need, reader[first], sizes[first])
    return need


def _roots(problem: StepProblem) -> tuple[Longs, Longs]:
    """`[V]` each: the value that each is a view of in the end, and the smallest on the way."""
    root = np.arange(problem.num_values)
    least = problem.value_bytes.copy()
    above = problem.view_of.astype(np.int64)
    while (above >= 0).any():
        views = np.flatnonzero(above >= 0)
        least[views] = np.minimum(least[views], problem.value_bytes[above[views]])
        root[views] = above[views]
        above[views] = problem.view_of[above[views]]
    return root, least


_ROUNDS = 3
"""Windows for which prices are computed again."""


def bound_step_in_box(problem: StepProblem, box: Box) -> StepBound:
    """A time that no placement of a step beats.

    The largest of three: the longest chain of ops, on the devices and with the copies between
    different ones that make it shortest. All work shared over the devices as finely as one likes.
    And, for a head h and a tail q, h plus the shared work of all ops that cannot start before h
    and have q behind their ends, plus q. The last is after Fernandez and Bussell 1973, "Bounds on
    the Number of Processors and Time for Multiprocessor Optimal Schedules". With copies and with
    devices of several kinds it is our derivation.

    Args:
        problem: what is placed.
        box: where.

    Raises:
        CompileError: MCM-D012 where no placement fits into the memories.
    """
    check_memory(problem, box)
    classes = _classes(problem, box)
    times, counts = classes.times, classes.counts
    fastest = times.min(axis=1, initial=np.inf)
    plain = heads_and_tails(problem.edges, fastest)
    path = float((plain[0] + fastest + plain[1]).max(initial=0.0))
    start, rest = starts_and_rests(_reads(problem), times, classes.latency, classes.per_byte)
    chain = float((start + times + rest).min(axis=1, initial=np.inf).max(initial=0.0))
    working = np.flatnonzero(fastest > 0)
    prices = best_prices(times[working], counts)
    work, _ = priced(times[working], prices)
    runs = np.isfinite(times)
    ends = np.stack([np.where(runs, side, np.inf).min(axis=1) for side in (start, rest)])
    window = _window(times[working], counts, ends[:, working], prices)
    seconds = max(path, chain, work, window[0])
    return StepBound(seconds, _argument(seconds, max(path, chain), work, window), path, work)


def _argument(
    seconds: float, path: float, work: float, window: tuple[float, float, float, int]
) -> str:
    if seconds <= path:
        return (
            f"a chain of ops takes {seconds_text(path)}, with the devices and copies that are best "
            "for it alone"
        )
    if seconds <= work:
        return f"all ops take {seconds_text(work)}, shared over the devices as well as can be"
    _, head, tail, count = window
    inside = seconds_text(seconds - head - tail)
    return (
        f"{count} ops start after {seconds_text(head)} at the earliest and have "
        f"{seconds_text(tail)} behind them, and take {inside}, shared over the devices as well as "
        "can be"
    )


@dataclass(frozen=True, eq=False)
class _Classes:
    """C classes of devices that are alike for all ops.

    Attributes:
        times: `[N, C]`, seconds, infinite where an op may not run.
        counts: `[C]`, devices.
        latency: `[C, C]`, least seconds of a copy from one class to another; 0 within a class.
        per_byte: `[C, C]`, likewise.
    """

    times: Floats
    counts: Floats
    latency: Floats
    per_byte: Floats


def _classes(problem: StepProblem, box: Box) -> _Classes:
    times = problem.device_times(box)
    first, of_device, counts = np.unique(
        times, axis=1, return_index=True, return_inverse=True, return_counts=True
    )[1:]
    of_device = of_device.reshape(-1)
    size = len(first)
    latency, per_byte = np.full((2, size, size), np.inf)
    pairs = (of_device[:, None], of_device[None, :])
    np.minimum.at(latency, pairs, box.copy_latency_s)
    np.minimum.at(per_byte, pairs, 1.0 / box.copy_bytes_per_s)
    return _Classes(times[:, first], counts.astype(np.float64), latency, per_byte)


def _reads(problem: StepProblem) -> Reads:
    maker = problem.producer[problem.reads]
    made = maker >= 0
    begin = starts(np.bincount(problem.reader[made], minlength=problem.num_ops))
    return Reads(begin, maker[made], problem.value_bytes[problem.reads[made]])


def _window(
    times: Floats, counts: Floats, ends: Floats, prices: Floats
) -> tuple[float, float, float, int]:
    """The best window that was found: its worth, head and tail, and how many ops it has."""
    best = (0.0, 0.0, 0.0, 0)
    if not len(times):
        return best
    heads, tails = ends
    by_head = np.argsort(-heads, kind="stable")
    distinct, position = np.unique(tails, return_inverse=True)
    for _ in range(_ROUNDS):
        work = weighed(times, prices).min(axis=1)
        worth, head, tail = best_window(work, by_head, heads, position.reshape(-1), distinct)
        inside = (heads >= head) & (tails >= tail)
        # Other prices are best for the ops of this window alone.
        prices = best_prices(times[inside], counts)
        worth = head + priced(times[inside], prices)[0] + tail
        if worth <= best[0]:
            break
        best = (worth, head, tail, int(inside.sum()))
    return best
