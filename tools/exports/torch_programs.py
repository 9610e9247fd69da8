"""torch modules with control flow, sequences, signal processing and detection."""

# The exporters need not be installed where the project is checked.
# pyright: basic, reportMissingImports=false
from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan
from torch.nn import functional


class EmbeddingBag(nn.Module):
    """Sums of embedded words with a weight for each; `[n, 5]` to `[n, 4]`."""

    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(50, 12, mode="sum")
        self.head = nn.Linear(12, 4)

    def forward(self, words: Tensor, weights: Tensor) -> Tensor:
        return self.head(self.bag(words, per_sample_weights=weights))


class BranchingClassifier(nn.Module):
    """Nested branches on the data, for `torch.jit.script`."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.first(x))
        if bool(y.sum() > 0):
            if bool(y.max() > 0.9):  # noqa: SIM108 - scripting keeps the statement as an If
                y = self.second(y) * 2.0
            else:
                y = torch.relu(self.second(x + y))
        else:
            y = self.first(y) - x
        return self.head(y)


class NewtonIteration(nn.Module):
    """A loop of as many steps as an input says, for `torch.jit.script`."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Linear(6, 6)

    def forward(self, x: Tensor, steps: Tensor) -> Tensor:
        y = torch.sigmoid(self.scale(x)) + 0.5
        root = y
        for _ in range(int(steps)):
            root = 0.5 * (root + y / root)
        return self.scale(root)


class SequenceRecurrence(nn.Module):
    """A recurrence that collects its states in a list, for `torch.jit.script`."""

    def __init__(self) -> None:
        super().__init__()
        self.step = nn.Linear(10, 10)
        self.head = nn.Linear(10, 2)

    def forward(self, frames: Tensor) -> Tensor:
        state = torch.zeros_like(frames[0])
        states: list[Tensor] = []
        for t in range(frames.size(0)):
            state = torch.tanh(self.step(frames[t] + state))
            states.append(self.head(state))
        return torch.stack(states)


class ChunkedMlp(nn.Module):
    """Splits its input into a list, treats the parts apart and joins them, for script."""

    def __init__(self) -> None:
        super().__init__()
        self.small = nn.Linear(4, 6)

    def forward(self, x: Tensor) -> Tensor:
        parts = torch.split(x, 4, 1)
        done: list[Tensor] = []
        for part in parts:
            done.append(torch.relu(self.small(part)))  # noqa: PERF401 - scripted as a Loop
        return torch.cat(done, 1)


class MelFrontEnd(nn.Module):
    """Short-time Fourier transform, mel filters, logarithm and a convolution; `[n, 1600]`."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window_fixed", torch.hann_window(128))
        edges = torch.linspace(0, 64, 18)
        bins = torch.arange(65.0)[:, None]
        rising = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
        falling = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
        self.register_buffer("filters_fixed", torch.minimum(rising, falling).clamp(min=0.0))
        self.convolution = nn.Conv1d(16, 12, 3, padding=1)

    def forward(self, audio: Tensor) -> Tensor:
        spectrum = torch.stft(
            audio, 128, 64, window=self.window_fixed, center=False, return_complex=False
        )
        power = spectrum.pow(2).sum(-1).transpose(1, 2)
        mel = torch.log(power @ self.filters_fixed + 1e-5)
        return functional.relu(self.convolution(mel.transpose(1, 2)))


class MatrixMelFrontEnd(nn.Module):
    """The same front end with the Fourier transform as a strided convolution."""

    def __init__(self) -> None:
        super().__init__()
        angle = 2 * math.pi / 64 * torch.arange(33.0)[:, None] * torch.arange(64.0)
        basis = torch.cat([angle.cos(), angle.sin()]) * torch.hann_window(64)
        self.register_buffer("basis_fixed", basis[:, None, :])
        self.mel = nn.Linear(33, 12)
        self.norm = nn.BatchNorm1d(12)

    def forward(self, audio: Tensor) -> Tensor:
        padded = functional.pad(audio[:, None, :], (32, 32), mode="reflect")
        real, imaginary = functional.conv1d(padded, self.basis_fixed, stride=32).chunk(2, 1)
        power = (real.square() + imaginary.square()).transpose(1, 2)
        return self.norm(torch.log1p(self.mel(power).abs()).transpose(1, 2))


class _Suppress(torch.autograd.Function):
    """NonMaxSuppression as a node; tracing sees the result of nothing suppressed."""

    @staticmethod
    def forward(_ctx: object, boxes: Tensor, scores: Tensor) -> Tensor:
        count = min(5, boxes.shape[1])
        batch = torch.zeros(count, dtype=torch.int64)
        chosen = scores[0, 0].topk(count).indices
        return torch.stack([batch, batch, chosen], 1)

    @staticmethod
    def symbolic(g: torch.Graph, boxes: torch.Value, scores: torch.Value) -> torch.Value:
        def constant(tensor: Tensor) -> torch.Value:
            return g.op("Constant", value_t=tensor)

        return g.op(
            "NonMaxSuppression",
            boxes,
            scores,
            constant(torch.tensor([5])),
            constant(torch.tensor([0.5])),
            constant(torch.tensor([0.3])),
        )


class Detector(nn.Module):
    """A single-shot head over 4 x 4 cells; `[1, 3, 32, 32]` to boxes, scores and labels."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 12, 3, 2, 1), nn.ReLU(),
            nn.Conv2d(12, 24, 3, 2, 1), nn.ReLU(),
            nn.Conv2d(24, 24, 3, 2, 1), nn.ReLU(),
        )  # fmt: skip
        self.boxes = nn.Conv2d(24, 4, 1)
        self.scores = nn.Conv2d(24, 3, 1)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        features = self.features(image)
        boxes = torch.sigmoid(4.0 * self.boxes(features)).flatten(2).transpose(1, 2)
        corner, size = boxes.split(2, -1)
        boxes = torch.cat([corner - size / 2, corner + size / 2], -1)
        scores = torch.sigmoid(4.0 * self.scores(features)).flatten(2)
        best, label = scores.max(1)
        kept = _Suppress.apply(boxes, best[:, None, :])[:, 2]
        return boxes[0][kept], best[0][kept], label[0][kept]


