"""Blocks of random sizes, spread evenly over the logarithm of the cycles that they take.

The four families of blocks, of given sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from mcm_models.graph_builder import Attribute, GraphBuilder, Scope, around, declare, keeps_variance

_OPSET = 20
_IR_VERSION = 9


def _graph(name: str, seed: int, rows: int, width: int) -> tuple[Scope, ir.Value]:
    """A graph in the place of its root, and its only input."""
    graph = GraphBuilder(name, opset=_OPSET, ir_version=_IR_VERSION, seed=seed, shape_only=False)
    return graph.root, graph.input("x", ir.DataType.FLOAT, (rows, width))


def _finished(root: Scope, *outputs: ir.Value) -> ir.Model:
    for number, value in enumerate(outputs):
        root.graph.output(value, f"y{number}", ir.DataType.FLOAT, shape_of(value))
    return root.graph.model()


def shape_of(value: ir.Value) -> tuple[int, ...]:
    """The static shape of a value.

    Raises:
        ValueError: if it has none.
    """
    if value.shape is None:
        raise ValueError(f"{value.name} has no shape")
    return tuple(value.shape.numpy())


def _op(
    scope: Scope, shape: Sequence[int], op_type: str, *inputs: ir.Value, **given: Attribute
) -> ir.Value:
    """An op whose result has a given shape, in float32."""
    return declare(scope.op(op_type, *inputs, **given), ir.DataType.FLOAT, shape)


def _linear(scope: Scope, value: ir.Value, width: int) -> ir.Value:
    """A layer with bias on the last axis."""
    *rows, inner = shape_of(value)
    weight = scope.weight("weight", [inner, width], keeps_variance(inner))
    bias, shape = scope.bias(width), (*rows, width)
    return _op(scope, shape, "Add", _op(scope, shape, "MatMul", value, weight), bias)


def gemm_block(name: str, rows: int, width: int, outputs: Sequence[int], seed: int = 0) -> ir.Model:
    """Products side by side of one input, as the projections before an attention.

    Args:
        name: of the model.
        rows: of the input.
        width: of the input.
        outputs: width of each product's output.
        seed: of the weights.
    """
    root, value = _graph(name, seed, rows, width)
    made = [_linear(root.sub(f"gemm.{k}"), value, wide) for k, wide in enumerate(outputs)]
    return _finished(root, *made)


def mlp_block(name: str, rows: int, widths: Sequence[int], seed: int = 0) -> ir.Model:
    """Layers with ReLU between them.

    Args:
        name: of the model.
        rows: of the input.
        widths: of the input and of the output of each layer.
        seed: of the weights.
    """
    root, value = _graph(name, seed, rows, widths[0])
    for index, width in enumerate(widths[1:]):
        layer = root.sub(f"layer.{index}")
        if index:
            value = _op(layer, shape_of(value), "Relu", value)
        value = _linear(layer, value, width)
    return _finished(root, value)


def ffn_block(name: str, rows: int, width: int, inner: int, seed: int = 0) -> ir.Model:
    """The feed-forward half of a transformer's layer: up, Gelu, down, residual, normalisation.

    Args:
        name: of the model.
        rows: tokens.
        width: of the residual stream.
        inner: between the two layers.
        seed: of the weights.
    """
    root, value = _graph(name, seed, rows, width)
    down, norm = root.sub("down"), root.sub("norm")
    hidden = _op(root.sub("gelu"), (rows, inner), "Gelu", _linear(root.sub("up"), value, inner))
    total = _op(down, (rows, width), "Add", _linear(down, hidden, width), value)
    scale = norm.weight("weight", [width], around(1.0, 0.1))
    shift = norm.bias(width)
    made = _op(norm, (rows, width), "LayerNormalization", total, scale, shift, axis=-1)
    return _finished(root, made)


def mha_block(name: str, rows: int, heads: int, head_width: int, seed: int = 0) -> ir.Model:
    """The attention half: projections, scores, softmax, context, projection, residual.

    Args:
        name: of the model.
        rows: tokens.
        heads: of the attention.
        head_width: width of the residual stream over heads.
        seed: of the weights.
    """
    width, by_head = heads * head_width, (rows, heads, head_width)
    root, value = _graph(name, seed, rows, width)

    def projected(scope: Scope, *perm: int) -> ir.Value:
        made = _linear(scope, value, width)
        made = _op(scope, by_head, "Reshape", made, scope.ints(*by_head))
        return _op(scope, [by_head[axis] for axis in perm], "Transpose", made, perm=perm)

    query, key = projected(root.sub("query"), 1, 0, 2), projected(root.sub("key"), 1, 2, 0)
    table, scope = (heads, rows, rows), root.sub("scores")
    scores = _op(scope, table, "MatMul", query, key)
    scores = _op(scope, table, "Mul", scores, scope.floats(head_width**-0.5))
    scores = _op(root.sub("softmax"), table, "Softmax", scores, axis=-1)
    parts = projected(root.sub("value"), 1, 0, 2)
    scope = root.sub("context")
    context = _op(scope, (heads, rows, head_width), "MatMul", scores, parts)
    context = _op(scope, by_head, "Transpose", context, perm=[1, 0, 2])
    context = _op(scope, (rows, width), "Reshape", context, scope.ints(rows, width))
    scope = root.sub("output")
    made = _op(scope, (rows, width), "Add", _linear(scope, context, width), value)
    return _finished(root, made)


FAMILIES = ("gemm", "mlp", "ffn", "mha")
"""Names of the families of blocks, after the published data set (LCM)."""

FEWEST_CYCLES, MOST_CYCLES = 50, 50_000
"""Between these is what a block takes on the units that it is meant for, if it were balanced."""

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
