"""Pooling and resampling: windows and samples of images, on the vector unit.

One lane operation per sample of a window or tap of an interpolation, by the definitions of the
ONNX standard (our derivation).
"""

from __future__ import annotations

import math
from functools import partial

from mcm_hardware.op_costs.node_shapes import NodeShapes
from mcm_hardware.op_costs.work import POWER, REQUANTIZE, Work, joined, moves_only, ops, per_result

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


FORMULAS = joined(
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
