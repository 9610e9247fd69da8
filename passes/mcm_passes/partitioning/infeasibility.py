"""Why a problem has no partition, as far as that shows without a search, for diagnostics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.partition import Longs, PartitionProblem
from mcm_compiler.units import bytes_text
from mcm_passes.partitioning.contiguous_windows import windows_along
from mcm_passes.partitioning.fast_model import PACKING, STREAM_SLOTS, aligned
from mcm_passes.partitioning.topological_orders import Order


def impossible(problem: PartitionProblem) -> list[Diagnostic]:
    """Why no partition can exist, as far as that shows without a search; empty otherwise."""
    if problem.clonable.all():
        return [
            Diagnostic(
                "MCM-P002",
                "the model has no op that a chip must run: all its outputs are constant or inputs",
                at="all outputs of the graph",
                hint="compile the model without `simplify` to keep its ops as they are",
            )
        ]
    faults = _oversized_units(problem)
    weights = int(aligned(problem.weight_bytes).sum())
    memory = sum(problem.limits.sram_bytes)
    if not faults and not problem.streams and weights > memory:
        faults.append(
            Diagnostic(
                "MCM-P004",
                f"the weights need {bytes_text(weights)}, and all {problem.num_chips} chips have "
                f"{bytes_text(memory)} together",
                at=f"weight {heaviest_weight(problem)}",
                hint="choose a target with more chips or more memory per chip",
            )
        )
    return faults + _bad_pins(problem)


def _oversized_units(problem: PartitionProblem) -> list[Diagnostic]:
    """Units that no chip has room for, whatever else is there."""
    need, largest_weight = _own_weights(problem)
    tensors = _own_tensors(problem)
    most = max(problem.limits.sram_bytes)
    # Weights may be streamed through two buffers for the largest.
    held = np.minimum(need, STREAM_SLOTS * largest_weight) if problem.streams else need
    faults: list[Diagnostic] = []
    for u in np.flatnonzero(~problem.clonable & (held + tensors > most))[:5].tolist():
        if problem.streams or need[u] <= most:
            faults.append(_unit_and_tensors(problem, u, int(held[u]), int(tensors[u])))
            continue
        users = np.repeat(np.arange(len(problem.weight_names)), np.diff(problem.weight_ptr))
        own = users[problem.weight_users == u]
        largest = int(own[problem.weight_bytes[own].argmax()])
        faults.append(
            Diagnostic(
                "MCM-P005",
                f"{quote(problem.names[u])} needs {bytes_text(int(need[u]))} of weights on one "
                f"chip, and the largest chip has {bytes_text(most)}",
                at=f"weight {quote(problem.weight_names[largest])} "
                f"({bytes_text(int(problem.weight_bytes[largest]))})",
                hint="allow sharding of the op (`shard_oversized`), or choose a target with more "
                "memory per chip",
            )
        )
    return faults


def _own_weights(problem: PartitionProblem) -> tuple[Longs, Longs]:
    """`[N]` each: bytes of all weights of a unit, and of its largest."""
    users = np.repeat(np.arange(len(problem.weight_names)), np.diff(problem.weight_ptr))
    total = np.zeros(problem.num_units, dtype=np.int64)
    largest = np.zeros(problem.num_units, dtype=np.int64)
    np.add.at(total, problem.weight_users, aligned(problem.weight_bytes)[users])
    np.maximum.at(largest, problem.weight_users, aligned(problem.weight_bytes)[users])
    return total, largest


def _own_tensors(problem: PartitionProblem) -> Longs:
    """`[N]`, the least bytes that what a unit reads and makes takes on its chip.

    What comes from the host or goes there takes all slots of a channel. Any other tensor takes
    them too if it crosses a link, and else is live while the unit runs; what a clone makes takes
    its size.
    """
    limits = problem.limits
    room = aligned(problem.tensor_bytes)
    producer = np.maximum(problem.tensor_producer, 0)
    inside = problem.tensor_producer >= 0
    cloned = inside & problem.clonable[producer]
    share = np.full(room.size, min(limits.channel_slots, PACKING))
    share[~inside | problem.tensor_to_host] = limits.channel_slots
    share[cloned] = 1.0
    readers = np.diff(problem.tensor_ptr)
    rows = np.repeat(np.arange(room.size), readers)
    total = np.zeros(problem.num_units)
    # What goes to the host need not pass its channel where another chip reads it.
    read_share = np.where(inside, np.minimum(share, PACKING), share)
    np.add.at(total, problem.tensor_consumers, (read_share * room)[rows])
    made = inside & ~cloned
    np.add.at(total, producer[made], (share * room)[made])
    return np.floor(total).astype(np.int64)


def _unit_and_tensors(problem: PartitionProblem, u: int, weights: int, tensors: int) -> Diagnostic:
    limits = problem.limits
    of_weights = "buffers for streamed weights" if problem.streams else "weights"
    total = int(aligned(problem.weight_bytes).sum())
    return Diagnostic(
        "MCM-P015",
        f"no partition fits: {quote(problem.names[u])} alone needs "
        f"{bytes_text(weights + tensors)} on a chip of {bytes_text(max(limits.sram_bytes))}, "
        f"{bytes_text(weights)} for {of_weights} and {bytes_text(tensors)} for the tensors that it "
        f"reads and makes; all weights need {bytes_text(total)} of "
        f"{bytes_text(sum(limits.sram_bytes))} on {limits.num_chips} chips",
        at=f"node {quote(problem.names[u])}",
        hint="choose a target with more memory per chip, or a smaller batch or sequence",
    )


def _bad_pins(problem: PartitionProblem) -> list[Diagnostic]:
    outside = np.flatnonzero(problem.pinned_chip >= problem.num_chips)
    return [
        Diagnostic(
            "MCM-P007",
            f"{quote(problem.names[u])} is pinned to chip {problem.pinned_chip[u]}, and the "
            f"target has chips 0 to {problem.num_chips - 1}",
            at=f"node {quote(problem.names[u])}",
            hint="pin it to a chip that exists",
        )
        for u in outside[:5].tolist()
    ]


def tightest_unit(problem: PartitionProblem, orders: Sequence[Order]) -> str:
    """The unit that needs most memory with a chip to itself, in the order that is best for it.

    Beside its weights a chip holds all slots of what crosses its two cuts, be it for this unit or
    only passed on; that is what makes a unit tight whose weights would fit.
    """
    least = np.full(problem.num_units, np.iinfo(np.int64).max)
    own = np.zeros(problem.num_units, dtype=np.int64)
    for order in orders:
        w = windows_along(problem, order.units, count_live=False)
        n = order.units.size
        held = w.out_bytes.copy()
        np.add.at(held, np.repeat(np.arange(n), np.diff(w.item_ptr)), w.item_bytes)
        arriving, leaving = w.slots * w.cross_bytes[:-1], w.slots * w.cross_bytes[1:]
        arriving[0], leaving[-1] = w.entry_bytes, w.exit_bytes
        least[order.units] = np.minimum(least[order.units], held + arriving + leaving)
        own[order.units] = held
    need = np.where(problem.clonable, -1, least)
    unit = int(need.argmax())
    buffers = int(need[unit] - own[unit])
    return (
        f"{quote(problem.names[unit])} alone needs {bytes_text(int(need[unit]))} on a chip of "
        f"{bytes_text(max(problem.limits.sram_bytes))}, {bytes_text(buffers)} of it for tensors "
        "that arrive and leave there"
    )


def heaviest_weight(problem: PartitionProblem) -> str:
    """Name and size of the largest weight, for a message."""
    largest = int(problem.weight_bytes.argmax())
    size = bytes_text(int(problem.weight_bytes[largest]))
    return f"{quote(problem.weight_names[largest])} ({size})"
