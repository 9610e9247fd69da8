"""The compiled inner loop of the fast model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from mcm_compiler.partition import Bools, Floats, Ints, Longs


class ProblemArrays(NamedTuple):
    """A partition problem as the compiled code takes it; fields as in `PartitionProblem`.

    `clone_row[u]` counts the clonable units from 0 and is -1 for all others,
    `unit_tensors[unit_ptr[u]:unit_ptr[u + 1]]` are the tensors that unit u makes; `*_aligned`
    are sizes rounded up to the target's alignment. With `need`, memory is counted as `NeededRooms`
    has it, whose fields the last six are; else they are empty.
    """

    compute_s: Floats
    clone_row: Ints
    num_clonable: int
    tensor_bytes: Longs
    tensor_aligned: Longs
    tensor_producer: Ints
    tensor_ptr: Longs
    tensor_consumers: Ints
    tensor_to_host: Bools
    relay_s: Floats
    unit_ptr: Longs
    unit_tensors: Longs
    weight_aligned: Longs
    weight_ptr: Longs
    weight_users: Ints
    num_chips: int
    relay: bool
    ends: bool
    slots: int
    need: bool
    send: Longs
    live: Longs
    held_ptr: Longs
    held: Ints
    stay_ptr: Longs
    stay: Ints


@njit(cache=True)
def _clone_copies(p: ProblemArrays, chip_of: Ints) -> Bools:
    """`[K, C]`, the chips that need a copy of each clonable unit."""
    num_units = p.compute_s.size
    copies = np.zeros((p.num_clonable, p.num_chips), dtype=np.bool_)
    # Backwards, because readers come after producers and decide where those are needed.
    for u in range(num_units - 1, -1, -1):
        row = p.clone_row[u]
        if row < 0:
            continue
        for k in range(p.unit_ptr[u], p.unit_ptr[u + 1]):
            t = p.unit_tensors[k]
            for e in range(p.tensor_ptr[t], p.tensor_ptr[t + 1]):
                v = p.tensor_consumers[e]
                if p.clone_row[v] >= 0:
                    for c in range(p.num_chips):
                        copies[row, c] |= copies[p.clone_row[v], c]
                else:
                    copies[row, chip_of[v]] = True
    return copies


@njit(cache=True)
def _peak_live_bytes(p: ProblemArrays, chip_of: Ints, leaves: Bools) -> Longs:
    """`[C]`, peak of activations that are made and read on one chip, in unit order."""
    num_units = p.compute_s.size
    live = np.zeros(p.num_chips, dtype=np.int64)
    peak = np.zeros(p.num_chips, dtype=np.int64)
    first_dying = np.full(num_units, -1, dtype=np.int64)
    next_dying = np.full(p.tensor_bytes.size, -1, dtype=np.int64)
    for u in range(num_units):
        if p.clone_row[u] >= 0:
            continue
        c = chip_of[u]
        for k in range(p.unit_ptr[u], p.unit_ptr[u + 1]):
            t = p.unit_tensors[k]
            if leaves[t]:
                continue
            live[c] += p.tensor_aligned[t]
            last = u
            if p.tensor_ptr[t] < p.tensor_ptr[t + 1]:
                last = p.tensor_consumers[p.tensor_ptr[t + 1] - 1]
            next_dying[t] = first_dying[last]
            first_dying[last] = t
        peak[c] = max(peak[c], live[c])
        t = first_dying[u]
        while t >= 0:
            live[c] -= p.tensor_aligned[t]
            t = next_dying[t]
    return peak


@njit(cache=True)
def _needed_live_bytes(p: ProblemArrays, chip_of: Ints) -> Longs:
    """`[C]`, the most that one kernel of each chip reads and makes of what stays there."""
    at_once = np.zeros(p.compute_s.size, dtype=np.int64)
    for t in range(p.tensor_bytes.size):
        if p.live[t] == 0:
            continue
        c = chip_of[p.tensor_producer[t]]
        stays = True
        for e in range(p.stay_ptr[t], p.stay_ptr[t + 1]):
            stays = stays and chip_of[p.stay[e]] == c
        if stays:
            for e in range(p.held_ptr[t], p.held_ptr[t + 1]):
                at_once[p.held[e]] += p.live[t]
    most = np.zeros(p.num_chips, dtype=np.int64)
    for u in range(at_once.size):
        if p.clone_row[u] < 0:
            most[chip_of[u]] = max(most[chip_of[u]], at_once[u])
    return most


@njit(cache=True)
def measure(
    p: ProblemArrays, chip_of: Ints
) -> tuple[Bools, Floats, Longs, Longs, Longs, Longs, Longs, Longs, Longs]:
    """Loads of all resources for the placement `chip_of[N]`, whose entries are in range.

    Returns:
        `copies[K, C]`, `busy_s[C]`, `link_bytes[C]` (the last is 0), `host_in_bytes[C]`,
        `host_out_bytes[C]`, `weight_bytes[C]`, `channel_bytes[C]` (all buffers that are taken
        for good: slots of arriving and leaving tensors, outputs of clones),
        `peak_bytes[C]` of local activations in unit order, or at need of the hungriest kernel, and
        `largest_weight_bytes[C]`.
    """
    num_units = p.compute_s.size
    num_chips = p.num_chips
    copies = _clone_copies(p, chip_of)
    busy = np.zeros(num_chips)
    link = np.zeros(num_chips, dtype=np.int64)
    host_in = np.zeros(num_chips, dtype=np.int64)
    host_out = np.zeros(num_chips, dtype=np.int64)
    weights = np.zeros(num_chips, dtype=np.int64)
    largest = np.zeros(num_chips, dtype=np.int64)
    channels = np.zeros(num_chips, dtype=np.int64)
    last_used = 0
    for u in range(num_units):
        row = p.clone_row[u]
        if row >= 0:
            for c in range(num_chips):
                if copies[row, c]:
                    busy[c] += p.compute_s[u]
        else:
            busy[chip_of[u]] += p.compute_s[u]
            last_used = max(last_used, chip_of[u])

    num_tensors = p.tensor_bytes.size
    leaves = np.zeros(num_tensors, dtype=np.bool_)
    stamp = np.full(num_chips, -1, dtype=np.int64)
    for t in range(num_tensors):
        size = p.tensor_bytes[t]
        room = p.tensor_aligned[t]
        producer = p.tensor_producer[t]
        if producer >= 0 and p.clone_row[producer] >= 0:
            for c in range(num_chips):
                if copies[p.clone_row[producer], c] and not p.need:
                    channels[c] += room
            continue
        sent = p.send[t] if p.need and producer >= 0 else room
        from_host = producer < 0
        source = 0 if from_host else chip_of[producer]
        last = -1
        for e in range(p.tensor_ptr[t], p.tensor_ptr[t + 1]):
            v = p.tensor_consumers[e]
            if p.clone_row[v] >= 0:
                for c in range(num_chips):
                    if copies[p.clone_row[v], c]:
                        stamp[c] = t
                        last = max(last, c)
            else:
                stamp[chip_of[v]] = t
                last = max(last, chip_of[v])
        if from_host and last < 0:
            continue
        if from_host and not p.ends:
            for c in range(last + 1):
                if stamp[c] == t:
                    host_in[c] += size
                    channels[c] += p.slots * room
            continue
        to_host = p.tensor_to_host[t] and not from_host
        if from_host:
            host_in[0] += size
            channels[0] += p.slots * room
        if to_host:
            leaves[t] = True
            collect = last_used if p.ends else source
            host_out[collect] += size
            channels[collect] += p.slots * (sent if collect == source else room)
            if p.need and not p.ends:
                # What goes to the host as well has its send buffers once.
                sent = 0
            if p.ends:
                last = max(last, last_used)
        if last <= source:
            continue
        leaves[t] = True
        for c in range(source, last):
            link[c] += size
        if p.relay or (p.ends and (from_host or to_host)):
            for c in range(source, last):
                channels[c] += p.slots * (sent if c == source else room)
                channels[c + 1] += p.slots * room
            begin = source if from_host else source + 1
            end = last + 1 if p.ends and to_host else last
            for c in range(begin, end):
                busy[c] += p.relay_s[t]
        else:
            channels[source] += p.slots * sent
            for c in range(source + 1, last + 1):
                if stamp[c] == t:
                    channels[c] += p.slots * room

    stamp = np.full(num_chips, -1, dtype=np.int64)
    for w in range(p.weight_aligned.size):
        for e in range(p.weight_ptr[w], p.weight_ptr[w + 1]):
            u = p.weight_users[e]
            row = p.clone_row[u]
            if row >= 0:
                for c in range(num_chips):
                    if copies[row, c] and stamp[c] != w:
                        stamp[c] = w
                        weights[c] += p.weight_aligned[w]
                        largest[c] = max(largest[c], p.weight_aligned[w])
            elif stamp[chip_of[u]] != w:
                stamp[chip_of[u]] = w
                weights[chip_of[u]] += p.weight_aligned[w]
                largest[chip_of[u]] = max(largest[chip_of[u]], p.weight_aligned[w])
    peak = _needed_live_bytes(p, chip_of) if p.need else _peak_live_bytes(p, chip_of, leaves)
    return copies, busy, link, host_in, host_out, weights, channels, peak, largest
