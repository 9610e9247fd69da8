"""The signals that placers learn from: standardised scores, and credit per device."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mcm_compiler.arrays.types import Floats, Ints
from mcm_compiler.contracts.boxes.evaluation import StepResults

Singles = npt.NDArray[np.float32]


def standardised(values: Floats) -> Floats:
    """Values minus their mean, in standard deviations; 0 where all are equal."""
    deviation = float(values.std())
    if deviation <= 1e-12 * max(1e-300, float(np.abs(values).max(initial=0.0))):
        return np.zeros_like(values)
    return (values - values.mean()) / deviation


def local_credit(devices: Ints, results: StepResults) -> Singles:
    """`[K, M]`, how little the device is loaded that each group went to, against other samples.

    A step's signal is one number for all choices. What a device has to do, its ops and the copies
    that leave it, is known per device. The credit is the negative of that, standardised, minus its
    mean over the samples of each group. It shows which choices put too much on one device (as for
    packages of chips, our derivation).

    Args:
        devices: `[K, M]`.
        results: of the same K placements.
    """
    load = np.take_along_axis(results.busy_s + results.copy_s, devices.astype(np.int64), axis=1)
    relief = standardised(-load)
    return (relief - relief.mean(axis=0)).astype(np.float32)
