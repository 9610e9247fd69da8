"""Why a problem has no partition, as far as that shows without a search, for diagnostics."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.partition import Longs, PartitionProblem
from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.text.units import bytes_text, count_text
from mcm_passes.mapping.problem.resident_sizes import (
    memory_roots,
    sram_blocks,
    tensor_sizes,
    weight_sizes,
)


def impossible(problem: PartitionProblem) -> list[Diagnostic]:
    """Why no partition can exist, as far as that shows without a search; empty otherwise.

    Memory is what every memory plan needs at least, whatever `problem.memory` says.
    """
    problem = problem.at_need()
    if problem.clonable.all():
        return [
            Diagnostic(
                "MCM-P002",
                "the model has no op that a chip must run: all its outputs are constant or inputs",
                at="all outputs of the graph",
            )
        ]
    faults = [*_units_without_kind(problem), *_oversized_units(problem)]
    weights = all_weights(problem)
    memory = int(sram_blocks(problem).sum()) * problem.limits.buffer_alignment_bytes
    if not faults and not problem.streams and weights > memory:
        faults.append(
            Diagnostic(
                "MCM-P004",
                f"the weights need {bytes_text(weights)}, and all {problem.num_chips} chips have "
                f"{bytes_text(memory)} together",
                at=f"weight {heaviest_weight(problem)}",
            )
        )
    return faults + _bad_pins(problem)


def _units_without_kind(problem: PartitionProblem) -> list[Diagnostic]:
    """Units that no kind of chip in use runs, or not the kind that they are pinned to."""
    if problem.kinds is None:
        return []
    kinds, kind_of, pinned = problem.kinds, problem.kind_of, problem.pinned_chip
    there = np.unique(kind_of)
    shown = ", ".join(quote(kinds.names[kind]) for kind in there.tolist())
    reasons: dict[int, str] = {}
    for u in np.flatnonzero((pinned >= 0) & (pinned < problem.num_chips)).tolist():
        kind = int(kind_of[pinned[u]])
        if not kinds.can_run[kind, u]:
            name = quote(kinds.names[kind])
            reasons[u] = (
                f"is pinned to chip {pinned[u]}, and chips of the kind {name} cannot run it"
            )
    for u in np.flatnonzero(~kinds.can_run[there].any(axis=0)).tolist():
        count = count_text(len(problem.members[u]), "op")
        reasons[u] = f"has {count}, which no chip in use runs together (kinds in use: {shown})"
    return [
        Diagnostic(
            "MCM-P041", f"{quote(problem.names[u])} {reason}", at=f"node {quote(problem.names[u])}"
        )
        for u, reason in list(reasons.items())[:5]
    ]


def all_weights(problem: PartitionProblem) -> int:
    """Bytes of all weights that some unit uses, each once."""
    return int(weight_sizes(problem)[np.diff(problem.weight_ptr) > 0].sum())


def _oversized_units(problem: PartitionProblem) -> list[Diagnostic]:
    """Units that no chip has space for, whatever else is there."""
    need = _own_weights(problem)
    tensors = _own_tensors(problem)
    most = max(problem.limits.sram_bytes)
    # Where weights may be streamed, none of them has to be held.
    held = np.zeros_like(need) if problem.streams else need
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
            )
        )
    return faults


def _own_weights(problem: PartitionProblem) -> Longs:
    """`[N]`, bytes of all weights of a unit."""
    users = np.repeat(np.arange(len(problem.weight_names)), np.diff(problem.weight_ptr))
    total = np.zeros(problem.num_units, dtype=np.int64)
    np.add.at(total, problem.weight_users, weight_sizes(problem)[users])
    return total


def _own_tensors(problem: PartitionProblem) -> Longs:
    """`[N]`, the least bytes that what a unit reads and makes takes on its chip while it runs.

    What comes from the host arrives in all slots of a channel, and so does a view of it that
    another chip makes. Off rings it takes its size once where weights may be streamed, since it may
    be among the activations. What goes to the host leaves from as many slots. Whatever else a unit
    reads or makes takes its size at least: either it crosses a link, or it is held. A tensor and
    its views count once, and what is in a weight not at all.
    """
    slots, units = problem.limits.channel_slots, problem.num_units
    room, root = tensor_sizes(problem), memory_roots(problem.tensor_alias)
    inside = problem.tensor_producer >= 0
    tensor = np.repeat(np.arange(room.size), np.diff(problem.tensor_ptr))
    reader = problem.tensor_consumers.astype(np.int64)
    from_host = (root[tensor] >= 0) & ~inside[np.maximum(root[tensor], 0)]
    single = problem.one_kernel[reader]
    # A graph input arrives even where only its shape is wanted.
    counts = (problem.tensor_touched & (single | from_host)) | ~inside[tensor]
    arriving = 1 if problem.streams and not problem.on_ring else slots
    read_share = np.where(from_host, arriving, 1)[counts]
    # What nobody else reads in memory, not even as a view, may stay in registers.
    maker = np.maximum(problem.tensor_producer, 0)
    others = problem.tensor_touched & (root[tensor] >= 0)
    others &= reader != maker[np.maximum(root[tensor], 0)]
    wanted = np.zeros(room.size, np.bool_)
    wanted[root[tensor[others]]] = True
    to_host = problem.tensor_to_host & inside & ~problem.clonable[maker]
    makes = np.flatnonzero(
        to_host | (inside & wanted & (problem.tensor_alias == -1) & problem.one_kernel[maker])
    )
    made_share = np.where(to_host[makes], slots, 1)
    owner = np.concatenate([reader[counts], problem.tensor_producer[makes].astype(np.int64)])
    held = np.concatenate([tensor[counts], makes])
    share = np.concatenate([read_share, made_share])
    held = np.where(root[held] >= 0, root[held], held)
    share = np.where(root[held] >= 0, share, np.where(to_host[held], slots, 0))
    # Of what shares memory the most counts.
    order = np.lexsort((-share * room[held], held, owner))
    owner, held, share = owner[order], held[order], share[order]
    first = np.ones(owner.size, np.bool_)
    first[1:] = (owner[1:] != owner[:-1]) | (held[1:] != held[:-1])
    total = np.zeros(units, np.int64)
    np.add.at(total, owner[first], (share * room[held])[first])
    return total


def _unit_and_tensors(problem: PartitionProblem, u: int, weights: int, tensors: int) -> Diagnostic:
    limits = problem.limits
    total = all_weights(problem)
    return Diagnostic(
        "MCM-P015",
        f"no partition fits: {quote(problem.names[u])} alone needs "
        f"{bytes_text(weights + tensors)} on a chip of {bytes_text(max(limits.sram_bytes))}, "
        f"{bytes_text(weights)} for weights and {bytes_text(tensors)} for the tensors that it "
        f"reads and makes; all weights need {bytes_text(total)} of "
        f"{bytes_text(sum(limits.sram_bytes))} on {limits.num_chips} chips",
        at=f"node {quote(problem.names[u])}",
    )


def _bad_pins(problem: PartitionProblem) -> list[Diagnostic]:
    outside = np.flatnonzero(problem.pinned_chip >= problem.num_chips)
    return [
        Diagnostic(
            "MCM-P007",
            f"{quote(problem.names[u])} is pinned to chip {problem.pinned_chip[u]}, and the "
            f"target has chips 0 to {problem.num_chips - 1}",
            at=f"node {quote(problem.names[u])}",
        )
        for u in outside[:5].tolist()
    ]


def heaviest_weight(problem: PartitionProblem) -> str:
    """Name and size of the largest weight, for a message."""
    largest = int(problem.weight_bytes.argmax())
    size = bytes_text(int(problem.weight_bytes[largest]))
    return f"{quote(problem.weight_names[largest])} ({size})"
