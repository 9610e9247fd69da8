"""Bars: measured figures held against what the project promises."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

DISTRIBUTIONS = ("mcm-compiler", "numba", "numpy", "onnx", "onnx-ir", "onnxruntime")


@dataclass(frozen=True)
class Bar:
    """One promise and what was measured.

    Attributes:
        name: with the unit, such as `resnet50_compile_s`.
        value: median of the samples.
        bar: the promised figure.
        holds_when: which side of the bar is good.
        samples: all measured values in the order of measurement.
    """

    name: str
    value: float
    bar: float
    holds_when: Literal["below", "above"]
    samples: tuple[float, ...]

    @property
    def holds(self) -> bool:
        """Whether the promise is kept; a value equal to the bar does not keep it."""
        return self.value < self.bar if self.holds_when == "below" else self.value > self.bar

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "value": self.value,
            "bar": self.bar,
            "holds": self.holds,
            "holds_when": self.holds_when,
            "samples": list(self.samples),
        }


def median_bar(
    name: str, samples: Sequence[float], bar: float, holds_when: Literal["below", "above"] = "below"
) -> Bar:
    """A bar whose value is the median of `samples`.

    Raises:
        statistics.StatisticsError: if there are no samples.
    """
    return Bar(name, statistics.median(samples), bar, holds_when, tuple(samples))


def context() -> dict[str, Any]:
    """What the figures depend on besides the code: machine, interpreter and versions."""
    return {
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in DISTRIBUTIONS},
    }


def as_json(bars: Sequence[Bar], **details: Any) -> str:
    """One JSON object: `bars` by name, and `context` with `details` added."""
    data = {"bars": {bar.name: bar.to_dict() for bar in bars}, "context": context() | details}
    return json.dumps(data, indent=2)


def as_table(bars: Sequence[Bar]) -> str:
    """One line per bar for people."""
    width = max(len(bar.name) for bar in bars)
    return "\n".join(
        f"{bar.name:<{width}}  {bar.value:9.3f}  {'<' if bar.holds_when == 'below' else '>'} "
        f"{bar.bar:<7g} {'holds' if bar.holds else 'MISSED'}  "
        f"({len(bar.samples)} {'run' if len(bar.samples) == 1 else 'runs'}, "
        f"{min(bar.samples):.3f} to {max(bar.samples):.3f})"
        for bar in bars
    )
