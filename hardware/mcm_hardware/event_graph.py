"""A lowered program as a timed event graph.

With a static order on every resource, a pipelined machine is a timed event graph: the start of
each activity is the maximum, over what it waits for, of a start plus a constant (Baccelli, Cohen,
Olsder and Quadrat 1992, *Synchronization and Linearity*, chapter 2). An arc with *lag* d waits for
the activity of d inferences before. Its period is its maximum cycle ratio.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from mcm_compiler.program import LoweredProgram, Transfer
from mcm_compiler.target import HOST
from mcm_hardware.chip_spec import RingSpec
from mcm_hardware.event_arcs import ArcArrays, ArcList, Wait

Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

Resource = tuple[int, int]
"""A link as `(source, destination)`: neighbouring chips, or -1 for the host and a chip."""


@dataclass(frozen=True, eq=False)
class EventGraph:
    """Activities of one inference and what they wait for.

    Activities are the kernels, chip by chip in program order, then the hops of the transfers.

    Attributes:
        busy_s: `[A]`, time that an activity takes its resource.
        latency_s: `[A]`, time from then until its result is there.
        order: `[A]`, activities in the static order; restricted to a resource it is the order in
            which that serves them, inference by inference.
        arcs: what each activity waits for.
        kernel_ptr: `[chips + 1]`, activities of each chip's kernels, chips as in the program.
        links: used links, ascending.
        link_hops: activities on each of `links`, in the order served.
        finals: activities that end an inference: hops to the host, or else all last kernels.
    """

    busy_s: Floats
    latency_s: Floats
    order: Longs
    arcs: ArcArrays
    kernel_ptr: Longs
    links: tuple[Resource, ...]
    link_hops: tuple[Longs, ...]
    finals: Longs


def route(transfer: Transfer, spec: RingSpec) -> list[Resource]:
    """The links that a transfer crosses, in order.

    Where the host reaches only the ends of the ring, what it exchanges with a chip in between
    travels over the ring: in from chip 0, out by the last chip.
    """
    source, destination = transfer.source, transfer.destination
    last = spec.num_chips - 1
    path: list[Resource] = []
    if source == HOST:
        source = destination if spec.host_io == "any" or destination == last else 0
        path.append((HOST, source))
    leaves = destination == HOST
    if leaves:
        destination = source if spec.host_io == "any" or source == 0 else last
    path += [(chip, chip + 1) for chip in range(source, destination)]
    if leaves:
        path.append((destination, HOST))
    return path


def build_event_graph(program: LoweredProgram, spec: RingSpec) -> EventGraph:
    """The event graph of a program.

    - A chip runs its kernels in program order, one inference after another. A kernel waits for
      the transfers it reads (`INPUT`), and for the send buffers of what it writes: the transfer of
      `slots` inferences before must have left (`BUFFER`).
    - A transfer waits for the kernel that makes the tensor, or for the transfer that it passes on,
      and for a receive buffer: what came `slots` inferences before must have been read by the last
      of its readers and passed on.
    - Over several links a transfer is stored and forwarded; routers on the way have memory of
      their own for it. A link is taken for bytes / rate; the next may enter while the last is on
      its way (latency is pipelined).
    - A resource serves activities in a static order: by inference, and within one in the order in
      which they would become ready if links were free. All arcs then point backwards in
      (inference, order), so that no program deadlocks: within an inference tensors go down the
      ring only, and kernels of a chip have an order.

    Args:
        program: one that `check_program` lets pass.
        spec: numbers of the package.
    """
    busy = [kernel.duration_s for chip in program.chips for kernel in chip.kernels]
    kernel_ptr = np.cumsum([0, *(len(chip.kernels) for chip in program.chips)]).astype(np.int64)
    latency = [0.0] * len(busy)
    hops: list[list[int]] = []
    on_link: dict[Resource, list[int]] = {}
    for transfer in program.transfers:
        mine: list[int] = []
        for link in route(transfer, spec):
            mine.append(len(busy))
            on_link.setdefault(link, []).append(len(busy))
            is_host = HOST in link
            rate = spec.host_bytes_per_s if is_host else spec.link_bytes_per_s
            busy.append(transfer.size_bytes / rate)
            latency.append(spec.host_latency_s if is_host else spec.hop_latency_s)
        hops.append(mine)
    arcs = ArcList(len(busy))
    _add_engine_arcs(arcs, program, kernel_ptr, busy)
    _add_data_arcs(arcs, program, kernel_ptr, hops, busy, latency)
    order = arcs.ready_order()
    links = tuple(sorted(on_link))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    link_hops: list[Longs] = []
    for link in links:
        served = np.array(on_link[link], np.int64)
        served = served[np.argsort(rank[served])]
        link_hops.append(served)
        _add_resource_arcs(arcs, [int(hop) for hop in served], busy)
    finals = [
        mine[-1]
        for mine, transfer in zip(hops, program.transfers, strict=True)
        if transfer.destination == HOST
    ] or [int(end) - 1 for start, end in pairwise(kernel_ptr) if end > start]
    return EventGraph(
        busy_s=np.array(busy),
        latency_s=np.array(latency),
        order=order,
        arcs=arcs.arrays(),
        kernel_ptr=kernel_ptr,
        links=links,
        link_hops=tuple(link_hops),
        finals=np.array(finals, np.int64),
    )


def _add_resource_arcs(arcs: ArcList, served: Sequence[int], busy: Sequence[float]) -> None:
    """One at a time, in this order, and the first again after the last."""
    for before, after in pairwise(served):
        arcs.add(before, after, busy[before], 0, Wait.RESOURCE)
    if served:
        arcs.add(served[-1], served[0], busy[served[-1]], 1, Wait.RESOURCE)


def _add_engine_arcs(
    arcs: ArcList, program: LoweredProgram, kernel_ptr: Longs, busy: Sequence[float]
) -> None:
    for position in range(len(program.chips)):
        start, end = int(kernel_ptr[position]), int(kernel_ptr[position + 1])
        _add_resource_arcs(arcs, range(start, end), busy)


def _add_data_arcs(
    arcs: ArcList,
    program: LoweredProgram,
    kernel_ptr: Longs,
    hops: Sequence[Sequence[int]],
    busy: Sequence[float],
    latency: Sequence[float],
) -> None:
    transfers = program.transfers
    last_reader: dict[int, int] = {}
    for position, chip in enumerate(program.chips):
        for offset, kernel in enumerate(chip.kernels):
            activity = int(kernel_ptr[position]) + offset
            for index in kernel.reads:
                arrival = hops[index][-1]
                weight = busy[arrival] + latency[arrival]
                arcs.add(arrival, activity, weight, 0, Wait.INPUT)
                last_reader[index] = activity
            for index in kernel.writes:
                departure = hops[index][0]
                arcs.add(activity, departure, busy[activity], 0, Wait.INPUT)
                slots = transfers[index].slots
                arcs.add(departure, activity, busy[departure], slots, Wait.BUFFER)
    released: list[list[int]] = [[] for _ in transfers]
    for index, activity in last_reader.items():
        released[index].append(activity)
    for index, transfer in enumerate(transfers):
        if transfer.after >= 0:
            arrival = hops[transfer.after][-1]
            weight = busy[arrival] + latency[arrival]
            arcs.add(arrival, hops[index][0], weight, 0, Wait.INPUT)
            released[transfer.after].append(hops[index][0])
        for before, after in pairwise(hops[index]):
            arcs.add(before, after, busy[before] + latency[before], 0, Wait.INPUT)
    for index, transfer in enumerate(transfers):
        if transfer.destination == HOST:
            continue
        # What nobody reads leaves its buffer on arrival.
        for activity in released[index]:
            arcs.add(activity, hops[index][0], busy[activity], transfer.slots, Wait.BUFFER)
        if not released[index]:
            end = hops[index][-1]
            weight = busy[end] + latency[end]
            arcs.add(end, hops[index][0], weight, transfer.slots, Wait.BUFFER)
