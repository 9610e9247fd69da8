"""What a training of the pipeline policy leaves on disk while it lasts, to go on from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from mcm_compiler.arrays.randomness import generator_words, set_generator
from mcm_compiler.diagnostics import CompileError, quote
from mcm_models.cards import read_with_card, save_with_card
from mcm_models.dqn.learner import Learner
from mcm_models.dqn.network import Singles

STATE_NAME = "state.safetensors"

MAX_BYTES = 1 << 28
"""Largest state that is read; the replay of the recipe `default` has 43 MB."""

LEARNER, CASES, BEST = "learner/", "cases", "best/"


class _Best(Struct, frozen=True):
    score: float | None
    iterations: int


def save_state(
    path: Path,
    learner: Learner,
    cases: np.random.Generator,
    best: tuple[dict[str, Singles], float, int],
) -> None:
    """Writes all of it at once: a reader sees the state before or this one.

    Args:
        path: of the file.
        learner: as it is.
        cases: what cases are drawn with.
        best: weights of the best checkpoint, their score, and gradient steps until it.
    """
    weights, score, iterations = best
    arrays: dict[str, NDArray[Any]] = {
        **{f"{LEARNER}{name}": array for name, array in learner.arrays().items()},
        **{f"{BEST}{name}": array for name, array in weights.items()},
        CASES: generator_words(cases),
    }
    # JSON has no infinity.
    card = {"score": score if np.isfinite(score) else None, "iterations": iterations}
    save_with_card(path, arrays, json.dumps(card, sort_keys=True), lasting=True)


def load_state(
    path: Path, learner: Learner, cases: np.random.Generator
) -> tuple[dict[str, Singles], float, int]:
    """Reads a state into a learner and a generator; the best checkpoint is returned.

    Raises:
        CompileError: MCM-L009 if the file is damaged.
    """
    try:
        card, arrays = read_with_card(path, _Best, MAX_BYTES)
        weights = {name: arrays[f"{BEST}{name}"] for name in learner.weights}
        for name, known in learner.weights.items():
            array = weights[name]
            if (array.shape, array.dtype) != (known.shape, known.dtype):
                raise ValueError(f"its best {name} has another shape or type")
            if not np.isfinite(array).all():
                raise ValueError(f"its best {name} is not finite")
        words = arrays[CASES]
        if words.shape != (6,) or words.dtype != np.uint64:
            raise ValueError(f"its {CASES} are no state of a generator")
        set_generator(cases, words)
        learner.take(
            {name[len(LEARNER) :]: a for name, a in arrays.items() if name.startswith(LEARNER)}
        )
    except (OSError, ValueError, KeyError) as error:
        raise CompileError.of(
            "MCM-L009",
            f"the state of the training is damaged: {quote(str(error))}",
            at=quote(str(path)),
        ) from error
    return weights, np.inf if card.score is None else card.score, card.iterations
