"""The state of a training on disk, from which a later process goes on as if nothing had been."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.processes.staging import write_whole
from mcm_models.policy.layout import PolicyLayout, Weights

OPTIMIZER = "optimizer/"
"""What the names of the optimizer's arrays begin with."""

_KEY = "mcm.training"


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
        from safetensors.numpy import save

        numbers = {
            "iterations": self.iterations,
            "checkpoints": self.checkpoints,
            "log_bytes": dict(self.log_bytes),
        }
        arrays = {**self.weights, **self.optimizer}
        data = save(
            # Not `ascontiguousarray`, which makes a row of the optimizer's scalar.
            {name: np.array(arrays[name], order="C") for name in sorted(arrays)},
            metadata={_KEY: json.dumps(numbers, sort_keys=True)},
        )
        write_whole(path, data, lasting=True)

    @classmethod
    def load(cls, path: Path, layout: PolicyLayout) -> TrainingState:
        """Reads a state.

        Raises:
            CompileError: MCM-L009 if the file is damaged.
        """
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, "numpy") as file:
                numbers = cast("dict[str, Any]", json.loads(file.metadata()[_KEY]))
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            log_bytes = {str(k): int(v) for k, v in numbers["log_bytes"].items()}
            weights = {name: arrays[name] for name in layout.shapes()}
            optimizer = {k: v for k, v in arrays.items() if k.startswith(OPTIMIZER)}
            if not all(np.isfinite(array).all() for array in arrays.values()):
                raise ValueError("it holds numbers that are not finite")
            return cls(
                int(numbers["iterations"]),
                int(numbers["checkpoints"]),
                log_bytes,
                weights,
                optimizer,
            )
        except (SafetensorError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CompileError(
                Diagnostic(
                    "MCM-L009",
                    f"the state of the training is damaged: {quote(str(error))}",
                    at=quote(str(path)),
                    hint="start the training again in another folder",
                )
            ) from error
