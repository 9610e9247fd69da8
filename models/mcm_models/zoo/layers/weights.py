"""Seeded random weights that exist only while they are being written or read.

A weight's values depend on the seed and its own name alone, so they stay the same when other
layers come or go, and a tensor can be made without those before it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

_BLOCK_ELEMENTS = 1 << 16
"""Elements made at a time: small enough that scaling them hits the cache, not the memory bus."""


RELU_GAIN = math.sqrt(2.0 / (1.0 - 1.0 / math.pi))
"""Keeps the variance through a ReLU and a layer of centred weights (Brock et al. 2021, NFNets)."""


@dataclass(frozen=True)
class Uniform:
    """Values drawn uniformly from `[low, high)`.

    Attributes:
        low: the lower bound.
        high: the upper bound.
        centered: subtract the mean along all axes but the first, which are the output channels.
    """

    low: float
    high: float
    centered: bool = False


def spread(std: float) -> Uniform:
    """Zero mean and standard deviation `std`."""
    bound = std * math.sqrt(3.0)
    return Uniform(-bound, bound)


def around(center: float, distance: float) -> Uniform:
    """At most `distance` from `center`: for scales, shifts and statistics of normalisations."""
    return Uniform(center - distance, center + distance)


def keeps_variance(fan_in: int, gain: float = 1.0) -> Uniform:
    """Output variance is `gain**2` times the input's second moment (Glorot and Bengio 2010)."""
    return spread(gain / math.sqrt(fan_in))


def before_relu(fan_in: int) -> Uniform:
    """Makes up for the half that a ReLU cuts off (He et al. 2015, equation 10)."""
    return keeps_variance(fan_in, math.sqrt(2.0))


def after_relu(fan_in: int, gain: float = 1.0) -> Uniform:
    """Weights of mean zero per output channel, for inputs that are all positive.

    The mean that a ReLU leaves would otherwise grow from layer to layer until the outputs hardly
    tell one image from another (Brock et al. 2021, *Characterizing signal propagation*).
    """
    values = keeps_variance(fan_in, gain * RELU_GAIN)
    return Uniform(values.low, values.high, centered=True)


def random_tensor(name: str, shape: Sequence[int], values: Uniform, seed: int) -> ir.LazyTensor:
    """A float32 tensor that is generated anew at every access and never kept.

    Args:
        name: name of the weight; part of its random key.
        shape: its shape.
        values: the distribution.
        seed: the model's seed, `>= 0`.
    """

    def generate() -> ir.TensorProtocol:
        return ir.tensor(_generate(name, shape, values, seed), name=name)

    return ir.LazyTensor(generate, ir.DataType.FLOAT, ir.Shape(shape), cache=False, name=name)


def _generate(
    name: str, shape: Sequence[int], values: Uniform, seed: int
) -> npt.NDArray[np.float32]:
    # `hash()` of a string differs from process to process; this digest never does.
    digest = hashlib.blake2b(name.encode(), digest_size=16).digest()
    key = np.random.SeedSequence([seed, int.from_bytes(digest, "little")])
    rng = np.random.Generator(np.random.SFC64(key))
    flat = np.empty(math.prod(shape), dtype=np.float32)
    width, low = np.float32(values.high - values.low), np.float32(values.low)
    row_elements = flat.size // shape[0]
    block_elements = max(1, _BLOCK_ELEMENTS // row_elements) * row_elements
    for start in range(0, flat.size, block_elements):
        block = flat[start : start + block_elements]
        rng.random(out=block, dtype=np.float32)
        if values.centered:
            rows = block.reshape(-1, row_elements)
            # Multiples of 2**-24 add up exactly in float64, so the order, which differs between
            # processors, cannot change the bytes.
            rows -= rows.mean(axis=1, keepdims=True, dtype=np.float64).astype(np.float32)
            block *= width
        else:
            block *= width
            block += low
    return flat.reshape(tuple(shape))
