"""A lower bound of the latency: operators that everything passes, and memory's transfers.

Our derivation. Let r and s be the ends of the path that takes longest when each operator runs on
its faster device, and a chain of operators that all paths from r to s pass. Where two neighbours of
the chain share an accelerator, so does all between them, because its part is contiguous; its
time adds up and its memory has to fit. Where they do not, an accelerator that ends or begins
between them sends or receives at least a cheapest set of outputs that cuts all paths between them.
What is between takes at least its own critical path. Dynamic programming over the chain, with the
number of accelerators that hold some of it, takes the least of all ways.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcm_compiler.arrays.dags import topological
from mcm_compiler.arrays.rows import Rows
from mcm_compiler.contracts.partition import Floats, LowerBound
from mcm_passes.mapping.latency_placement.latency_kernels import LatencyArrays

MOST_LINKS = 1000
"""Operators of a chain; of longer ones some are left out, which is a weaker bound."""

CUT_STEPS = 1 << 30
"""Whole numbers that stand for the dearest output in cuts; fractions are dropped."""


def chain_bound(p: LatencyArrays) -> LowerBound:
    """The better of the critical path and the bound of its chain."""
    order = _order(p)
    least = np.minimum(_on_accelerator(p), _on_cpu(p))
    longest = _longest(p, order, least)
    critical = float(longest.max(initial=0.0))
    work = float(least.sum()) / max(p.accelerators + p.cores, 1)
    best = LowerBound(critical, "the longest path, each node on its faster device", "path")
    if work > critical:
        best = LowerBound(work, "all time of all nodes on all devices", "total_work")
    links = _links(p, order, longest)
    if len(links) < 2:
        return best
    chain = _chain(p, order, least, links)
    found = _least_of_all_ways(p, links, chain)
    if found <= best.seconds:
        return best
    text = (
        f"a chain of {len(links):,} nodes that each path between its ends passes, in memory of "
        f"{p.accelerators} accelerators, with the transfers between them"
    )
    return LowerBound(found, text, "chain")


@dataclass(frozen=True, eq=False)
class _Chain:
    """L links and what is between neighbours; entry i is about what is before link i.

    Attributes:
        between_time: `[L]`, time of all between on one accelerator; infinite if none can run it.
        between_bytes: `[L]`.
        between_path: `[L]`, longest path, each operator on its faster device.
        cut: `[L]`, transfer time of the cheapest outputs that cut all paths.
    """

    between_time: Floats
    between_bytes: Floats
    between_path: Floats
    cut: Floats


def _order(p: LatencyArrays) -> list[int]:
    """Operators, each behind all that it reads."""
    return topological([p.readers.row(v).tolist() for v in range(p.readers.size)])


def _on_accelerator(p: LatencyArrays) -> Floats:
    """`[N]`, time on an accelerator; infinite where none can hold the operator's unit."""
    usable = p.allowed[p.unit_of] & (p.accelerators > 0)
    return np.where(usable, p.accelerator_time, np.inf)


def _on_cpu(p: LatencyArrays) -> Floats:
    return p.cpu_time if p.cores else np.full(p.cpu_time.size, np.inf)


def _longest(p: LatencyArrays, order: list[int], least: Floats) -> Floats:
    """`[N]`, the longest path that ends with each operator."""
    longest = least.copy()
    for v in order:
        before = p.sources.row(v)
        if before.size:
            longest[v] += longest[before].max()
    return longest


