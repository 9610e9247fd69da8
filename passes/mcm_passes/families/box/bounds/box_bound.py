"""The bound of steps in boxes: chains, shared work, and work between heads and tails of chains."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.types import Floats
from mcm_compiler.contracts.boxes.bounds import StepBound
from mcm_compiler.contracts.boxes.box import Box
from mcm_compiler.contracts.boxes.step import StepProblem
from mcm_compiler.text.units import seconds_text
from mcm_passes.families.box.bounds.chain_kernels import best_window, heads_and_tails
from mcm_passes.families.box.bounds.memory_need import check_memory
from mcm_passes.families.box.bounds.shared_work import best_prices, priced, weighed

_ROUNDS = 3
"""Windows that prices are found anew for."""


def bound_step_in_box(problem: StepProblem, box: Box) -> StepBound:
    """A time that no placement of a step beats; copies take none here.

    The largest of three: the longest chain of ops, each on its fastest device; all work shared over
    the devices as finely as one likes; and, for a head h and a tail q, h plus the shared work of
    all ops that have a chain of h before them and one of q behind them, plus q (after Fernandez and
    Bussell 1973, "Bounds on the Number of Processors and Time for Multiprocessor Optimal
    Schedules"; with devices of several kinds it is our derivation).

    Args:
        problem: what is placed.
        box: where.

    Raises:
        CompileError: MCM-D012 where no placement fits into the memories.
    """
    check_memory(problem, box)
    times, counts = _by_class(problem, box)
    fastest = times.min(axis=1, initial=np.inf)
    ends = heads_and_tails(problem.edges, fastest)
    path = float((ends[0] + fastest + ends[1]).max(initial=0.0))
    working = np.flatnonzero(fastest > 0)
    prices = best_prices(times[working], counts)
    work, _ = priced(times[working], prices)
    window = _window(times[working], counts, ends[:, working], prices)
    seconds = max(path, work, window[0])
    return StepBound(seconds, _argument(seconds, path, work, window), path, work)


def _argument(
    seconds: float, path: float, work: float, window: tuple[float, float, float, int]
) -> str:
    if seconds <= path:
        return (
            f"a chain of ops takes {seconds_text(path)} with each on its fastest device and no "
            "copies between them"
        )
    if seconds <= work:
        return f"all ops take {seconds_text(work)}, shared over the devices as well as can be"
    _, head, tail, count = window
    inside = seconds_text(seconds - head - tail)
    return (
        f"{count} ops come after chains of {seconds_text(head)} and before chains of "
        f"{seconds_text(tail)}, and take {inside} between them, shared over the devices as well as "
        "can be"
    )


def _by_class(problem: StepProblem, box: Box) -> tuple[Floats, Floats]:
    """Times `[N, C]` on classes of devices that are alike for all ops, and their sizes `[C]`."""
    times = np.where(problem.allowed, problem.time_s[:, box.kind_of], np.inf)
    # Where ops may run that take no time makes no difference between devices.
    works = np.where(np.isfinite(times), times, 0.0).any(axis=1)
    if not works.any():
        return times.min(axis=1, keepdims=True), np.array([float(box.num_devices)])
    _, first, counts = np.unique(times[works], axis=1, return_index=True, return_counts=True)
    alike = times[:, first]
    alike[~works] = 0.0
    return alike, counts.astype(np.float64)


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
