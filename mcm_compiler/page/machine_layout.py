"""Where the devices of a machine are drawn: found from its channels, whatever its family is.

A circle of channels is drawn as a ring, a grid as a grid; anything else by stress majorisation
(Gansner, Koren, North 2004, "Graph Drawing by Stress Majorization"), with hops as distances.
"""

from __future__ import annotations

from collections import deque
from typing import Literal, NamedTuple

import numpy as np

from mcm_compiler.arrays.types import Floats

Shape = Literal["ring", "grid", "free"]

Pairs = frozenset[tuple[int, int]]
"""Devices that a channel joins, the lower one first."""

ROUNDS = 200
"""Of stress majorisation; packages of some hundred devices have long settled by then."""

_LEAST_RING = 3


class Layout(NamedTuple):
    """Where devices are drawn.

    Attributes:
        shape: what was found.
        places: `[D, 2]`, x to the right and y down; neighbours are about 1 apart.
    """

    shape: Shape
    places: Floats


def layout_of(devices: int, channels: list[tuple[int, int]]) -> Layout:
    """Places of devices, from the channels between them.

    Args:
        devices: how many.
        channels: the ends of each channel; those to or from other places than devices are ignored.
    """
    pairs = frozenset(
        (min(a, b), max(a, b)) for a, b in channels if a != b and 0 <= min(a, b) <= max(a, b)
    )
    if _is_row(devices, pairs):
        return Layout("ring", _ring(devices))
    if (columns := _grid_columns(devices, pairs)) is not None:
        place = np.arange(devices)
        return Layout("grid", np.stack([place % columns, place // columns], 1).astype(np.float64))
    return Layout("free", _by_stress(devices, pairs))


def _is_row(devices: int, pairs: Pairs) -> bool:
    """Whether each device is joined to the next one, and the last at most to the first."""
    row = frozenset((i, i + 1) for i in range(devices - 1))
    return devices >= _LEAST_RING and bool(pairs) and pairs - {(0, devices - 1)} == row


def _ring(devices: int) -> Floats:
    """A circle, the first device on top, and on clockwise; neighbours are 1 apart."""
    angle = 2 * np.pi * np.arange(devices) / devices
    radius = 0.5 / np.sin(np.pi / devices)
    return radius * np.stack([np.sin(angle), -np.cos(angle)], 1)


def _grid_columns(devices: int, pairs: Pairs) -> int | None:
    """Columns of a grid that is numbered row by row; None where it is none, or a torus."""
    for columns in range(2, devices // 2 + 1):
        if devices % columns:
            continue
        across = frozenset((i, i + 1) for i in range(devices) if (i + 1) % columns)
        down = frozenset((i, i + columns) for i in range(devices - columns))
        if pairs == across | down:
            return columns
    return None


def _by_stress(devices: int, pairs: Pairs) -> Floats:
    """Places whose distances are the hops between devices, as far as a plane allows."""
    hops = _hops(devices, pairs)
    angle = 2 * np.pi * np.arange(devices) / max(devices, 1)
    places = max(devices / 6, 1.0) * np.stack([np.cos(angle), np.sin(angle)], 1)
    if devices < _LEAST_RING:
        return np.stack([np.arange(devices), np.zeros(devices)], 1).astype(np.float64)
    weight = np.divide(1.0, hops**2, out=np.zeros_like(hops), where=hops > 0)
    laplacian = np.diag(weight.sum(1)) - weight
    inverse = np.linalg.pinv(laplacian)
    for _ in range(ROUNDS):
        apart = np.linalg.norm(places[:, None] - places[None], axis=2)
        scaled = np.divide(weight * hops, apart, out=np.zeros_like(hops), where=apart > 1e-9)
        pull = np.diag(scaled.sum(1)) - scaled
        places = inverse @ (pull @ places)
    return places - places.mean(0)


def _hops(devices: int, pairs: Pairs) -> Floats:
    """`[D, D]`, channels on the way; devices without a way are one more than any apart."""
    beside: list[list[int]] = [[] for _ in range(devices)]
    for a, b in sorted(pairs):
        beside[a].append(b)
        beside[b].append(a)
    hops = np.full((devices, devices), -1.0)
    for start in range(devices):
        hops[start, start] = 0
        waiting = deque([start])
        while waiting:
            here = waiting.popleft()
            for other in beside[here]:
                if hops[start, other] < 0:
                    hops[start, other] = hops[start, here] + 1
                    waiting.append(other)
    hops[hops < 0] = hops.max(initial=0) + 1
    return hops
