"""The state of a training on disk, from which a later process goes on as if nothing had been."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from msgspec import Struct

from mcm_compiler.diagnostics import CompileError, quote
from mcm_models.cards import read_with_card, save_with_card
from mcm_models.policy.layout import PolicyLayout, Weights

OPTIMIZER = "optimizer/"
"""What the names of the optimizer's arrays begin with."""


class _Numbers(Struct, frozen=True):
    iterations: int
    checkpoints: int
    log_bytes: dict[str, int]


@dataclass(frozen=True, eq=False)
class TrainingState:
    """What a training is after some iterations.

    Everything random follows from the seed and the number of the iteration, so that no generator
    has to be kept.

    Attributes:
        iterations: that are done.
        checkpoints: that are written.
        log_bytes: lengths of the log files by name, as of these iterations.
        weights: of the policy.
        optimizer: arrays of the optimizer.
    """

    iterations: int
    checkpoints: int
    log_bytes: Mapping[str, int]
    weights: Weights
    optimizer: Weights

    def save(self, path: Path) -> None:
        """Writes it at once: a reader sees the state before or this one."""
        numbers = {
            "iterations": self.iterations,
            "checkpoints": self.checkpoints,
            "log_bytes": dict(self.log_bytes),
        }
        arrays = {**self.weights, **self.optimizer}
        save_with_card(path, arrays, json.dumps(numbers, sort_keys=True), lasting=True)

    @classmethod
    def load(cls, path: Path, layout: PolicyLayout) -> TrainingState:
        """Reads a state.

        Raises:
            CompileError: MCM-L009 if the file is damaged.
        """
        try:
            numbers, arrays = read_with_card(path, _Numbers)
            weights = {name: arrays[name] for name in layout.shapes()}
            optimizer = {k: v for k, v in arrays.items() if k.startswith(OPTIMIZER)}
            if not all(np.isfinite(array).all() for array in arrays.values()):
                raise ValueError("it holds numbers that are not finite")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CompileError.of(
                "MCM-L009",
                f"the state of the training is damaged: {quote(str(error))}",
                at=quote(str(path)),
            ) from error
        return cls(numbers.iterations, numbers.checkpoints, numbers.log_bytes, weights, optimizer)
