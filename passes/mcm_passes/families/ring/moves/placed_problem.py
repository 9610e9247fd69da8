"""A problem as moves see it: demands of units, what depends on what, and the machine."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mcm_compiler.arrays.rows import Rows, distinct_rows
from mcm_compiler.contracts.partition import Bools, Floats, Ints, Longs, PartitionProblem
from mcm_compiler.placements.ring_rules import dependency_edges
from mcm_passes.mapping.loads.chip_demands import ChipDemands, unit_demands
from mcm_passes.mapping.loads.problem_arrays import KindSeconds, kind_seconds
from mcm_passes.mapping.machine.load_kernels import RouteArrays, route_arrays


class MovesMachine(NamedTuple):
    """D devices with L channels; units are on the first C devices.

    Each channel has an owner: the device where it begins, or else the one where it ends, or else D.

    Attributes:
        strict: whether the triangle rule holds, which only rings have.
        routes: of the machine.
        rate: `[D + L]`, speed of each device and bytes per second of each channel.
        owner: `[L]`.
        owned: `[D + 1]` rows of the channels of each owner, ascending.
        kind_of: `[C]`, kind of each device.
        seconds: on devices of each kind.
        room: `[C]`, blocks of memory.
        block_bytes: bytes of a block.
        packing: blocks for gaps, as a share of the peak of live blocks.
        streams: whether weights that do not fit may be streamed.
        stream_slots: buffers that streamed weights pass through.
    """

    strict: bool
    routes: RouteArrays
    rate: Floats
    owner: Longs
    owned: Rows
    kind_of: Ints
    seconds: KindSeconds
    room: Longs
    block_bytes: int
    packing: float
    streams: bool
    stream_slots: int


class PlacedProblem(NamedTuple):
    """A problem; memory is in blocks of the alignment.

    Attributes:
        fixed: `[N]`, whether each unit has a place of its own.
        demands: of all units, which are its nodes. Each tensor has buffers of its own, at need as
            well.
        read: `[N]` rows of the tensors that each unit reads.
        after: `[N]` rows of the distinct successors of each unit with a place of its own, among
            such units.
        before: `[N]` rows of the distinct predecessors.
        movable: `[C]`, whether no unit has to be on the device.
        machine: of the problem.
    """

    fixed: Bools
    demands: ChipDemands
    read: Rows
    after: Rows
    before: Rows
    movable: Bools
    machine: MovesMachine


def placed_problem(problem: PartitionProblem) -> PlacedProblem:
    """Prepares a problem for moves; its loads are those of the table of demands."""
    n = problem.num_units
    demands = unit_demands(problem, own_buffers=True, clone_outputs=True)
    source, target = dependency_edges(problem)
    machine, limits, block = problem.machine, problem.limits, problem.limits.buffer_alignment_bytes
    devices, ends = machine.num_devices, machine.channel_ends
    owner = np.where(ends[:, 0] >= 0, ends[:, 0], ends[:, 1]).astype(np.int64)
    owner[owner < 0] = devices
    rate = np.concatenate([np.ones(devices), machine.channel_bytes_per_s])
    rate[: problem.num_chips] = problem.chip_speed
    return PlacedProblem(
        fixed=~problem.clonable,
        demands=demands,
        read=demands.tensors.readers.transposed(n),
        after=distinct_rows(source, target, n),
        before=distinct_rows(target, source, n),
        movable=~np.isin(np.arange(problem.num_chips), problem.pinned_chip),
        machine=MovesMachine(
            strict=problem.on_ring and problem.routing == "strict",
            routes=route_arrays(problem),
            rate=rate,
            owner=owner,
            owned=distinct_rows(owner, np.arange(owner.size), devices + 1),
            kind_of=np.array(problem.kind_of, np.int32),
            seconds=kind_seconds(problem, demands),
            room=np.array(limits.sram_bytes, np.int64) // block,
            block_bytes=block,
            packing=limits.activation_packing,
            streams=problem.streams,
            stream_slots=limits.stream_buffers,
        ),
    )
