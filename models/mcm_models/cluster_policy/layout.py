"""The policy's shape: the names and shapes of its weights, and what it sees."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mcm_compiler.text.option_ranges import checked, from_to

Singles = npt.NDArray[np.float32]
Weights = dict[str, Singles]
"""Weights by name."""

FEATURES_VERSION = 1
"""Rises when a column changes its meaning."""

MAX_WIDTH = 1024
"""Of the hidden layers."""

COLUMNS = (
    "work of the cluster on the device",
    "work that the device has",
    "work of both above an equal share",
    "work of both above the most loaded other device",
    "work that both have at the same depth, more than there is time",
    "the same, more than on the best device",
    "share of the cluster's bytes that stay on the device",
    "copies to and from other devices",
    "the same, more than on the best device",
    "copies that leave the device",
    "variables of both, over memory",
    "values of both, over memory",
    "variables of both above memory",
    "speed, over that of the fastest device",
    "nothing is on the device yet",
    "the cluster before in order is on it",
    "second round",
    "the device that the cluster has from the first round",
    "equal share of work, over the critical path or that",
    "all copies, over the same",
    "one over the number of devices",
    "share of all work",
    "share of work that has no device yet",
    "logarithm of the number of clusters",
)
"""What is seen of a cluster and a device; times are over the longer of critical path and equal
share of work, so that models and boxes of all sizes look alike."""


@dataclass(frozen=True)
@checked(width=from_to(1, MAX_WIDTH))
class ClusterLayout:
    """Hyperparameters that decide which weights there are.

    Attributes:
        width: of both hidden layers.
        features_version: `FEATURES_VERSION` of what it reads.

    Raises:
        ValueError: if a number is out of range.
    """

    width: int = 32
    features_version: int = FEATURES_VERSION

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every weight; matrices are `[inputs, outputs]`."""
        return {
            "first": (len(COLUMNS), self.width),
            "first_bias": (self.width,),
            "second": (self.width, self.width),
            "second_bias": (self.width,),
            "linear": (len(COLUMNS), 1),
            "score": (self.width, 1),
        }


def initial_weights(layout: ClusterLayout, seed: int) -> Weights:
    """Random weights whose scores are near zero: every device is as likely at first."""
    rng = np.random.default_rng(seed)
    weights: Weights = {}
    for name, shape in layout.shapes().items():
        deviation = 0.01 if name in {"linear", "score"} else math.sqrt(2.0 / shape[0])
        if len(shape) == 1:
            deviation = 0.0
        weights[name] = (deviation * rng.standard_normal(shape)).astype(np.float32)
    return weights
