"""Steps like those of training a deep recurrent model, with as many ops as one likes."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.boxes.box import INPUT, VARIABLE, Box, StepProblem

_CELL = 14
"""Ops of a cell, forward; backward there are twice as many."""


class _Step:
    """Ops with one value each, of a size and a time on the first kind and the others."""

    def __init__(self) -> None:
        self.types: list[str] = []
        self.reads: list[list[int]] = []
        self.bytes: list[int] = []
        self.seconds: list[float] = []
        self.layer: list[int] = []

    def add(self, reads: list[int], size: int, seconds: float, layer: int, kind: str = "Op") -> int:
        self.types.append(kind)
        self.reads.append(sorted(set(reads)))
        self.bytes.append(size)
        self.seconds.append(seconds)
        self.layer.append(layer)
        return len(self.types) - 1


def recurrent_step(box: Box, layers: int, steps: int, seed: int = 0) -> StepProblem:
    """A training step of `layers` recurrent layers, unrolled over `steps`.

    A cell is a matrix product and `_CELL` - 1 small ops; backward each op has two. Gradients of a
    layer's weights are added up over all steps before they update the weights where these lie.

    Args:
        box: the first kind is four times slower.
        layers: each with a variable.
        steps: time steps.
        seed: of the times.
    """
    rng = np.random.default_rng(seed)
    step, small, large = _Step(), 262_144, 4 * 2**20
    weights = [step.add([], 64 * 2**20, 0.0, layer, VARIABLE) for layer in range(layers)]
    below = [step.add([], small, 0.0, -1, INPUT) for _ in range(steps)]
    cells: list[list[list[int]]] = []
    for layer in range(layers):
        row: list[list[int]] = []
        state = below[0]
        for t in range(steps):
            ops = [step.add([below[t], state, weights[layer]], large, 2e-3, layer)]
            for _ in range(_CELL - 1):
                recent = [ops[-1], ops[max(0, len(ops) - 1 - int(rng.integers(1, 5)))]]
                ops.append(step.add(recent, small, 2e-5, layer))
            state = ops[-1]
            row.append(ops)
        below = [ops[-1] for ops in row]
        cells.append(row)
    _backward(step, cells, weights)
    ops = len(step.types)
    seconds = np.array(step.seconds) * rng.uniform(0.8, 1.2, ops)
    together = np.arange(ops)
    updates = np.flatnonzero(np.array(step.types) == "Update")
    together[updates] = weights[::-1]
    allowed = np.ones((ops, box.num_devices), np.bool_)
    allowed[np.array(step.types) == INPUT] = np.arange(box.num_devices) == box.host
    view_of = np.full(ops, -1, np.int32)
    view_of[updates] = weights[::-1]
    slowness = np.where(np.arange(len(box.kinds)) == 0, 4.0, 1.0)
    return StepProblem(
        names=tuple(f"op{n}" for n in range(ops)),
        op_types=tuple(step.types),
        time_s=np.outer(seconds, slowness).astype(np.float64),
        value_names=tuple(f"v{n}" for n in range(ops)),
        value_bytes=np.array(step.bytes, np.int64),
        producer=np.arange(ops, dtype=np.int32),
        view_of=view_of,
        stays=np.array(step.types) == VARIABLE,
        kept=np.zeros(ops, np.bool_),
        read_begin=np.cumsum([0, *map(len, step.reads)]).astype(np.int64),
        reads=np.array([v for reads in step.reads for v in reads], np.int32),
        together=np.unique(together, return_inverse=True)[1].astype(np.int32),
        allowed=allowed,
        layer=np.array(step.layer, np.int32),
    )


def _backward(step: _Step, cells: list[list[list[int]]], weights: list[int]) -> None:
    """Gradients from the last layer and time step to the first, and updates."""
    small = 262_144
    above: list[int] | None = None
    for layer in reversed(range(len(cells))):
        through: list[int] = []
        parts: list[int] = []
        state = cells[-1][-1][-1]
        for t in reversed(range(len(cells[layer]))):
            back = [state, state if above is None else above[t]]
            for op in reversed(cells[layer][t]):
                back = [
                    step.add([op, *back], small, 2e-5, layer),
                    step.add([back[-1], op], small, 2e-5, layer),
                ]
            parts.append(step.add([cells[layer][t][0], back[0]], 64 * 2**20, 2e-3, layer))
            state = step.add([weights[layer], back[1]], small, 2e-3, layer)
            through.append(state)
        above = through[::-1]
        total = step.add(parts, 64 * 2**20, 1e-3, layer)
        step.add([weights[layer], total], 64 * 2**20, 1e-3, layer, "Update")
