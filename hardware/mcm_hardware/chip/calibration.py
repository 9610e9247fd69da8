"""Constants of a roofline fitted to measured times of kernels.

A kernel takes a launch and the time of its slowest engine: `l + max(a, v, m)`. Each part has a
scale, found by robust least squares on logarithms of times (Huber's loss, Gauss-Newton steps as of
Levenberg and Marquardt). Scales that no kernel shows stay at
the common factor. Leaving kernels out decides whether scales or the common factor predict better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from mcm_compiler.contracts.cost import Calibration
from mcm_hardware.chip.kernel_work import kernel_work
from mcm_hardware.chip.roofline import Roofline
from mcm_hardware.op_costs.work import CONTROL_FLOW

Floats = NDArray[np.float64]

PARTS = ("launch", "array", "vector", "memory")
KEYS = {
    "chip.launch_overhead_ns": 1,
    "chip.mac_array.clock_mhz": -1,
    "chip.vector_unit.clock_mhz": -1,
    "chip.sram_bandwidth_gb_per_s": -1,
}
"""Keys of descriptions by the order of `PARTS`, and the power of a scale that they change by."""

LEAST_KERNELS = 3
"""Distinct kernels from which scales are fitted."""

MOST_FITS = 16
"""Fits that leave kernels out; of more distinct kernels several are left out at once."""

LEAST_GAIN = 1e-3
"""Share of the time by which scales have to predict kernels better than one factor does."""

_PRIOR = 3e-3
"""Pull towards the common factor, compared with all kernels together."""

_HUBER = 0.05
"""Logarithm of a ratio from which an error counts linearly."""

_STEPS = 40


@dataclass(frozen=True)
class _Samples:
    """Distinct kernels.

    Attributes:
        parts: `[kernels, 4]`, computed seconds in the order of `PARTS`.
        measured: `[kernels]`, seconds.
        shares: `[kernels]`, of all measured seconds.
        weights: `[kernels]`, in a fit: by the roots of the shares, so that small kernels show the
            launch and other numbers that large ones hide.
    """

    parts: Floats
    measured: Floats
    shares: Floats

    @property
    def weights(self) -> Floats:
        roots = np.sqrt(self.shares)
        return roots / roots.sum()

    def without(self, left_out: NDArray[np.bool_]) -> _Samples:
        shares = self.shares[~left_out]
        return _Samples(self.parts[~left_out], self.measured[~left_out], shares / shares.sum())


def calibration(
    own: object, measured: Sequence[tuple[Sequence[ir.Node], float]], factor: float
) -> Calibration:
    """The scales of a chip's constants, or the common factor where that predicts better.

    Args:
        own: the model that computes times; one that is no roofline keeps the factor.
        measured: kernels and their seconds.
        factor: median of measured times over computed ones.
    """
    samples = _samples(own, measured) if type(own) is Roofline else None
    if samples is None or len(samples.measured) < LEAST_KERNELS:
        return Calibration({"factor": factor})
    parts = _predicted(np.zeros(4), samples.parts)
    before = _error(parts, samples)
    by_factor, by_scales = _left_out(samples)
    if by_factor <= by_scales + LEAST_GAIN:
        after = _error(parts * factor, samples)
        options = {"factor": factor, "deviation": _rounded(by_factor)}
        scales = np.full(4, factor)
    else:
        scales = np.array([_rounded(s) for s in np.exp(_fit(samples, math.log(_ratio(samples))))])
        after = _error(_predicted(np.log(scales), samples.parts), samples)
        text = " ".join(f"{scale:g}" for scale in scales)
        options = {"scales": text, "deviation": _rounded(by_scales)}
    changes = {key: float(s**power) for (key, power), s in zip(KEYS.items(), scales, strict=True)}
    left_out = {"constants": by_scales, "factor": by_factor}
    return Calibration(options, changes, before, after, left_out, len(samples.measured))


def scaled(own: Roofline, scales: Sequence[float]) -> Roofline:
    """The same model of a chip whose launches and engines take times multiplied by scales."""
    launch, array, vector, memory = scales
    chip = own.chip
    chip = replace(
        chip,
        launch_s=chip.launch_s * launch,
        array=replace(chip.array, clock_hz=chip.array.clock_hz / array),
        vector=replace(chip.vector, clock_hz=chip.vector.clock_hz / vector),
        sram_bytes_per_s=chip.sram_bytes_per_s / memory,
    )
    return replace(own, chip=chip)


def _samples(own: Roofline, measured: Sequence[tuple[Sequence[ir.Node], float]]) -> _Samples | None:
    found: dict[tuple[float, ...], list[float]] = {}
    for nodes, seconds in measured:
        if seconds <= 0.0 or any((node.domain, node.op_type) in CONTROL_FLOW for node in nodes):
            continue
        work = kernel_work(nodes, own.chip.storage)
        if work.runs:
            busy = own.timing(own.chip, work)
            parts = (own.chip.launch_s, busy["array"], busy["vector"], busy["memory"])
            found.setdefault(parts, []).append(seconds)
    if not found:
        return None
    times = np.array([sum(each) / len(each) for each in found.values()], np.float64)
    totals = np.array([sum(each) for each in found.values()], np.float64)
    return _Samples(np.array(list(found)), times, totals / totals.sum())


def _left_out(samples: _Samples) -> tuple[float, float]:
    """Errors on kernels that a fit did not see: of the common factor, and of scales."""
    count = len(samples.measured)
    by_factor, by_scales = np.zeros(count), np.zeros(count)
    for fold in range(min(count, MOST_FITS)):
        out = np.arange(count) % MOST_FITS == fold
        rest = samples.without(out)
        start = math.log(_ratio(rest))
        parts = samples.parts[out]
        by_factor[out] = _predicted(np.full(4, start), parts)
        by_scales[out] = _predicted(_fit(rest, start), parts)
    return _error(by_factor, samples), _error(by_scales, samples)


def _error(predicted: Floats, samples: _Samples) -> float:
    """Share of the measured seconds by which predictions are off."""
    return float((samples.shares * np.abs(predicted / samples.measured - 1.0)).sum())


def _predicted(scales: Floats, parts: Floats) -> Floats:
    each: Floats = parts * np.exp(scales)
    slowest: Floats = each[:, 1:].max(axis=1)
    return each[:, 0] + slowest


def _ratio(samples: _Samples) -> float:
    """The weighted median of measured times over computed ones."""
    ratios = samples.measured / _predicted(np.zeros(4), samples.parts)
    order = np.argsort(ratios, kind="stable")
    reached = np.cumsum(samples.shares[order])
    return float(ratios[order[np.searchsorted(reached, 0.5 * reached[-1])]])


def _fit(samples: _Samples, start: float) -> Floats:
    """Logarithms of the scales.

    Args:
        samples: kernels.
        start: logarithm of the common factor.
    """
    scales: Floats = np.full(4, start)
    loss, damping = _loss(scales, samples, start), 1e-2
    rows = np.arange(len(samples.measured))
    for _ in range(_STEPS):
        each = samples.parts * np.exp(scales)
        slowest = 1 + each[:, 1:].argmax(axis=1)
        total = each[:, 0] + each[rows, slowest]
        slope = np.zeros_like(each)
        slope[:, 0] = each[:, 0] / total
        slope[rows, slowest] = each[rows, slowest] / total
        residual = np.log(total / samples.measured)
        weights = samples.weights * np.minimum(1.0, _HUBER / np.maximum(np.abs(residual), 1e-12))
        left = (slope * weights[:, None]).T @ slope + _PRIOR * np.eye(4)
        right = slope.T @ (weights * residual) + _PRIOR * (scales - start)
        step: Floats = np.linalg.solve(left + damping * np.eye(4), right).astype(np.float64)
        tried: Floats = np.clip(scales - step, start - math.log(100), start + math.log(100))
        if (reached := _loss(tried, samples, start)) < loss:
            small = loss - reached < 1e-9 * loss
            scales, loss, damping = tried, reached, damping / 4
            if small:
                break
        else:
            damping *= 8
            if damping > 1e6:
                break
    return scales


def _loss(scales: Floats, samples: _Samples, start: float) -> float:
    off = np.abs(np.log(_predicted(scales, samples.parts) / samples.measured))
    huber = np.where(off <= _HUBER, 0.5 * off**2, _HUBER * (off - 0.5 * _HUBER))
    prior = 0.5 * _PRIOR * ((scales - start) ** 2).sum()
    return float((samples.weights * huber).sum() + prior)


def _rounded(number: float) -> float:
    return float(f"{number:.4g}")