def _links(p: LatencyArrays, order: list[int], longest: Floats) -> list[int]:
    """Operators that each path between the ends of the longest path passes."""
    last = int(longest.argmax())
    first = last
    while (before := p.sources.row(first)).size:
        first = int(before[longest[before].argmax()])
    row = _between(p, order, first, last)
    place = {v: i for i, v in enumerate(row)}
    links, farthest = list[int](), 0
    for i, v in enumerate(row):
        # No edge from before v leads behind it.
        if farthest <= i:
            links.append(v)
        for w in p.readers.row(v).tolist():
            farthest = max(farthest, place.get(w, 0))
    step = -(-len(links) // MOST_LINKS)
    return links if step <= 1 else [*links[:-1:step], links[-1]]


def _between(p: LatencyArrays, order: list[int], first: int, last: int) -> list[int]:
    """Operators on paths between two, in their order."""
    inside = _reached(first, p.readers) & _reached(last, p.sources)
    return [v for v in order if inside[v]]


def _reached(start: int, near: Rows) -> np.ndarray:
    found = np.zeros(near.size, np.bool_)
    found[start] = True
    stack = [start]
    while stack:
        u = stack.pop()
        for v in near.row(u).tolist():
            if not found[v]:
                found[v] = True
                stack.append(v)
    return found


def _chain(p: LatencyArrays, order: list[int], least: Floats, links: list[int]) -> _Chain:
    row = _between(p, order, links[0], links[-1])
    place = {v: i for i, v in enumerate(row)}
    accelerator = _on_accelerator(p)
    size = _own_bytes(p)
    length = len(links)
    chain = _Chain(np.zeros(length), np.zeros(length), np.zeros(length), np.zeros(length))
    for i in range(1, length):
        start, end = links[i - 1], links[i]
        between = row[place[start] + 1 : place[end]]
        chain.between_time[i] = accelerator[between].sum()
        chain.between_bytes[i] = size[between].sum()
        path = {start: 0.0}
        for v in [*between, end]:
            before = p.sources.row(v).tolist()
            path[v] = max(path[u] for u in before if u in path)
            if v != end:
                path[v] += float(least[v])
        chain.between_path[i] = path[end]
        chain.cut[i] = _cut(p, start, between, end)
    return chain


def _own_bytes(p: LatencyArrays) -> Floats:
    """`[N]`, bytes of operators that move alone; others may be in several stretches."""
    alone = np.diff(p.members.ptr)[p.unit_of] == 1
    return np.where(alone, p.size_bytes[p.unit_of], 0.0)


def _cut(p: LatencyArrays, start: int, between: list[int], end: int) -> float:
    """Least transfer time of outputs of `start` and `between` that cut all paths to `end`."""
    readers = p.readers.row(start).tolist()
    own = float(p.transfer_time[start])
    if end in readers or own == 0.0:
        return own
    from ortools.graph.python import max_flow

    # A vertex is an edge from its entry to its exit, whose capacity is its transfer time.
    index = {v: i for i, v in enumerate([start, *between])}
    scale = CUT_STEPS / max(float(p.transfer_time[[start, *between]].max()), 1e-300)
    unbounded = CUT_STEPS * (len(index) + 1)
    flow = max_flow.SimpleMaxFlow()
    sink = 2 * len(index)
    for v, i in index.items():
        flow.add_arc_with_capacity(2 * i, 2 * i + 1, int(float(p.transfer_time[v]) * scale))
        for w in p.readers.row(v).tolist():
            if w == end or w in index:
                to = sink if w == end else 2 * index[w]
                flow.add_arc_with_capacity(2 * i + 1, to, unbounded)
    flow.solve(0, sink)
    return flow.optimal_flow() / scale


def _least_of_all_ways(p: LatencyArrays, links: list[int], chain: _Chain) -> float:
    """Least time at which the last link is done."""
    length, k = len(links), p.accelerators
    time, cpu = _on_accelerator(p)[links], _on_cpu(p)[links]
    size = _own_bytes(p)[links]
    # Sums up to and with each link; infinite times are kept apart so that differences are numbers.
    step = chain.between_time + time
    barred = np.cumsum(~np.isfinite(step))
    total = np.cumsum(np.where(np.isfinite(step), step, 0.0))
    held = np.cumsum(chain.between_bytes + size)
    # Rows: number of accelerators that hold links.
    on_cpu = np.full((length, k + 1), np.inf)
    on_part = np.full((length, k + 1), np.inf)
    opened = np.full((length, k + 1), np.inf)
    on_cpu[0, 0] = cpu[0]
    for i in range(length):
        if i == 0:
            opened[0, 1:2] = 0.0
        else:
            before = np.minimum(on_cpu[i - 1], on_part[i - 1] + chain.cut[i])
            before = before + chain.between_path[i]
            on_cpu[i] = before + cpu[i]
            opened[i, 1:] = before[:-1] + chain.cut[i]
        # Parts that begin at link j and hold everything up to this one.
        need = held[i] - held[: i + 1] + size[: i + 1]
        spent = total[i] - total[: i + 1] + time[: i + 1]
        fits = (need <= p.memory_bytes) & (barred[i] == barred[: i + 1]) & np.isfinite(spent)
        if fits.any():
            on_part[i] = (opened[: i + 1][fits] + spent[fits][:, None]).min(axis=0)
    return float(min(on_cpu[-1].min(), on_part[-1].min()))
