"""Pooling and resampling: windows and samples of images, on the vector unit.

One lane operation per sample of a window or tap of an interpolation, by the definitions of the
ONNX standard (our derivation).
"""

from __future__ import annotations

import math
from functools import partial

from mcm_hardware.op_costs.node_shapes import NodeShapes
from mcm_hardware.op_costs.work import POWER, REQUANTIZE, Formula, Work, moves_only

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


def _crop_and_resize(node: NodeShapes) -> Work:
    return Work(lane_ops=8 * node.out_size())


def _affine_grid(node: NodeShapes) -> Work:
    axes = (node.out_dims() or (2,))[-1]
    return Work(lane_ops=(axes + 1) * node.out_size())


FORMULAS: dict[str, Formula] = {
    "AffineGrid": _affine_grid,
    "AveragePool": partial(_window, 1, 1),
    "GlobalAveragePool": partial(_global, 1, 1),
    "GlobalLpPool": partial(_global, 2, POWER),
    "GlobalMaxPool": partial(_global, 1, 0),
    "GridSample": _grid_sample,
    "LpPool": partial(_window, 2, POWER),
    "MaxPool": partial(_window, 1, 0),
    "MaxRoiPool": _region_max,
    "MaxUnpool": moves_only,
    "Resize": _resize,
    "RoiAlign": _region_align,
    "Upsample": _resize,
}
"""Pooling and resampling of the default domain."""

MICROSOFT_FORMULAS: dict[str, Formula] = {
    "CropAndResize": _crop_and_resize,
    "GridSample": _grid_sample,
    "MaxpoolWithMask": partial(_window, 2, 0),
    "NhwcMaxPool": partial(_window, 1, 0),
    "QLinearAveragePool": partial(_window, 1, REQUANTIZE),
    "QLinearGlobalAveragePool": partial(_global, 1, REQUANTIZE),
}
"""Pooling and resampling of `com.microsoft`."""
