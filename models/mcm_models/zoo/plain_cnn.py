"""Plain chains of convolutions, after VGG (Simonyan and Zisserman 2015)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_models.zoo.image_classifier import WideningCnn
from mcm_models.zoo.layers.convolution_layers import pooled_classifier
from mcm_models.zoo.layers.feature_maps import FeatureMaps, conv_bn_relu, halved, stage_widths
from mcm_models.zoo.layers.graph_builder import Scope


@dataclass(frozen=True)
class PlainCnn(WideningCnn):
    """Stages of equal convolutions, a block each; the channels grow where the image is halved."""

    name: ClassVar[str] = "plain-cnn"
    summary: ClassVar[str] = "plain chain of convolutions like VGG, of any depth and width"

    def layers(self, root: Scope, image: ir.Value) -> ir.Value:
        maps = FeatureMaps(image, 3)
        for stage, width in enumerate(stage_widths(self.width, self.widen, self.stages)):
            scope = root.sub(f"stage.{stage}")
            if stage > 0:
                maps = halved(scope.sub("pool"), maps)
            for block in range(self.blocks):
                layer = scope.sub(f"block.{block}")
                maps = conv_bn_relu(layer, maps, width, self.kernel)
        return pooled_classifier(root, "fc", maps.value, maps.channels, self.classes)
