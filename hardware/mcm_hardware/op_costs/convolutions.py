"""Convolutions, pooling and resampling.

Convolutions are matrix products over unrolled windows (im2col), one product per group. The others
take a lane operation per sample of a window or tap of an interpolation, by the definitions of the
ONNX standard (our derivation).
"""

from __future__ import annotations

import math
from functools import partial

from mcm_hardware.op_costs.node_shapes import NodeShapes
from mcm_hardware.op_costs.work import (
    POWER,
    REQUANTIZE,
    Gemm,
    Work,
    joined,
    moves_only,
    ops,
    per_input,
    per_result,
)

_NO_BIAS = 2**31
"""Input index that no op has."""

_BILINEAR = 8
"""Lane operations of one bilinear sample: four taps, weights shared by the channels."""


def _conv(weight: int, bias: int, per_result: int, node: NodeShapes) -> Work:
    """Chellapilla et al. 2006, section 3: rows are output pixels, columns output channels.

    Holds for channels-first and channels-last images: weights are `[M, C/group, kernel...]`.
    """
    dims = node.dims(weight)
    channels, k = (dims[0], math.prod(dims[1:])) if dims else (0, 0)
    groups = max(node.integer("group", 1), 1)
    rows = node.out_size() // channels if channels else 0
    lane_ops = (per_result + (1 if node.has(bias) else 0)) * node.out_size()
    return Work((Gemm(groups, rows, channels // groups, k),), lane_ops)


def _conv_transpose(bias: int, node: NodeShapes) -> Work:
    """One product makes all windows, then overlapping windows are added up (col2im).

    The transpose of the form of `_conv` (Dumoulin and Visin 2016, section 4).
    """
    dims = node.dims(1)
    if not dims:
        return Work()
    groups = max(node.integer("group", 1), 1)
    window = math.prod(dims[1:])
    pixels = node.size(0) // max(dims[0], 1)
    lane_ops = pixels * window * groups + (node.out_size() if node.has(bias) else 0)
    return Work((Gemm(groups, pixels, window, dims[0] // groups),), lane_ops)


def _deformable(node: NodeShapes) -> Work:
    """Every element of the unrolled windows is a bilinear sample (Dai et al. 2017, equation 3)."""
    dense = _conv(1, 3, 0, node)
    gemm = dense.gemms[0]
    return Work(dense.gemms, dense.lane_ops + _BILINEAR * gemm.count * gemm.m * gemm.k)


def _causal_depthwise(node: NodeShapes) -> Work:
    """A multiply-add per tap and a bias; a product per channel would leave the array idle."""
    return Work(lane_ops=(node.dim(1, -1) + 1) * node.out_size())


_TAPS = {"nearest": 1, "linear": 2, "bilinear": 2, "cubic": 4, "bicubic": 4}
"""Samples that an interpolation reads along each resized axis."""


def _window(per_sample: int, per_result: int, node: NodeShapes) -> Work:
    kernel = math.prod(node.integers("kernel_shape"))
    return Work(lane_ops=(per_sample * kernel + per_result) * node.out_size())


def _global(per_sample: int, per_result: int, node: NodeShapes) -> Work:
    return Work(lane_ops=per_sample * node.size(0) + per_result * node.out_size())


def _resize(node: NodeShapes) -> Work:
    """Separable interpolation: only axes whose extent changes are sampled."""
    before, after = node.dims(0), node.out_dims()
    resized = sum(x != y for x, y in zip(before, after, strict=False))
    taps = _TAPS.get(node.text("mode", "nearest"), 2) ** resized
    return Work(lane_ops=2 * taps * node.out_size() if taps > 1 else 0)


def _grid_sample(node: NodeShapes) -> Work:
    """A sample at free coordinates per output; coordinates are shared by the channels."""
    axes = max(len(node.dims(0)) - 2, 1)
    taps = _TAPS.get(node.text("mode", "linear"), 2) ** axes
    coordinates = node.size(1) * 4
    return Work(lane_ops=2 * taps * node.out_size() + coordinates)


def _region_align(node: NodeShapes) -> Work:
    # sampling_ratio 0 means adaptive; detectors make it 2 in effect.
    ratio = node.integer("sampling_ratio") or 2
    return Work(lane_ops=8 * ratio * ratio * node.out_size())


def _region_max(node: NodeShapes) -> Work:
    """Each region's bins together cover at most the whole map."""
    height, width = node.dim(0, -2), node.dim(0, -1)
    return Work(lane_ops=node.dim(1, 0) * node.dim(0, 1) * height * width)


def _affine_grid(node: NodeShapes) -> Work:
    axes = (node.out_dims() or (2,))[-1]
    return Work(lane_ops=(axes + 1) * node.out_size())


WINDOWS = joined(
    ops(_affine_grid, "AffineGrid"),
    ops(partial(_window, 1, 0), "MaxPool", "NhwcMaxPool"),
    ops(partial(_window, 1, 1), "AveragePool"),
    ops(partial(_window, 1, REQUANTIZE), "", "QLinearAveragePool"),
    ops(partial(_window, 2, 0), "", "MaxpoolWithMask"),
    ops(partial(_window, 2, POWER), "LpPool"),
    ops(partial(_global, 1, 0), "GlobalMaxPool"),
    ops(partial(_global, 1, 1), "GlobalAveragePool"),
    ops(partial(_global, 1, REQUANTIZE), "", "QLinearGlobalAveragePool"),
    ops(partial(_global, 2, POWER), "GlobalLpPool"),
    ops(_grid_sample, "GridSample", "GridSample"),
    ops(_region_max, "MaxRoiPool"),
    ops(_region_align, "RoiAlign"),
    ops(_resize, "Resize Upsample"),
    ops(per_result(8), "", "CropAndResize"),
    ops(moves_only, "MaxUnpool"),
)
"""Pooling and resampling."""

FORMULAS = joined(
    ops(partial(_conv, 1, 2, 0), "Conv", "NhwcConv"),
    ops(partial(_conv, 1, 2, 2), "", "FusedConv NhwcFusedConv"),
    ops(partial(_conv, 1, _NO_BIAS, 0), "ConvInteger"),
    ops(partial(_conv, 3, 8, REQUANTIZE), "QLinearConv", "QLinearConv"),
    ops(partial(_conv_transpose, 2), "ConvTranspose"),
    ops(partial(_conv_transpose, 3), "", "ConvTransposeWithDynamicPads"),
    ops(_deformable, "DeformConv"),
    ops(_causal_depthwise, "CausalConvWithState", "CausalConvWithState VarlenCausalConvWithState"),
    ops(per_input(1), "Col2Im"),
    WINDOWS,
)
"""Convolutions, pooling and resampling."""
