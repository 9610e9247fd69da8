"""The kernel that cuts a placed graph into segments."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, inner_njit
from mcm_compiler.arrays.types import Bools, Ints


@entry_njit
def cut_windows(
    begin: Ints, readers: Ints, device_of: Ints, runs: Bools, order: Ints, windows: Ints
) -> tuple[Ints, Ints]:
    """Cuts each window of an order of the ops into segments, one after another.

    Within a window the device with most ops that wait for nothing runs all that it can without the
    others; that is a segment. Then it is the next one's turn. A segment thus reads from earlier
    ones alone. Time is linear in ops and edges, and in segments times devices.

    Args:
        begin: `[N + 1]`, edges of op n are `readers[begin[n] : begin[n + 1]]`.
        readers: `[E]`, ops that read from op n, each once.
        device_of: `[N]`.
        runs: `[N]`, whether the op is work; others belong to no segment and are there from the
            start.
        order: `[N]`, the ops in an order in which they can run.
        windows: `[W + 1]`, ascending positions in `order`, from 0 to N.

    Returns:
        `[N]`, the segment of each op, -1 for those that are no work; and `[S]`, their devices.
    """
    num_ops = len(device_of)
    devices = device_of.max() + 1 if num_ops else 0
    segment_of = np.full(num_ops, -1, np.int32)
    device = np.empty(num_ops, np.int32)
    count = 0
    window_of = np.repeat(np.arange(len(windows) - 1), np.diff(windows))
    place = np.empty(num_ops, np.int32)
    place[order] = window_of
    missing = _missing(begin, readers, runs, place)
    # A list per device through the ops themselves: the newest, and the next older of each.
    newest = np.full(devices, -1, np.int32)
    older = np.full(num_ops, -1, np.int32)
    waiting = np.zeros(devices, np.int32)
    for w in range(len(windows) - 1):
        left = 0
        for op in order[windows[w] : windows[w + 1]]:
            left += runs[op]
            if runs[op] and missing[op] == 0:
                _append(int(op), int(device_of[op]), newest, older, waiting)
        while left:
            turn = np.argmax(waiting)
            device[count] = turn
            while newest[turn] >= 0:
                op = newest[turn]
                newest[turn] = older[op]
                waiting[turn] -= 1
                segment_of[op] = count
                left -= 1
                for reader in readers[begin[op] : begin[op + 1]]:
                    if place[reader] == w:
                        missing[reader] -= 1
                        if missing[reader] == 0:
                            _append(int(reader), int(device_of[reader]), newest, older, waiting)
            count += 1
    return segment_of, device[:count].copy()


@inner_njit
def _missing(begin: Ints, readers: Ints, runs: Bools, place: Ints) -> Ints:
    """For each op the ops of its window that it reads from."""
    missing = np.zeros(len(place), np.int32)
    for op in range(len(place)):
        if runs[op]:
            for reader in readers[begin[op] : begin[op + 1]]:
                missing[reader] += place[reader] == place[op]
    return missing


@inner_njit
def _append(op: int, device: int, newest: Ints, older: Ints, waiting: Ints) -> None:
    """Puts an op on the list of its device."""
    older[op] = newest[device]
    newest[device] = op
    waiting[device] += 1
