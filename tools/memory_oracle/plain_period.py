"""The period of a partition under the fast model, written down once more in plain Python.

Resources are dictionaries that are added to tensor by tensor; nothing is shared with the search.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from mcm_compiler.contracts.partition import PartitionProblem


def plain_period(problem: PartitionProblem, chips: Sequence[int]) -> float:
    """Seconds of the busiest chip, link, or channel of the host; without streamed weights.

    Args:
        problem: the problem.
        chips: of each unit that is not clonable; others are not looked at.
    """
    limits, speed = problem.limits, problem.chip_speed
    loads = _Loads()
    on = _places(problem, chips)
    for u, places in enumerate(on):
        for c in places:
            loads.busy[c] += float(problem.compute_s[u])
    for t, maker in enumerate(problem.tensor_producer.tolist()):
        readers = problem.tensor_consumers[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]]
        wanted = {c for u in readers.tolist() for c in on[u]}
        if maker < 0:
            loads.bring(problem, t, wanted)
        elif not problem.clonable[maker]:
            (source,) = on[maker]
            loads.send(problem, t, source, wanted)
    if problem.copies is not None:
        loads.copy(problem, on)
    return max(
        max((s / float(speed[c]) for c, s in loads.busy.items()), default=0.0),
        max(loads.link.values(), default=0) / limits.link_bytes_per_s,
        max((*loads.host_in.values(), *loads.host_out.values()), default=0)
        / limits.host_bytes_per_s,
        max(sum(loads.host_in.values()), sum(loads.host_out.values()))
        / (limits.host_total_bytes_per_s or float("inf")),
    )


@dataclass
class _Loads:
    """Seconds of chips, and bytes of links and of the host's channels, by chip."""

    busy: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    link: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    host_in: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    host_out: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))

    def bring(self, problem: PartitionProblem, t: int, wanted: set[int]) -> None:
        """Adds tensor `t`, which comes from the host."""
        size = int(problem.tensor_bytes[t])
        if problem.limits.host_io != "ends":
            for c in wanted:
                self.host_in[c] += size
            return
        end = len(problem.limits.latencies_s)
        inner = wanted - {end}
        for c in wanted & {end}:
            self.host_in[c] += size
        if inner:
            self.host_in[0] += size
        for c in range(max(inner, default=0)):
            self.link[c] += size

    def send(self, problem: PartitionProblem, t: int, source: int, wanted: set[int]) -> None:
        """Adds tensor `t`, which chip `source` makes and the chips `wanted` read."""
        size, limits = int(problem.tensor_bytes[t]), problem.limits
        at_end = limits.host_io == "ends" and source > 0
        far, end = max(wanted | {source}), len(limits.latencies_s)
        if problem.routing == "relay" and limits.forwarding == "engine":
            for c in range(source + 1, far):
                self.busy[c] += float(problem.relay_s[t])
        if problem.tensor_to_host[t]:
            self.host_out[end if at_end else source] += size
            far = end if at_end else far
        for c in range(source, far):
            self.link[c] += size

    def copy(self, problem: PartitionProblem, on: Sequence[set[int]]) -> None:
        """Adds copies of views on the chips that make them for others, without their memory."""
        copies = problem.copies
        assert copies is not None
        columns = (copies.tensor.tolist(), copies.writer.tolist(), copies.least.seconds.tolist())
        for t, writer, seconds in zip(*columns, strict=True):
            (source,) = on[int(problem.tensor_producer[t])]
            readers = problem.tensor_consumers[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]]
            wanted = {c for u in readers.tolist() for c in on[u]}
            leaves = bool(problem.tensor_to_host[t]) or bool(wanted - {source})
            if leaves and (writer < 0 or on[writer] != {source}):
                self.busy[source] += seconds


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
