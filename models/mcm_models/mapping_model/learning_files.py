"""State of a training on disk, from which a later process continues to the same result."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import numpy as np
from msgspec import Struct

from mcm_compiler.diagnostics import CompileError, quote
from mcm_models.cards import read_with_card, save_with_card
from mcm_models.mapping_model.training import LearningState

MAX_BYTES = 1 << 23
"""Largest state that is read; weights and two moments of each."""


class _Numbers(Struct, frozen=True):
    epoch: int


def save_learning(path: Path, state: LearningState) -> None:
    """Writes all of it at once: a reader sees the state before or this one."""
    arrays = {f"weights/{name}": array for name, array in state.weights.items()}
    leaves = jax.tree.leaves(state.optimizer)
    arrays |= {f"optimizer/{n:03}": np.asarray(leaf) for n, leaf in enumerate(leaves)}
    save_with_card(path, arrays, json.dumps({"epoch": state.epoch}), lasting=True)


def load_learning(path: Path, fresh: LearningState) -> LearningState:
    """Reads a state.

    Args:
        path: of the file.
        fresh: a state of the same shapes.

    Raises:
        CompileError: MCM-M059 if the file is damaged or of another network.
    """
    leaves, shape = jax.tree.flatten(fresh.optimizer)
    try:
        numbers, arrays = read_with_card(path, _Numbers, MAX_BYTES)
        weights = {name: arrays[f"weights/{name}"] for name in fresh.weights}
        found = [arrays[f"optimizer/{n:03}"] for n in range(len(leaves))]
        shapes = [array.shape for array in fresh.weights.values()]
        shapes += [np.shape(leaf) for leaf in leaves]
        if [array.shape for array in (*weights.values(), *found)] != shapes:
            raise ValueError("its weights have other shapes")
    except (OSError, ValueError, KeyError) as error:
        raise CompileError.of(
            "MCM-M059", f"the training cannot go on: {quote(str(error))}", at=quote(str(path))
        ) from error
    optimizer = jax.tree.unflatten(shape, [jax.numpy.asarray(leaf) for leaf in found])
    return LearningState(weights, optimizer, numbers.epoch)
