"""Networks side by side whose answers are averaged (multi-column: Ciresan et al. 2012)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_models.zoo.image_classifier import ImageClassifier
from mcm_models.zoo.layers.convolution_layers import pooled_classifier
from mcm_models.zoo.layers.feature_maps import FeatureMaps, conv_bn_relu, halved
from mcm_models.zoo.layers.graph_builder import Scope
from mcm_models.zoo.layers.option_checks import require_at_least, require_odd


@dataclass(frozen=True)
class EnsembleCnn(ImageClassifier):
    """Members read the same image and meet only at the end; their kernels alternate.

    Attributes:
        members: networks side by side.
        stages: number of image sizes.
        blocks: convolutions of each stage of each member.
        width: channels of the first stage, doubled with each stage.
        kernel: extent of the kernels of even members, odd; those of odd members are 2 larger.
    """

    name: ClassVar[str] = "ensemble-cnn"
    summary: ClassVar[str] = "several networks side by side whose logits are averaged"
    smallest_image: ClassVar[int] = 8

    image_size: int = 32
    members: int = 3
    stages: int = 3
    blocks: int = 3
    width: int = 64
    kernel: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(2, members=self.members)
        require_at_least(1, stages=self.stages, blocks=self.blocks, width=self.width)
        require_at_least(2 ** (self.stages - 1), image_size=self.image_size)
        require_odd(kernel=self.kernel)

    def layers(self, root: Scope, image: ir.Value) -> ir.Value:
        logits = [
            self._member(root.sub(f"member.{number}"), image, self.kernel + 2 * (number % 2))
            for number in range(self.members)
        ]
        return root.sub("average").op("Mean", *logits)

    def _member(self, scope: Scope, image: ir.Value, kernel: int) -> ir.Value:
        maps = FeatureMaps(image, 3)
        for stage in range(self.stages):
            if stage > 0:
                maps = halved(scope.sub(f"pool.{stage}"), maps)
            for block in range(self.blocks):
                layer = scope.sub(f"block.{stage}.{block}")
                maps = conv_bn_relu(layer, maps, self.width << stage, kernel)
        return pooled_classifier(scope, "fc", maps.value, maps.channels, self.classes)
