"""GoogLeNet (Szegedy et al. 2015, table 1), the size that SET's program has built in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_models.graph_builder import Scope
from mcm_models.zoo.image_classifier import ImageClassifier
from mcm_models.zoo.layers.convolution_layers import (
    FeatureMaps,
    Window,
    concat,
    convolution,
    max_pool,
    pooled_classifier,
    relu,
)

STAGES = (
    ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)),
    (
        (192, 96, 208, 16, 48, 64),
        (160, 112, 224, 24, 64, 64),
        (128, 128, 256, 24, 64, 64),
        (112, 144, 288, 32, 64, 64),
        (256, 160, 320, 32, 128, 128),
    ),
    ((256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)),
)
"""Widths of the blocks of each image size: 1 x 1; 3 x 3 and what reduces before it; 5 x 5 likewise;
after the pool."""


@dataclass(frozen=True)
class GoogLeNet(ImageClassifier):
    """Nine blocks of four branches, without normalisation and auxiliary heads."""

    name: ClassVar[str] = "googlenet"
    summary: ClassVar[str] = "GoogLeNet, 7.0 M parameters: short parallel branches"

    def layers(self, root: Scope, maps: FeatureMaps) -> ir.Value:
        """See `ImageClassifier`."""
        maps = _conv(root.sub("conv1"), maps, 64, Window(7, 2, 3))
        maps = _halved(root.sub("pool1"), maps)
        maps = _conv(root.sub("conv2_reduce"), maps, 64, 1)
        maps = _conv(root.sub("conv2"), maps, 192, Window(3, 1, 1))
        for stage, blocks in enumerate(STAGES):
            maps = _halved(root.sub(f"pool{stage + 2}"), maps)
            for block, widths in enumerate(blocks):
                maps = _inception(root.sub(f"inception_{stage}_{block}"), maps, widths)
        return pooled_classifier(root, "fc", maps, self.classes)


def _inception(scope: Scope, maps: FeatureMaps, widths: tuple[int, ...]) -> FeatureMaps:
    single, reduce3, three, reduce5, five, pooled = widths
    branch3 = _conv(scope.sub("3x3_reduce"), maps, reduce3, 1)
    branch5 = _conv(scope.sub("5x5_reduce"), maps, reduce5, 1)
    pool = max_pool(scope.sub("pool"), maps, 3, 1, 1)
    return concat(
        scope,
        _conv(scope.sub("1x1"), maps, single, 1),
        _conv(scope.sub("3x3"), branch3, three, Window(3, 1, 1)),
        _conv(scope.sub("5x5"), branch5, five, Window(5, 1, 2)),
        _conv(scope.sub("pool_proj"), pool, pooled, 1),
    )


def _conv(scope: Scope, maps: FeatureMaps, width: int, window: Window | int) -> FeatureMaps:
    return relu(scope, convolution(scope, maps, width, window, bias=True))


def _halved(scope: Scope, maps: FeatureMaps) -> FeatureMaps:
    return max_pool(scope, maps, 3, 2, 1)
