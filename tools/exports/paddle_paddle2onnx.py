"""PaddlePaddle's own exporter, which is paddle2onnx."""

# The exporters need not be installed where the project is checked.
# pyright: basic, reportMissingImports=false
from __future__ import annotations

import contextlib
import io
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import paddle
from exports.export import Export
from paddle import nn
from paddle.nn import functional

EXPORTER = "paddle2onnx"
PACKAGES = ("paddlepaddle", "paddle2onnx")


class _Convolutions(nn.Layer):
    """Convolutions with batch normalisation; `[n, 1, 20, 20]` to `[n, 5]`."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2D(1, 8, 3, padding=1)
        self.norm = nn.BatchNorm2D(8)
        self.second = nn.Conv2D(8, 8, 3, stride=2, groups=8)
        self.head = nn.Linear(8, 5)

    def forward(self, image: paddle.Tensor) -> paddle.Tensor:
        x = functional.hardswish(self.norm(self.first(image)))
        x = functional.adaptive_avg_pool2d(functional.relu6(self.second(x)), 1)
        return functional.softmax(self.head(x.flatten(1)))


class _Recogniser(nn.Layer):
    """A convolution and a bidirectional LSTM; `[n, 3, 8, 24]` to `[n, 24, 11]`."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Conv2D(3, 6, (8, 3), padding=(0, 1))
        self.lstm = nn.LSTM(6, 9, direction="bidirect")
        self.head = nn.Linear(18, 11)

    def forward(self, image: paddle.Tensor) -> paddle.Tensor:
        x = functional.swish(self.features(image)).squeeze(2).transpose([0, 2, 1])
        return functional.log_softmax(self.head(self.lstm(x)[0]))


def _write(path: Path, layer: nn.Layer, shape: Sequence[int]) -> None:
    rng = np.random.default_rng(zlib.crc32(path.stem.encode()))
    layer.eval()
    for name, tensor in layer.state_dict().items():
        values = rng.standard_normal(tensor.shape) / max(tensor.shape) ** 0.5
        tensor.set_value((np.abs(values) + 0.5 if "var" in name else values).astype(np.float32))
    spec = paddle.static.InputSpec(list(shape), "float32", "image")
    with contextlib.redirect_stdout(io.StringIO()):
        paddle.onnx.export(layer, str(path.with_suffix("")), [spec], opset_version=13)


def _convolutions(path: Path) -> None:
    _write(path, _Convolutions(), [-1, 1, 20, 20])


def _recogniser(path: Path) -> None:
    _write(path, _Recogniser(), [2, 3, 8, 24])


def exports() -> list[Export]:
    """All models of this exporter."""
    return [
        Export("paddle_convolutions", "depthwise CNN, free batch without a name", _convolutions,
               shapes={"image": (2, 1, 20, 20)}, target="mcm4"),
        Export("paddle_recogniser", "convolution and bidirectional LSTM", _recogniser,
               target="mcm4"),
    ]  # fmt: skip
