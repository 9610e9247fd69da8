"""Inception-v3 (Szegedy et al. 2016, *Rethinking the Inception Architecture*)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_models.graph_builder import Scope
from mcm_models.zoo.image_classifier import ImageClassifier
from mcm_models.zoo.layers.convolution_layers import (
    FeatureMaps,
    Pair,
    Window,
    batch_norm,
    concat,
    convolution,
    max_pool,
    pooled_classifier,
    relu,
)

_EPSILON = 1e-3


@dataclass(frozen=True)
class InceptionV3(ImageClassifier):
    """Blocks of parallel branches, as torchvision builds them, without the auxiliary head."""

    name: ClassVar[str] = "inception-v3"
    summary: ClassVar[str] = "Inception-v3, 23.8 M parameters: many short parallel branches"
    smallest_image: ClassVar[int] = 75

    image_size: int = 299

    def layers(self, root: Scope, maps: FeatureMaps) -> ir.Value:
        maps = _stem(root, maps)
        for name, pool_width in (("Mixed_5b", 32), ("Mixed_5c", 64), ("Mixed_5d", 64)):
            maps = _block_a(root.sub(name), maps, pool_width)
        maps = _block_b(root.sub("Mixed_6a"), maps)
        for name, width in (
            ("Mixed_6b", 128),
            ("Mixed_6c", 160),
            ("Mixed_6d", 160),
            ("Mixed_6e", 192),
        ):
            maps = _block_c(root.sub(name), maps, width)
        maps = _block_d(root.sub("Mixed_7a"), maps)
        for name in ("Mixed_7b", "Mixed_7c"):
            maps = _block_e(root.sub(name), maps)
        return pooled_classifier(root, "fc", maps, self.classes)


def _conv(
    scope: Scope, maps: FeatureMaps, width: int, kernel: Pair, *, stride: int = 1, padding: Pair = 0
) -> FeatureMaps:
    """Convolution, normalisation and ReLU: `BasicConv2d`."""
    maps = convolution(scope.sub("conv"), maps, width, Window(kernel, stride, padding))
    return relu(scope, batch_norm(scope.sub("bn"), maps, _EPSILON))


def _row(scope: Scope, maps: FeatureMaps, width: int, extent: int) -> FeatureMaps:
    return _conv(scope, maps, width, (1, extent), padding=(0, extent // 2))


def _column(scope: Scope, maps: FeatureMaps, width: int, extent: int) -> FeatureMaps:
    return _conv(scope, maps, width, (extent, 1), padding=(extent // 2, 0))


def _reduce(scope: Scope, maps: FeatureMaps) -> FeatureMaps:
    return max_pool(scope, maps, 3, 2)


def _pooled(scope: Scope, maps: FeatureMaps, width: int) -> FeatureMaps:
    average = scope.op(
        "AveragePool",
        maps.value,
        ceil_mode=0,
        count_include_pad=1,
        kernel_shape=[3, 3],
        pads=[1, 1, 1, 1],
        strides=[1, 1],
    )
    return _conv(scope.sub("branch_pool"), FeatureMaps(average, maps.channels), width, 1)


def _stem(root: Scope, maps: FeatureMaps) -> FeatureMaps:
    maps = _conv(root.sub("Conv2d_1a_3x3"), maps, 32, 3, stride=2)
    maps = _conv(root.sub("Conv2d_2a_3x3"), maps, 32, 3)
    maps = _conv(root.sub("Conv2d_2b_3x3"), maps, 64, 3, padding=1)
    maps = _reduce(root.sub("maxpool1"), maps)
    maps = _conv(root.sub("Conv2d_3b_1x1"), maps, 80, 1)
    maps = _conv(root.sub("Conv2d_4a_3x3"), maps, 192, 3)
    return _reduce(root.sub("maxpool2"), maps)


def _block_a(scope: Scope, maps: FeatureMaps, pool_width: int) -> FeatureMaps:
    single = _conv(scope.sub("branch1x1"), maps, 64, 1)
    five = _conv(scope.sub("branch5x5_1"), maps, 48, 1)
    five = _conv(scope.sub("branch5x5_2"), five, 64, 5, padding=2)
    double = _conv(scope.sub("branch3x3dbl_1"), maps, 64, 1)
    double = _conv(scope.sub("branch3x3dbl_2"), double, 96, 3, padding=1)
    double = _conv(scope.sub("branch3x3dbl_3"), double, 96, 3, padding=1)
    return concat(scope, single, five, double, _pooled(scope, maps, pool_width))


def _block_b(scope: Scope, maps: FeatureMaps) -> FeatureMaps:
    three = _conv(scope.sub("branch3x3"), maps, 384, 3, stride=2)
    double = _conv(scope.sub("branch3x3dbl_1"), maps, 64, 1)
    double = _conv(scope.sub("branch3x3dbl_2"), double, 96, 3, padding=1)
    double = _conv(scope.sub("branch3x3dbl_3"), double, 96, 3, stride=2)
    return concat(scope, three, double, _reduce(scope, maps))


def _block_c(scope: Scope, maps: FeatureMaps, width: int) -> FeatureMaps:
    single = _conv(scope.sub("branch1x1"), maps, 192, 1)
    seven = _conv(scope.sub("branch7x7_1"), maps, width, 1)
    seven = _row(scope.sub("branch7x7_2"), seven, width, 7)
    seven = _column(scope.sub("branch7x7_3"), seven, 192, 7)
    double = _conv(scope.sub("branch7x7dbl_1"), maps, width, 1)
    double = _column(scope.sub("branch7x7dbl_2"), double, width, 7)
    double = _row(scope.sub("branch7x7dbl_3"), double, width, 7)
    double = _column(scope.sub("branch7x7dbl_4"), double, width, 7)
    double = _row(scope.sub("branch7x7dbl_5"), double, 192, 7)
    return concat(scope, single, seven, double, _pooled(scope, maps, 192))


def _block_d(scope: Scope, maps: FeatureMaps) -> FeatureMaps:
    three = _conv(scope.sub("branch3x3_1"), maps, 192, 1)
    three = _conv(scope.sub("branch3x3_2"), three, 320, 3, stride=2)
    seven = _conv(scope.sub("branch7x7x3_1"), maps, 192, 1)
    seven = _row(scope.sub("branch7x7x3_2"), seven, 192, 7)
    seven = _column(scope.sub("branch7x7x3_3"), seven, 192, 7)
    seven = _conv(scope.sub("branch7x7x3_4"), seven, 192, 3, stride=2)
    return concat(scope, three, seven, _reduce(scope, maps))


def _block_e(scope: Scope, maps: FeatureMaps) -> FeatureMaps:
    single = _conv(scope.sub("branch1x1"), maps, 320, 1)
    three = _conv(scope.sub("branch3x3_1"), maps, 384, 1)
    three = concat(
        scope,
        _row(scope.sub("branch3x3_2a"), three, 384, 3),
        _column(scope.sub("branch3x3_2b"), three, 384, 3),
    )
    double = _conv(scope.sub("branch3x3dbl_1"), maps, 448, 1)
    double = _conv(scope.sub("branch3x3dbl_2"), double, 384, 3, padding=1)
    double = concat(
        scope,
        _row(scope.sub("branch3x3dbl_3a"), double, 384, 3),
        _column(scope.sub("branch3x3dbl_3b"), double, 384, 3),
    )
    return concat(scope, single, three, double, _pooled(scope, maps, 192))
