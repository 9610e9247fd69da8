"""Plain chains of convolutions, after VGG (Simonyan and Zisserman 2015)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_models.zoo.image_classifier import ImageClassifier
from mcm_models.zoo.layers.convolution_layers import pooled_classifier
from mcm_models.zoo.layers.feature_maps import FeatureMaps, conv_bn_relu, halved, stage_widths
from mcm_models.zoo.layers.graph_builder import Scope
from mcm_models.zoo.layers.option_checks import require_at_least, require_factor, require_odd


@dataclass(frozen=True)
class PlainCnn(ImageClassifier):
    """Stages of equal convolutions; the channels grow where the image is halved.

    Attributes:
        stages: number of image sizes.
        blocks: convolutions of each stage.
        width: channels of the first stage.
        widen: by how much the channels of a stage exceed those of the one before; 2 keeps the work
            of all convolutions equal.
        kernel: extent of the kernels, odd.
    """

    name: ClassVar[str] = "plain-cnn"
    summary: ClassVar[str] = "plain chain of convolutions like VGG, of any depth and width"
    smallest_image: ClassVar[int] = 8

    image_size: int = 64
    stages: int = 4
    blocks: int = 4
    width: int = 64
    widen: float = 2.0
    kernel: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(1, stages=self.stages, blocks=self.blocks, width=self.width)
        require_at_least(2 ** (self.stages - 1), image_size=self.image_size)
        require_factor(widen=self.widen)
        require_odd(kernel=self.kernel)

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
