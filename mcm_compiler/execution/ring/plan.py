"""Plans and results of a ring: plain data, in which a chip is known by its index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HOST = -1
"""Index of the process that feeds inputs and takes outputs."""

SLOTS = 4
"""Buffers of each tensor; its sender waits while all of them are full."""


@dataclass(frozen=True)
class RingTensor:
    """A tensor of fixed shape that travels.

    Attributes:
        name: at both ends.
        dtype: ONNX element type.
        shape: of each inference.
        source: index of the chip that makes it, or `HOST`.
        readers: indices of those that read it.
    """

    name: str
    dtype: int
    shape: tuple[int, ...]
    source: int
    readers: tuple[int, ...]


@dataclass(frozen=True)
class RingState:
    """A state that stays on its chip.

    Attributes:
        past: input of the chip's model.
        present: its output, the past of the next step.
        dtype: ONNX element type.
        present_shape: of the output.
        first: value before the first step.
    """

    past: str
    present: str
    dtype: int
    present_shape: tuple[int, ...]
    first: np.ndarray


@dataclass(frozen=True)
class RingChip:
    """One chip.

    Attributes:
        chip: its number in the package, for messages.
        file: its model.
        states: that stay on it.
    """

    chip: int
    file: Path
    states: tuple[RingState, ...] = ()


@dataclass(frozen=True)
class RingPlan:
    """A run of equal pipelines.

    Attributes:
        chips: of one pipeline.
        tensors: of one pipeline.
        rounds: inputs of successive rounds by tensor, or of successive steps of each sequence;
            after the last follows the first.
        cores: that chips are pinned to, in turn.
        replicas: pipelines; round i goes to pipeline i modulo this number.
        chips_each: chips of the package from one pipeline to the next.
        in_flight: rounds of a pipeline that have entered and not left.
        sequences: whose states a chip holds; round i of a pipeline is a step of sequence i modulo
            this number. 0 where no state stays on a chip.
        warm: rounds of each pipeline before those that are measured.
        block: rounds of a block of measurement.
        blocks: of each pipeline.
        patience_s: time without progress after which a run is ended.
    """

    chips: tuple[RingChip, ...]
    tensors: tuple[RingTensor, ...]
    rounds: tuple[Mapping[str, Any], ...]
    cores: tuple[int, ...]
    replicas: int = 1
    chips_each: int = 0
    in_flight: int = SLOTS
    sequences: int = 0
    warm: int = 2 * SLOTS
    block: int = 10 * SLOTS
    blocks: int = 3
    patience_s: float = 60.0

    @property
    def total(self) -> int:
        """Rounds of each pipeline."""
        return self.warm + self.block * self.blocks

    def chip_of(self, replica: int, index: int) -> int:
        """The chip of the package that a process runs."""
        return self.chips[index].chip + replica * self.chips_each

    def core_of(self, replica: int, index: int) -> int:
        """The core that a process is pinned to."""
        return self.cores[(replica * len(self.chips) + index) % len(self.cores)]

    def step_of(self, replica: int, i: int) -> tuple[int, int]:
        """Index of the inputs of a pipeline's round i, and its sequence."""
        if self.sequences:
            return i // self.sequences % len(self.rounds), i % self.sequences
        return (i * self.replicas + replica) % len(self.rounds), 0


@dataclass(frozen=True)
class RingFailure:
    """Why a run was ended.

    Attributes:
        chip: number in the package of the chip at fault, or None.
        why: how it ended, for a message.
        hangs: whether it neither ended nor made progress.
    """

    chip: int | None
    why: str
    hangs: bool = False


class RingFailedError(Exception):
    """Ends a run, with the reason."""

    def __init__(self, failure: RingFailure) -> None:
        super().__init__(failure.why)
        self.failure = failure


@dataclass(frozen=True, eq=False)
class RingResult:
    """Outputs and times of a run.

    Attributes:
        outputs: what reached the host, by tensor, for each of the plan's rounds. What stays on
            chips is what the last step of the first sequence left.
        cpu_s: `[replicas, chips, rounds]`, CPU seconds of a process at the end of each round.
        busy_s: of the same shape, CPU seconds in the chip's model during each round.
        left_s: `[replicas, rounds]`, when a round left its pipeline, on one clock.
        differing: rounds before those measured whose outputs were not those of the same inputs.
    """

    outputs: tuple[Mapping[str, Any], ...]
    cpu_s: np.ndarray
    busy_s: np.ndarray
    left_s: np.ndarray
    differing: int
