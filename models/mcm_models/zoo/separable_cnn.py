"""Depthwise separable convolutions, after MobileNet (Howard et al. 2017, 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_models.zoo.image_classifier import WideningCnn
from mcm_models.zoo.layers.convolution_layers import pooled_classifier
from mcm_models.zoo.layers.feature_maps import (
    FeatureMaps,
    conv_bn,
    conv_bn_relu,
    depthwise,
    squeeze_excite,
    stage_widths,
)
from mcm_models.zoo.layers.graph_builder import Scope
from mcm_models.zoo.layers.option_checks import require_at_least
from mcm_models.zoo.layers.weights import RELU_GAIN

_BRANCH_GAIN = 0.5
"""Keeps many residual branches from doubling the activations' variance each."""


@dataclass(frozen=True)
class SeparableCnn(WideningCnn):
    """Stages of depthwise convolutions with 1x1 convolutions between them.

    With a `widen` of 2 the work of the 1x1 convolutions stays equal, with 4 that of the depthwise
    ones, whose extent `kernel` is.

    Attributes:
        expansion: 1 makes depthwise and 1x1 convolutions alternate (MobileNet); more makes
            inverted residuals with so many times the channels inside (Sandler et al. 2018).
        gated: a squeeze-and-excitation gate behind each depthwise convolution (MobileNetV3).
    """

    name: ClassVar[str] = "separable-cnn"
    summary: ClassVar[str] = "depthwise separable convolutions or inverted residuals"
    expansion: int = 1
    gated: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(1, expansion=self.expansion)

    def layers(self, root: Scope, image: ir.Value) -> ir.Value:
        maps = conv_bn_relu(root.sub("stem"), FeatureMaps(image, 3), self.width, 3)
        for stage, width in enumerate(stage_widths(self.width, self.widen, self.stages)):
            for block in range(self.blocks):
                scope = root.sub(f"stage.{stage}.{block}")
                stride = 2 if stage > 0 and block == 0 else 1
                make = self._separable if self.expansion == 1 else self._inverted_residual
                maps = make(scope, maps, width, stride)
        return pooled_classifier(root, "fc", maps.value, maps.channels, self.classes)

    def _spatial(self, scope: Scope, maps: FeatureMaps, stride: int) -> FeatureMaps:
        maps = depthwise(scope.sub("depthwise"), maps, self.kernel, stride)
        return squeeze_excite(scope.sub("gate"), maps) if self.gated else maps

    def _separable(self, scope: Scope, maps: FeatureMaps, width: int, stride: int) -> FeatureMaps:
        return conv_bn_relu(scope.sub("pointwise"), self._spatial(scope, maps, stride), width)

    def _inverted_residual(
        self, scope: Scope, maps: FeatureMaps, width: int, stride: int
    ) -> FeatureMaps:
        # The input had no ReLU that took away variance.
        inside = maps.channels * self.expansion
        branch = conv_bn_relu(scope.sub("expand"), maps, inside, gain=1.0 / RELU_GAIN)
        branch = self._spatial(scope, branch, stride)
        is_residual = stride == 1 and maps.channels == width
        gain = _BRANCH_GAIN if is_residual else 1.0
        branch = conv_bn(scope.sub("project"), branch, width, gain=gain)
        if not is_residual:
            return branch
        return FeatureMaps(scope.op("Add", maps.value, branch.value), width)
