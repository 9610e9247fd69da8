"""Which slices of a timeline a tensor connects: from its kernel over the links to its readers."""

from __future__ import annotations

from dataclasses import dataclass

from mcm_compiler.contracts.simulation import Timeline


@dataclass(frozen=True)
class FlowEnds:
    """Flows of one inference, numbered from 0.

    Attributes:
        count: how many there are.
        passes: by activity (as in `Track`), the flows that begin there or go through.
        ends: by activity, the flows that end there.
    """

    count: int
    passes: dict[int, list[int]]
    ends: dict[int, list[int]]


def flows_of(timeline: Timeline) -> FlowEnds:
    """The flows of a timeline.

    A flow connects the kernel that makes a tensor, or the hop by which it came, with all hops of a
    transfer and the first kernel that reads it. Each further reader has a flow of its own from
    the last hop. What comes to a chip and has no reader there but a transfer, or goes to the host,
    ends with its last hop. Where nothing but a single slice is left there is no flow.
    """
    program = timeline.program
    writer: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    kernels = 0
    for chip in program.chips:
        for kernel in chip.kernels:
            writer.update(dict.fromkeys(kernel.writes, kernels))
            for transfer in kernel.reads:
                readers.setdefault(transfer, []).append(kernels)
            kernels += 1
    hops: list[list[int]] = [[] for _ in program.transfers]
    for index, hop in enumerate(timeline.hops):
        hops[hop.transfer].append(kernels + index)
    passes: dict[int, list[int]] = {}
    ends: dict[int, list[int]] = {}
    count = 0
    for index, transfer in enumerate(program.transfers):
        if transfer.after >= 0:
            made = hops[transfer.after][-1:]
        else:
            made = [writer[index]] if index in writer else []
        way = [*made, *hops[index]]
        reading = readers.get(index, [])
        chains = [[*way, *reading[:1]], *([*way[-1:], reader] for reader in reading[1:])]
        for chain in chains:
            if len(chain) < 2:
                continue
            for activity in chain[:-1]:
                passes.setdefault(activity, []).append(count)
            ends.setdefault(chain[-1], []).append(count)
            count += 1
    return FlowEnds(count, passes, ends)
