"""Blocks of random sizes, spread evenly over the logarithm of the cycles that they take."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from mcm_models.blocks.families import ffn_block, gemm_block, mha_block, mlp_block

FAMILIES = ("gemm", "mlp", "ffn", "mha")
"""Names of the families of blocks, after the published data set (LCM)."""

FEWEST_CYCLES, MOST_CYCLES = 50, 50_000
"""Between these lies what a block takes on the units that it is meant for, if it were balanced."""

_MACS_PER_CYCLE = 256
_STEP = 8
_WIDTHS = (16, 1024)
_ROWS = (16, 1024)
_MOST_ACTIVATIONS = 1 << 18
_MOST_SCORES = 1 << 18
_MOST_WEIGHTS = 1 << 21
_MOST_PRODUCTS, _LAYERS, _MOST_HEADS = 3, (2, 6), 4
_STAGES = {"ffn": 4, "mha": 7}


@dataclass(frozen=True, eq=False)
class Block:
    """A block, and on how much of a fabric it is to be laid out.

    Attributes:
        name: family and sizes, such as `mlp-r64-48-128-56`.
        family: of `FAMILIES`.
        model: complete, with shapes and weights.
        compute_units: for which its size was drawn.
    """

    name: str
    family: str
    model: ir.Model
    compute_units: int


def random_block(family: str, rng: np.random.Generator, most_units: int) -> Block:
    """A block whose size is drawn: cycles first, log-uniformly, then units, then its shape.

    Args:
        family: of `FAMILIES`.
        rng: draws; equal states give equal blocks.
        most_units: compute units that it may be meant for; at least 1.

    Raises:
        ValueError: for another family, or no units.
    """
    if family not in FAMILIES:
        raise ValueError(f"{family!r} is no family of blocks: {', '.join(FAMILIES)}")
    if most_units < 1:
        raise ValueError(f"a block for {most_units} compute units")
    cycles = _log_uniform(rng, FEWEST_CYCLES, MOST_CYCLES)
    parts = _parts(family, rng)
    fewest = min(max(parts, 2), most_units)
    units = int(rng.integers(fewest, most_units + 1))
    macs = cycles * units * _MACS_PER_CYCLE
    seed = int(rng.integers(2**31))
    if family == "gemm":
        rows, width, outputs = _gemm_sizes(rng, macs, parts)
        name = f"gemm-r{rows}-{width}x" + "-".join(map(str, outputs))
        model = gemm_block(name, rows, width, outputs, seed)
    elif family == "mlp":
        rows, widths = _mlp_sizes(rng, macs, parts)
        name = f"mlp-r{rows}-" + "-".join(map(str, widths))
        model = mlp_block(name, rows, widths, seed)
    elif family == "ffn":
        rows, width, inner = _ffn_sizes(rng, macs)
        name = f"ffn-r{rows}-{width}-{inner}"
        model = ffn_block(name, rows, width, inner, seed)
    else:
        rows, heads, head_width = _mha_sizes(rng, macs)
        name = f"mha-r{rows}-{heads}x{head_width}"
        model = mha_block(name, rows, heads, head_width, seed)
    return Block(name, family, model, units)


def _parts(family: str, rng: np.random.Generator) -> int:
    """Products side by side, layers, or stages that a block has at least."""
    if family == "gemm":
        return int(rng.integers(1, _MOST_PRODUCTS + 1))
    if family == "mlp":
        return int(rng.integers(_LAYERS[0], _LAYERS[1] + 1))
    return _STAGES[family]


def _gemm_sizes(rng: np.random.Generator, macs: float, count: int) -> tuple[int, int, list[int]]:
    rows = _rows(rng, macs / count)
    area = min(macs / count / rows, _MOST_WEIGHTS / count)
    ratio = _log_uniform(rng, 0.5, 2.0)
    mean = math.sqrt(area) / ratio
    outputs = [_width(mean * _log_uniform(rng, 0.5, 2.0), rows) for _ in range(count)]
    return rows, _width(math.sqrt(area) * ratio, rows), outputs


def _mlp_sizes(rng: np.random.Generator, macs: float, layers: int) -> tuple[int, list[int]]:
    rows = _rows(rng, macs / layers)
    mean = math.sqrt(min(macs / layers / rows, _MOST_WEIGHTS / layers))
    return rows, [_width(mean * _log_uniform(rng, 0.5, 2.0), rows) for _ in range(layers + 1)]


def _ffn_sizes(rng: np.random.Generator, macs: float) -> tuple[int, int, int]:
    rows = _rows(rng, macs / 2)
    area = min(macs / 2 / rows, _MOST_WEIGHTS / 2)
    ratio = _log_uniform(rng, 1.0, 4.0)
    return rows, _width(math.sqrt(area / ratio), rows), _width(math.sqrt(area * ratio), rows)


def _mha_sizes(rng: np.random.Generator, macs: float) -> tuple[int, int, int]:
    """Work is `4 rows width^2 + 2 rows^2 width`, with rows in proportion to the width."""
    heads = int(rng.integers(1, _MOST_HEADS + 1))
    ratio = _log_uniform(rng, 0.25, 4.0)
    width = (macs / (4 * ratio + 2 * ratio**2)) ** (1 / 3)
    rows = min(_near(width * ratio, *_ROWS), _near(math.sqrt(_MOST_SCORES / heads), *_ROWS))
    head_width = _near(width / heads, _STEP, _width(width, rows))
    return rows, heads, head_width


def _rows(rng: np.random.Generator, macs: float) -> int:
    """Rows of a product with so much work, so that its widths are not out of bounds."""
    least = max(macs / _WIDTHS[1] ** 2, _ROWS[0])
    most = min(macs / _WIDTHS[0] ** 2, _ROWS[1])
    return _near(_log_uniform(rng, least, max(most, least)), *_ROWS)


def _width(width: float, rows: int) -> int:
    return _near(width, _WIDTHS[0], min(_WIDTHS[1], _MOST_ACTIVATIONS // rows))


def _near(size: float, least: int, most: int) -> int:
    """The nearest multiple of a step within bounds."""
    return int(min(max(round(size / _STEP) * _STEP, least), max(most, least)))


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(math.exp(rng.uniform(math.log(low), math.log(high))))
