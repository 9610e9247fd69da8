"""Residual networks (He et al. 2016), with the groups of ResNeXt and the gates of SENet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import onnx_ir as ir

from mcm_models.zoo.image_classifier import WideningCnn
from mcm_models.zoo.layers.convolution_layers import pooled_classifier
from mcm_models.zoo.layers.feature_maps import (
    FeatureMaps,
    conv_bn,
    conv_bn_relu,
    relu,
    squeeze_excite,
    stage_widths,
)
from mcm_models.zoo.layers.graph_builder import Scope
from mcm_models.zoo.layers.option_checks import require_at_least

_EXPANSION = 4
_BRANCH_GAIN = 0.5
"""Keeps many residual branches from doubling the activations' variance each."""


@dataclass(frozen=True)
class ResidualCnn(WideningCnn):
    """Stages of residual blocks; the channels grow where the image is halved.

    A bottleneck block writes four times as many channels as `width` and `widen` tell.

    Attributes:
        block: `basic` has two such convolutions, `bottleneck` one between two of 1x1.
        groups: channel groups of a bottleneck's convolution (Xie et al. 2017, *Aggregated
            Residual Transformations*).
        gated: each branch ends in a squeeze-and-excitation gate (Hu et al. 2018).
    """

    name: ClassVar[str] = "residual-cnn"
    summary: ClassVar[str] = "residual network of any depth and width, also grouped or gated"
    blocks: int = 3
    block: Literal["basic", "bottleneck"] = "basic"
    groups: int = 1
    gated: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(1, groups=self.groups)
        for width in self._widths:
            if width % self.groups:
                raise ValueError(f"a width of {width} is not a multiple of groups={self.groups}")
        if self.groups > 1 and self.block == "basic":
            raise ValueError(f"groups={self.groups} needs block=bottleneck")

    @property
    def _widths(self) -> list[int]:
        return stage_widths(self.width, self.widen, self.stages)

    def layers(self, root: Scope, image: ir.Value) -> ir.Value:
        maps = conv_bn_relu(root.sub("stem"), FeatureMaps(image, 3), self.width, self.kernel)
        for stage, width in enumerate(self._widths):
            for block in range(self.blocks):
                scope = root.sub(f"layer{stage + 1}.{block}")
                stride = 2 if stage > 0 and block == 0 else 1
                maps = self._block(scope, maps, width, stride)
        return pooled_classifier(root, "fc", maps.value, maps.channels, self.classes)

    def _block(self, scope: Scope, maps: FeatureMaps, width: int, stride: int) -> FeatureMaps:
        branch = maps
        if self.block == "basic":
            branch = conv_bn_relu(scope.sub("0"), branch, width, self.kernel, stride=stride)
            branch = conv_bn(scope.sub("1"), branch, width, self.kernel, gain=_BRANCH_GAIN)
        else:
            branch = conv_bn_relu(scope.sub("0"), branch, width)
            branch = conv_bn_relu(
                scope.sub("1"), branch, width, self.kernel, stride=stride, groups=self.groups
            )
            branch = conv_bn(scope.sub("2"), branch, width * _EXPANSION, gain=_BRANCH_GAIN)
        if self.gated:
            branch = squeeze_excite(scope.sub("gate"), branch)
        if stride > 1 or maps.channels != branch.channels:
            maps = conv_bn(scope.sub("shortcut"), maps, branch.channels, stride=stride)
        joined = scope.op("Add", branch.value, maps.value)
        return relu(scope, FeatureMaps(joined, branch.channels))
