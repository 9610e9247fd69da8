"""The period of a partition under the fast model, written down once more in plain Python.

Resources are dictionaries that are added to tensor by tensor; nothing is shared with the search.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from mcm_compiler.partition import PartitionProblem


def plain_period(problem: PartitionProblem, chips: Sequence[int]) -> float:
    """Seconds of the busiest chip, link, or channel of the host; without streamed weights.

    Args:
        problem: the problem.
        chips: of each unit that is not clonable; others are not looked at.
    """
    limits = problem.limits
    ends = limits.host_io == "ends"
    on = _places(problem, chips)
    last_used = max(c for u, places in enumerate(on) if not problem.clonable[u] for c in places)
    busy: defaultdict[int, float] = defaultdict(float)
    link: defaultdict[int, int] = defaultdict(int)
    host_in: defaultdict[int, int] = defaultdict(int)
    host_out: defaultdict[int, int] = defaultdict(int)
    for u, places in enumerate(on):
        for c in places:
            busy[c] += float(problem.compute_s[u])
    for t, maker in enumerate(problem.tensor_producer.tolist()):
        size, relay_s = int(problem.tensor_bytes[t]), float(problem.relay_s[t])
        readers = problem.tensor_consumers[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]]
        wanted = {c for u in readers.tolist() for c in on[u]}
        if maker >= 0 and problem.clonable[maker]:
            continue
        if maker < 0:
            if not wanted:
                continue
            if not ends:
                for c in wanted:
                    host_in[c] += size
                continue
            host_in[0] += size
            for c in range(max(wanted)):
                busy[c] += relay_s
                link[c] += size
            continue
        (source,) = on[maker]
        far = max(wanted | {source})
        collected = bool(problem.tensor_to_host[t])
        if collected:
            host_out[last_used if ends else source] += size
            far = max(far, last_used) if ends else far
        for c in range(source, far):
            link[c] += size
        relays = problem.routing == "relay" and limits.forwarding == "engine"
        if relays or (ends and collected):
            stop = far + 1 if ends and collected and far > source else far
            for c in range(source + 1, stop):
                busy[c] += relay_s
    speed = problem.chip_speed
    return max(
        max((s / float(speed[c]) for c, s in busy.items()), default=0.0),
        max(link.values(), default=0) / limits.link_bytes_per_s,
        max((*host_in.values(), *host_out.values()), default=0) / limits.host_bytes_per_s,
        max(sum(host_in.values()), sum(host_out.values()))
        / (limits.host_total_bytes_per_s or float("inf")),
    )


def _places(problem: PartitionProblem, chips: Sequence[int]) -> list[set[int]]:
    """The chips of each unit; those of clonable ones from their readers, backwards."""
    on: list[set[int]] = [set() for _ in range(problem.num_units)]
    makes: defaultdict[int, list[int]] = defaultdict(list)
    for t, maker in enumerate(problem.tensor_producer.tolist()):
        makes[maker].append(t)
    for u in range(problem.num_units - 1, -1, -1):
        if not problem.clonable[u]:
            on[u] = {int(chips[u])}
            continue
        for t in makes[u]:
            row = problem.tensor_consumers[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]]
            for v in row.tolist():
                on[u] |= on[v]
    return on
