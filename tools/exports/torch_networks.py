"""Vision and recurrent networks in torch, small enough for a repository."""

# The exporters need not be installed where the project is checked.
# pyright: basic, reportMissingImports=false
from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class LeNet(nn.Module):
    """Two convolutions with max pooling and three dense layers; `[n, 1, 28, 28]` to `[n, 10]`."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        )  # fmt: skip
        self.classifier = nn.Sequential(
            nn.Linear(400, 96), nn.ReLU(), nn.Linear(96, 48), nn.ReLU(), nn.Linear(48, 10)
        )

    def forward(self, image: Tensor) -> Tensor:
        return torch.log_softmax(self.classifier(self.features(image).flatten(1)), 1)


class ResidualBlock(nn.Module):
    """Two 3 x 3 convolutions with batch normalisation and a projected shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(outputs)
        self.shortcut = (
            nn.Identity()
            if stride == 1 and inputs == outputs
            else nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(self.second_norm(self.second(y)) + self.shortcut(x))


class ResNet(nn.Module):
    """Six residual blocks in three stages; `[n, 3, 32, 32]` to `[n, 10]`."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 1, 1)
        widths = [(8, 8, 1), (8, 8, 1), (8, 16, 2), (16, 16, 1), (16, 32, 2), (32, 32, 1)]
        self.blocks = nn.Sequential(*(ResidualBlock(*width) for width in widths))
        self.head = nn.Linear(32, 10)

    def forward(self, image: Tensor) -> Tensor:
        y = self.blocks(functional.relu(self.stem(image)))
        return self.head(functional.adaptive_avg_pool2d(y, 1).flatten(1))


class InvertedResidual(nn.Module):
    """Expansion, depthwise convolution, squeeze and excitation, projection."""

    def __init__(self, inputs: int, outputs: int, stride: int, activation: type[nn.Module]) -> None:
        super().__init__()
        wide = 4 * inputs
        self.expand = nn.Sequential(
            nn.Conv2d(inputs, wide, 1, bias=False), nn.BatchNorm2d(wide), activation()
        )
        self.depthwise = nn.Sequential(
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False),
            nn.BatchNorm2d(wide),
            activation(),
        )
        self.squeeze = nn.Conv2d(wide, inputs, 1)
        self.excite = nn.Conv2d(inputs, wide, 1)
        self.project = nn.Sequential(
            nn.Conv2d(wide, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        )
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y = self.depthwise(self.expand(x))
        scale = functional.relu(self.squeeze(functional.adaptive_avg_pool2d(y, 1)))
        y = self.project(y * functional.hardsigmoid(self.excite(scale)))
        return x + y if self.residual else y


class MobileNet(nn.Module):
    """Depthwise-separable blocks after MobileNetV3; `[n, 3, 32, 32]` to `[n, 10]`."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.Hardswish())
        self.blocks = nn.Sequential(
            InvertedResidual(8, 8, 1, nn.ReLU6),
            InvertedResidual(8, 16, 2, nn.ReLU6),
            InvertedResidual(16, 16, 1, nn.Hardswish),
            InvertedResidual(16, 24, 2, nn.Hardswish),
        )
        self.head = nn.Linear(24, 10)

    def forward(self, image: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(image)).mean((2, 3)))


class UNet(nn.Module):
    """Encoder and decoder with skip connections; `[n, 1, 32, 32]` to the same."""

    def __init__(self) -> None:
        super().__init__()
        self.down1 = nn.Conv2d(1, 8, 3, padding=1)
        self.down2 = nn.Conv2d(8, 16, 3, padding=1)
        self.bottom = nn.Conv2d(16, 24, 3, padding=1)
        self.norm = nn.GroupNorm(4, 24)
        self.widen = nn.ConvTranspose2d(24, 16, 2, 2)
        self.up2 = nn.Conv2d(32, 16, 3, padding=1)
        self.up1 = nn.Conv2d(24, 8, 3, padding=1)
        self.last = nn.Conv2d(8, 1, 1)

    def forward(self, image: Tensor) -> Tensor:
        first = functional.leaky_relu(self.down1(image), 0.1)
        second = functional.leaky_relu(self.down2(functional.max_pool2d(first, 2)), 0.1)
        y = functional.silu(self.norm(self.bottom(functional.avg_pool2d(second, 2))))
        y = functional.leaky_relu(self.up2(torch.cat([self.widen(y), second], 1)), 0.1)
        y = functional.interpolate(y, scale_factor=2.0, mode="bilinear", align_corners=False)
        y = functional.leaky_relu(self.up1(torch.cat([y, first], 1)), 0.1)
        return torch.sigmoid(self.last(y))


class Generator(nn.Module):
    """A DCGAN generator; noise `[n, 16]` to images `[n, 3, 32, 32]`."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.ConvTranspose2d(16, 32, 4), nn.BatchNorm2d(32), nn.ReLU(),
            nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.InstanceNorm2d(8, affine=True), nn.ReLU(),
            nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Tanh(),
        )  # fmt: skip

    def forward(self, noise: Tensor) -> Tensor:
        return self.layers(noise[:, :, None, None])


class SuperResolution(nn.Module):
    """Sub-pixel convolution network; `[n, 1, h, w]` to `[n, 1, 3 h, 3 w]`."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 24, 5, padding=2)
        self.second = nn.Conv2d(24, 16, 3, padding=1)
        self.third = nn.Conv2d(16, 9, 3, padding=1)

    def forward(self, image: Tensor) -> Tensor:
        y = functional.relu(self.second(functional.relu(self.first(image))))
        y = functional.pixel_shuffle(self.third(y), 3)
        return y + functional.interpolate(image, scale_factor=3, mode="nearest")


class LanguageLstm(nn.Module):
    """A two-layer LSTM language model; tokens `[n, t]` and states to logits and states."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(64, 24)
        self.lstm = nn.LSTM(24, 32, 2, batch_first=True)
        self.decoder = nn.Linear(32, 64)

    def forward(self, tokens: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, ...]:
        y, (hidden, cell) = self.lstm(self.embedding(tokens), (hidden, cell))
        return self.decoder(y), hidden, cell


class BidirectionalGru(nn.Module):
    """A tagger over feature vectors `[t, n, 12]`, with both directions concatenated."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(12, 20, 2, bidirectional=True)
        self.tag = nn.Linear(40, 7)

    def forward(self, frames: Tensor) -> tuple[Tensor, Tensor]:
        y, state = self.gru(frames)
        return self.tag(y).argmax(-1), state


class BidirectionalRnn(nn.Module):
    """A plain tanh RNN in both directions with a max over time; `[n, t, 8]` to `[n, 3]`."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.RNN(8, 16, bidirectional=True, batch_first=True)
        self.head = nn.Linear(32, 3)

    def forward(self, frames: Tensor) -> Tensor:
        y, _ = self.rnn(frames)
        return self.head(y.amax(1))


class GraphNetwork(nn.Module):
    """Two rounds of message passing: gather along edges, scatter-add to nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(6, 16)
        self.message = nn.Linear(32, 16)
        self.update = nn.GRUCell(16, 16)
        self.head = nn.Linear(16, 2)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        state = torch.tanh(self.encode(nodes))
        for _ in range(2):
            pair = torch.cat([state[edges[0]], state[edges[1]]], -1)
            message = functional.elu(self.message(pair))
            target = edges[1][:, None].expand_as(message)
            state = self.update(torch.zeros_like(state).scatter_add(0, target, message), state)
        return self.head(state)
