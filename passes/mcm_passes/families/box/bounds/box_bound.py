"""The bound of steps in boxes: chains, shared work, and work between heads and tails of chains.

This is the linear program of scheduling on unrelated machines: minimise T where device class c has
m_c devices, so that the shares of ops on it take m_c T at most. Its dual has one price per class:
for prices p >= 0 with sum m_c p_c = 1, T is at least the sum over ops of their cheapest
`p_c times t`. Any such prices give a bound. The best of two classes are those at which some op
costs the same on both; of more, they are found by cutting planes (Kelley 1960, "The Cutting-Plane
Method for Solving Convex Programs").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mcm_compiler.arrays.rows import starts
from mcm_compiler.arrays.types import Floats, Longs
from mcm_compiler.contracts.boxes.bounds import StepBound
from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.text.units import bytes_text, seconds_text
from mcm_passes.families.box.bounds.chain_kernels import Reads, best_window, starts_and_rests
from mcm_passes.families.box.clusters.adjacency import heads_and_tails


def check_memory(problem: StepProblem, box: Box) -> None:
    """Checks what can be checked without a placement.

    All variables are in memory throughout, in one copy at least, and so are weights that lie ready;
    besides them at any time what the op that runs then reads and makes, and in the end the outputs.
    What one op reads and makes lies on one device, and so do variables of ops that run together.

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
            f"({bytes_text(throughout)} of weights and variables), and the box has "
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
    those that it is a view of, at least; of what one op reads of them the largest counts.
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
"""Windows that prices are found anew for."""


def bound_step_in_box(problem: StepProblem, box: Box) -> StepBound:
    """A time that no placement of a step beats.

    The largest of three: the longest chain of ops, on the devices and with the copies between
    different ones that make it shortest; all work shared over the devices as finely as one likes;
    and, for a head h and a tail q, h plus the shared work of all ops that cannot start before h
    and have q behind their ends, plus q (after Fernandez and Bussell 1973, "Bounds on the Number of
    Processors and Time for Multiprocessor Optimal Schedules"; with copies and with devices of
    several kinds it is our derivation).

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


_WORK_ROUNDS = 60
_GAP = 1e-4


def best_prices(times: Floats, counts: Floats) -> Floats:
    """`[C]`, the prices whose bound is largest; of more than two, to within a ten-thousandth.

    Args:
        times: `[n, C]`, seconds on each class, infinite where an op cannot run there; each op can
            run somewhere.
        counts: `[C]`, devices of each class.
    """
    uniform = np.full(len(counts), 1.0 / counts.sum())
    if len(counts) == 1 or not len(times):
        return uniform
    if len(counts) == 2:
        return _best_of_two(times, counts)
    from ortools.linear_solver import pywraplp

    solver: Any = pywraplp.Solver.CreateSolver("GLOP")
    prices = [solver.NumVar(0.0, 1.0, "") for _ in counts]
    value = solver.NumVar(0.0, solver.infinity(), "")
    solver.Add(sum(float(m) * p for m, p in zip(counts, prices, strict=True)) == 1.0)
    solver.Maximize(value)
    at, best, found = uniform, uniform, 0.0
    for _ in range(_WORK_ROUNDS):
        worth, load = priced(times, at)
        if worth > found:
            best, found = at, worth
        solver.Add(value <= sum(float(s) * p for s, p in zip(load, prices, strict=True)))
        if solver.Solve() != pywraplp.Solver.OPTIMAL or value.solution_value() <= found * (
            1 + _GAP
        ):
            break
        at = np.maximum([p.solution_value() for p in prices], 0.0)
        at = at / float((counts * at).sum())
    return best


def _best_of_two(times: Floats, counts: Floats) -> Floats:
    """The best prices of two classes: the bound is concave in them, with a corner for each op."""
    one, two = times[:, 0], times[:, 1]
    both = np.isfinite(one) & np.isfinite(two)
    # The price of the first class over that of the second at which an op costs the same.
    ratio = np.full(len(times), np.inf)
    ratio[np.isinf(one)] = 0.0
    ratio[both] = two[both] / np.maximum(one[both], 1e-300)
    order = np.argsort(ratio, kind="stable")
    ratio = ratio[order]
    # Up to its corner an op is cheaper on the first class, beyond it on the second.
    on_one = np.where(np.isfinite(one), one, 0.0)[order]
    on_two = np.where(np.isfinite(two), two, 0.0)[order]
    first = np.concatenate([on_one[::-1].cumsum()[::-1], [0.0]])
    second = np.concatenate([[0.0], on_two.cumsum()])
    corners = np.concatenate([[0.0], ratio, [np.inf]])
    finite = np.isfinite(corners)
    prices = np.empty((len(corners), 2))
    prices[finite, 1] = 1.0 / (counts[0] * corners[finite] + counts[1])
    prices[finite, 0] = corners[finite] * prices[finite, 1]
    prices[~finite] = [1.0 / counts[0], 0.0]
    below = np.searchsorted(ratio, corners, side="left")
    worth = prices[:, 0] * first[below] + prices[:, 1] * second[below]
    return prices[int(np.argmax(worth))]


def priced(times: Floats, prices: Floats) -> tuple[float, Floats]:
    """The bound of some prices, and the seconds that each class gets where ops go by them."""
    if not len(times):
        return 0.0, np.zeros(len(prices))
    costs = weighed(times, prices)
    cheapest = costs.argmin(axis=1)
    rows = np.arange(len(times))
    load = np.bincount(cheapest, weights=times[rows, cheapest], minlength=len(prices))
    return float(costs[rows, cheapest].sum()), load.astype(np.float64)


def weighed(times: Floats, prices: Floats) -> Floats:
    """`[n, C]`, prices times seconds; infinite where an op cannot run, however low the price."""
    finite = np.isfinite(times)
    return np.where(finite, np.where(finite, times, 0.0) * prices, np.inf)
