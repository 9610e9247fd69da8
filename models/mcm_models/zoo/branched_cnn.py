"""Modules of parallel branches, after Inception (Szegedy et al. 2015, 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_models.zoo.image_classifier import ImageClassifier
from mcm_models.zoo.layers.convolution_layers import max_pool, pooled_classifier
from mcm_models.zoo.layers.feature_maps import FeatureMaps, concat, conv_bn_relu, halved
from mcm_models.zoo.layers.graph_builder import Scope
from mcm_models.zoo.layers.option_checks import require_at_least, require_odd


@dataclass(frozen=True)
class BranchedCnn(ImageClassifier):
    """Stages of modules; branch `b` of a module has `b` convolutions behind one of 1x1.

    The branches differ in depth, so that a cut through a module is a choice. One more branch
    pools its input.

    Attributes:
        stages: number of image sizes.
        blocks: modules of each stage.
        branches: branches of convolutions.
        width: channels of each branch in the first stage, doubled with each stage.
        kernel: extent of the kernels, odd.
    """

    name: ClassVar[str] = "branched-cnn"
    summary: ClassVar[str] = "modules of uneven parallel branches like Inception's"
    smallest_image: ClassVar[int] = 8

    image_size: int = 32
    stages: int = 3
    blocks: int = 2
    branches: int = 3
    width: int = 64
    kernel: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(
            1, stages=self.stages, blocks=self.blocks, branches=self.branches, width=self.width
        )
        require_at_least(2 ** (self.stages - 1), image_size=self.image_size)
        require_odd(kernel=self.kernel)

    def layers(self, root: Scope, image: ir.Value) -> ir.Value:
        maps = conv_bn_relu(root.sub("stem"), FeatureMaps(image, 3), self.width, self.kernel)
        for stage in range(self.stages):
            if stage > 0:
                maps = halved(root.sub(f"pool.{stage}"), maps)
            for block in range(self.blocks):
                maps = self._module(root.sub(f"mixed.{stage}.{block}"), maps, self.width << stage)
        return pooled_classifier(root, "fc", maps.value, maps.channels, self.classes)

    def _module(self, scope: Scope, maps: FeatureMaps, width: int) -> FeatureMaps:
        outputs: list[FeatureMaps] = []
        for branch in range(self.branches):
            layer = scope.sub(f"branch.{branch}")
            output = conv_bn_relu(layer.sub("0"), maps, width)
            for depth in range(branch):
                output = conv_bn_relu(layer.sub(f"{depth + 1}"), output, width, self.kernel)
            outputs.append(output)
        pooled = scope.sub("pooled")
        around = FeatureMaps(max_pool(pooled, maps.value, 3, 1, 1), maps.channels)
        outputs.append(conv_bn_relu(pooled, around, width))
        return concat(scope, *outputs)
