"""The contract of devices that run the models of chips, and time what they execute."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from mcm_compiler.registry import REGISTRIES, Registry


@dataclass(frozen=True)
class Profile:
    """One session of a model on a device.

    Attributes:
        seconds: computing time of one inference, without a profiler; not elapsed time.
        outputs: arrays by name, for each of the inputs.
        inferences: number of inferences that were timed.
        node_s: seconds of each executed node by name; empty where the device has no profiler.
        executed: ONNX model with these nodes, as the device changed it; weights may lack. None
            where the nodes are those of the model that was given.
    """

    seconds: float
    outputs: Sequence[Mapping[str, Any]]
    inferences: int
    node_s: Mapping[str, float] = field(default_factory=dict[str, float])
    executed: bytes | None = None


class MeasuringDevice(ABC):
    """A device that can be measured. It is asked in a process of its own, which may crash.

    Attributes:
        name: as the user types it.
        summary: one line.
    """

    name: ClassVar[str]
    summary: ClassVar[str]

    @abstractmethod
    def facts(self) -> Mapping[str, str | int]:
        """Facts that its times depend on: runtime and version, processor, threads."""

    @abstractmethod
    def profile(self, model: Path, inputs: Sequence[Mapping[str, Any]]) -> Profile:
        """Runs a model on each of the inputs, many times, and times its nodes.

        Args:
            model: an ONNX file.
            inputs: arrays by name.

        Raises:
            CompileError: if the device refuses the model.
        """

    def copy_bytes_per_s(self) -> float | None:
        """Rate at which one process hands tensors to another; None where it is unknown."""
        return None


DEVICES: Registry[type[MeasuringDevice]] = REGISTRIES["device"]
"""Devices by name."""
