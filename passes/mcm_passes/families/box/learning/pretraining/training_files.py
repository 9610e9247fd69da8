"""State of a training on disk, from which a later process continues to the same result."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from mcm_compiler.diagnostics import CompileError, quote
from mcm_models.cards import read_with_card, save_with_card
from mcm_models.cluster_policy.layout import Weights

STATE_NAME = "training.safetensors"

ELSEWHERE = "start it again in another folder"


class _Numbers(Struct, frozen=True):
    asked: dict[str, Any]
    iteration: int
    best_ratio: float | None
    best_iteration: int


@dataclass(eq=False)
class TrainingState:
    """What changes while the policy learns. Everything random follows from the seed and iteration.

    Attributes:
        weights: of the policy.
        optimizer: state of the optimizer.
        iteration: that comes next.
        best: weights that did best on validation cases.
        best_ratio: their score over that of the best single device, infinite before the first.
        best_iteration: when that was.
    """

    weights: Weights
    optimizer: Any
    iteration: int
    best: Weights
    best_ratio: float
    best_iteration: int


def save_state(path: Path, asked: dict[str, Any], state: TrainingState) -> None:
    """Writes all of it at once: a reader sees the state before or this one."""
    import jax

    arrays = {f"weights/{name}": array for name, array in state.weights.items()}
    arrays |= {f"best/{name}": array for name, array in state.best.items()}
    leaves = jax.tree.leaves(state.optimizer)
    arrays |= {f"optimizer/{n:02}": np.asarray(leaf) for n, leaf in enumerate(leaves)}
    numbers = {
        "asked": asked,
        "iteration": state.iteration,
        # JSON has no infinity.
        "best_ratio": state.best_ratio if np.isfinite(state.best_ratio) else None,
        "best_iteration": state.best_iteration,
    }
    save_with_card(path, arrays, json.dumps(numbers, sort_keys=True), lasting=True)


def load_state(path: Path, asked: dict[str, Any], fresh: TrainingState) -> TrainingState:
    """Reads a state.

    Args:
        path: of the file.
        asked: of this training, which must be that of the state.
        fresh: a state of the same shapes.

    Raises:
        CompileError: MCM-D067 if the file is damaged or of another training.
    """
    import jax

    leaves, shape = jax.tree.flatten(fresh.optimizer)
    try:
        numbers, arrays = read_with_card(path, _Numbers)
        if numbers.asked != asked:
            raise ValueError("it is of a training with other options or another seed")
        weights = {name: arrays[f"weights/{name}"] for name in fresh.weights}
        best = {name: arrays[f"best/{name}"] for name in fresh.weights}
        found = [arrays[f"optimizer/{n:02}"] for n in range(len(leaves))]
        for known in (weights, best):
            for name, array in fresh.weights.items():
                if (known[name].shape, known[name].dtype) != (array.shape, array.dtype):
                    raise ValueError("its weights have other shapes or types")
                if not np.isfinite(known[name]).all():
                    raise ValueError(f"its weight {name} is not finite")
        if [np.shape(leaf) for leaf in leaves] != [leaf.shape for leaf in found]:
            raise ValueError("its optimizer has other shapes")
        if numbers.iteration < 0:
            raise ValueError(f"it is of iteration {numbers.iteration}")
    except (OSError, ValueError, KeyError) as error:
        raise cannot_go_on(quote(str(error)), path) from error
    optimizer = jax.tree.unflatten(shape, [jax.numpy.asarray(leaf) for leaf in found])
    ratio = np.inf if numbers.best_ratio is None else numbers.best_ratio
    return TrainingState(weights, optimizer, numbers.iteration, best, ratio, numbers.best_iteration)


def cannot_go_on(why: str, place: Path, hint: str = ELSEWHERE) -> CompileError:
    """MCM-D067 of a file or folder."""
    return CompileError.of(
        "MCM-D067", f"the training cannot go on: {why}", at=quote(str(place)), hint=hint
    )
