"""A placement problem as arrays over units, for searches that minimise the latency."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mcm_compiler.contracts.partition import Bools, Floats, Ints, Longs
from mcm_compiler.contracts.placement import PlacementProblem
from mcm_passes.mapping.device_placement.device_groups import components, in_order
from mcm_passes.mapping.device_placement.device_loads import MEMORY_SLACK


class LatencyArrays(NamedTuple):
    """N operators in U units that move as one; devices `0 .. K - 1` are accelerators, K the CPU.

    Attributes:
        unit_of: `[N]`, units in a topological order, those on a cycle next to each other.
        member_ptr: `[U + 1]` into `members`.
        members: `[N]`, operators by unit.
        reader_ptr: `[N + 1]` into `readers`.
        readers: `[E]`, operators that read each operator's output.
        source_ptr: `[N + 1]` into `sources`.
        sources: `[E]`, operators that each operator reads.
        accelerator_time: `[N]`.
        cpu_time: `[N]`.
        transfer_time: `[N]`.
        size_bytes: `[U]`.
        allowed: `[U]`, whether accelerators can run the unit.
        accelerators: K.
        cores: CPU cores.
        memory_bytes: of each accelerator, with room for the rounding of sums.
    """

    unit_of: Ints
    member_ptr: Longs
    members: Ints
    reader_ptr: Longs
    readers: Ints
    source_ptr: Longs
    sources: Ints
    accelerator_time: Floats
    cpu_time: Floats
    transfer_time: Floats
    size_bytes: Floats
    allowed: Bools
    accelerators: int
    cores: int
    memory_bytes: float


def latency_arrays(problem: PlacementProblem) -> LatencyArrays:
    """Arrays of a problem; operators of one color are one unit."""
    unit_of = _units(problem)
    n, count = problem.num_operators, int(unit_of.max()) + 1
    barred = np.bincount(unit_of, ~problem.on_accelerator, count) > 0
    size = np.bincount(unit_of, problem.size_bytes, count).astype(np.float64)
    room = problem.memory_bytes * (1.0 + MEMORY_SLACK)
    member_ptr, members = _grouped(unit_of, np.arange(n), count)
    reader_ptr, readers = _grouped(problem.edge_source, problem.edge_target, n)
    source_ptr, sources = _grouped(problem.edge_target, problem.edge_source, n)
    return LatencyArrays(
        unit_of=unit_of,
        member_ptr=member_ptr,
        members=members,
        reader_ptr=reader_ptr,
        readers=readers,
        source_ptr=source_ptr,
        sources=sources,
        accelerator_time=problem.accelerator_time,
        cpu_time=problem.cpu_time,
        transfer_time=problem.transfer_time,
        size_bytes=size,
        allowed=~barred & (size <= room),
        accelerators=problem.max_accelerators,
        cores=problem.max_cpus,
        memory_bytes=room,
    )


def _units(problem: PlacementProblem) -> Ints:
    """`[N]`: the colors; without a CPU, colors on a cycle are one unit.

    Two accelerators with colors of one cycle wait for each other where the rest of the cycle is on
    accelerators, too. An operator on a CPU waits for its own inputs alone and breaks the cycle.
    """
    source, target = problem.edge_source, problem.edge_target
    color = problem.color.astype(np.int64)
    joined = in_order(components(color, source, target), source, target)
    if problem.max_cpus:
        _, first, color = np.unique(color, return_index=True, return_inverse=True)
        place = np.argsort(np.lexsort((first, joined[first])))
        joined = place[color]
    return joined.astype(np.int32)


def _grouped(key: Ints, value: npt.NDArray[np.integer[Any]], count: int) -> tuple[Longs, Ints]:
    order = np.argsort(key, kind="stable")
    ptr = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(key, minlength=count), out=ptr[1:])
    return ptr, value[order].astype(np.int32)
