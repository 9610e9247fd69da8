"""Meshes by hand: what a placement costs and whether it is valid, from the words of the contract.

Nothing here is taken from the compiler or from the plug-in but the arrays of a problem.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mcm_compiler.contracts.partition import PartitionProblem


@dataclass(frozen=True)
class Mesh:
    """Rows and columns of chips; seconds per byte of a link, and of a channel of the host."""

    rows: int
    cols: int
    link: float
    host: float

    def way(self, source: int, target: int) -> list[tuple[int, int]]:
        """Links from chip to chip, first to the right column and then to the right row."""
        found: list[tuple[int, int]] = []
        at = source
        while at % self.cols != target % self.cols:
            after = at + 1 if target % self.cols > at % self.cols else at - 1
            found.append((at, after))
            at = after
        while at != target:
            after = at + self.cols if target > at else at - self.cols
            found.append((at, after))
            at = after
        return found


def is_valid(problem: PartitionProblem, chip_of: Sequence[int]) -> bool:
    """No circle among the chips, weights that fit, and kinds of chips that run their units."""
    if any(math.isinf(seconds_of(problem, u, c)) for u, c in enumerate(chip_of)):
        return False
    before: defaultdict[int, set[int]] = defaultdict(set)
    for t, maker in enumerate(problem.tensor_producer.tolist()):
        for reader in _readers(problem, t):
            if maker >= 0 and chip_of[maker] != chip_of[reader]:
                before[chip_of[reader]].add(chip_of[maker])
    left = set(chip_of)
    while left:
        free = {c for c in left if not before[c] & left}
        if not free:
            return False
        left -= free
    held = [0] * problem.num_chips
    for w, size in enumerate(problem.weight_bytes.tolist()):
        users = problem.weight_users[problem.weight_ptr[w] : problem.weight_ptr[w + 1]]
        for c in {chip_of[u] for u in users.tolist()}:
            held[c] += size
    return all(a <= b for a, b in zip(held, problem.limits.sram_bytes, strict=True))


def period_s(problem: PartitionProblem, mesh: Mesh, chip_of: Sequence[int]) -> float:
    """The busiest chip or channel."""
    chip: defaultdict[int, float] = defaultdict(float)
    channel: defaultdict[tuple[object, object], float] = defaultdict(float)
    for u, c in enumerate(chip_of):
        chip[c] += seconds_of(problem, u, c)
    for t, size in enumerate(problem.tensor_bytes.tolist()):
        maker = int(problem.tensor_producer[t])
        wanted = {chip_of[u] for u in _readers(problem, t)}
        if maker < 0:
            for c in wanted:
                channel["host", c] += size * mesh.host
            continue
        source = chip_of[maker]
        for c in wanted - {source}:
            way = mesh.way(source, c)
            # Who wants it as well and lies on the way sends it on, if it would go this way.
            for k in range(len(way) - 1, 0, -1):
                via = way[k][0]
                if via in wanted and mesh.way(source, via) + mesh.way(via, c) == way:
                    way = way[k:]
                    break
            for link in way:
                channel[link] += size * mesh.link
        if problem.tensor_to_host[t]:
            channel[source, "host"] += size * mesh.host
    speeds = problem.chip_speed.tolist()
    return max(
        [seconds / speeds[c] for c, seconds in chip.items()] + list(channel.values()), default=0.0
    )


def seconds_of(problem: PartitionProblem, unit: int, chip: int) -> float:
    """Seconds of a unit on a chip of speed 1; infinite where its kind cannot run it."""
    kinds, machine = problem.kinds, problem.machine
    if kinds is None or machine.device_kind is None:
        return float(problem.compute_s[unit])
    place = int(machine.device_kind[chip]) * len(problem.names) + unit
    return float(kinds.unit_s[place]) if kinds.runs[place] else math.inf


def optimum_s(problem: PartitionProblem, mesh: Mesh) -> float:
    """The least period of all placements; infinite where none is valid."""
    return min(
        (
            period_s(problem, mesh, chip_of)
            for chip_of in all_placements(problem)
            if is_valid(problem, chip_of)
        ),
        default=math.inf,
    )


def all_placements(problem: PartitionProblem) -> Iterator[tuple[int, ...]]:
    """Every chip for every unit."""
    return itertools.product(range(problem.num_chips), repeat=problem.num_units)


def _readers(problem: PartitionProblem, t: int) -> list[int]:
    found = problem.tensor_consumers[problem.tensor_ptr[t] : problem.tensor_ptr[t + 1]]
    return [int(u) for u in np.asarray(found)]