class ConditionalExpert(nn.Module):
    """One of two experts, chosen by the data with `torch.cond`."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(8, 1)
        self.wide = nn.Linear(8, 8)
        self.narrow = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        def wide(y: Tensor) -> Tensor:
            return torch.relu(self.wide(y))

        def narrow(y: Tensor) -> Tensor:
            return torch.tanh(self.narrow(y)) + y

        return torch.cond(self.gate(x).sum() > 0, wide, narrow, (x,)) * 0.5


class ScannedRecurrence(nn.Module):
    """A recurrence with torch's scan; frames `[t, n, 8]` and a state `[n, 8]`."""

    def __init__(self) -> None:
        super().__init__()
        self.step = nn.Linear(8, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, frames: Tensor, state: Tensor) -> Tensor:
        weight, bias = self.step.weight, self.step.bias

        def step(carry: Tensor, frame: Tensor) -> tuple[Tensor, Tensor]:
            following = torch.tanh((carry + frame) @ weight.t() + bias)
            return following, following * 0.5

        _, states = scan(step, state, frames)
        return self.head(states)


class Mixture(nn.Module):
    """A mixture of four experts with the best two weighted; `[n, 8]` to `[n, 8]`."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(8, 4)
        self.up = nn.Parameter(torch.zeros(4, 8, 16))
        self.down = nn.Parameter(torch.zeros(4, 16, 8))

    def forward(self, x: Tensor) -> Tensor:
        weight, index = self.gate(x).softmax(-1).topk(2, -1)
        dense = torch.zeros(x.shape[0], 4, dtype=x.dtype).scatter(1, index, weight)
        hidden = functional.gelu(torch.einsum("nd,edh->neh", x, self.up))
        return torch.einsum("neh,ehd,ne->nd", hidden, self.down, dense)


class HalfWeights(nn.Module):
    """Weights kept in bfloat16 and widened where they are used; `[n, 8]` to `[n, 3]`."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Parameter(torch.zeros(8, 24, dtype=torch.bfloat16))
        self.down = nn.Parameter(torch.zeros(24, 3, dtype=torch.bfloat16))

    def forward(self, x: Tensor) -> Tensor:
        hidden = functional.gelu(x @ self.up.float()).bfloat16()
        return hidden.float() @ self.down.float()


class SpectralMixer(nn.Module):
    """A Fourier-domain filter over a sequence; `[n, 16, 6]` to the same."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.zeros(9, 6))
        self.mix = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.fft.rfft(x, dim=1)
        power = spectrum.real.square() + spectrum.imag.square()
        return self.mix(torch.log1p(power) * self.gain)
