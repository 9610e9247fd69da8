"""Transformers in torch, small enough for a repository."""

# The exporters need not be installed where the project is checked.
# pyright: basic, reportMissingImports=false
from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTH = 32
HEADS = 4
VOCABULARY = 96
LONGEST = 24


class EagerAttention(nn.Module):
    """Attention written out as two products and a softmax, with an additive mask."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, WIDTH)
        self.value = nn.Linear(WIDTH, WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        def heads(y: Tensor) -> Tensor:
            return y.view(y.shape[0], y.shape[1], HEADS, WIDTH // HEADS).transpose(1, 2)

        query, key, value = heads(self.query(x)), heads(self.key(memory)), heads(self.value(memory))
        scores = query @ key.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5 + mask
        mixed = (scores.softmax(-1) @ value).transpose(1, 2)
        return self.output(mixed.reshape(x.shape[0], x.shape[1], WIDTH))


class EncoderLayer(nn.Module):
    """Post-norm attention and feed-forward, as in BERT."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = EagerAttention()
        self.attention_norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.attention_norm(x + self.attention(x, x, mask))
        return self.norm(x + self.down(functional.gelu(self.up(x))))


class Encoder(nn.Module):
    """A BERT-like encoder: two layers that read one mask chain; `[n, t]` to `[n, t, 32]`."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.types = nn.Embedding(2, WIDTH)
        self.positions = nn.Embedding(LONGEST, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.layers = nn.ModuleList(EncoderLayer() for _ in range(2))
        self.pooler = nn.Linear(WIDTH, WIDTH)

    def forward(self, tokens: Tensor, mask: Tensor, types: Tensor) -> tuple[Tensor, Tensor]:
        position = torch.arange(tokens.shape[1])
        x = self.norm(self.tokens(tokens) + self.types(types) + self.positions(position))
        bias = (1.0 - mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        for layer in self.layers:
            x = layer(x, bias)
        return x, torch.tanh(self.pooler(x[:, 0]))


class CausalLayer(nn.Module):
    """Pre-norm attention and feed-forward, as in GPT-2."""

    def __init__(self) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(WIDTH)
        self.attention = EagerAttention()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        y = self.attention_norm(x)
        x = x + self.attention(y, y, mask)
        return x + self.down(functional.gelu(self.up(self.norm(x)), approximate="tanh"))


class CausalDecoder(nn.Module):
    """A GPT-2-like decoder whose projection is its embedding; `[n, t]` to `[n, t, 96]`."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(LONGEST, WIDTH)
        self.layers = nn.ModuleList(CausalLayer() for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)
        self.projection = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.projection.weight = self.tokens.weight
        causal = torch.ones(LONGEST, LONGEST, dtype=torch.bool).tril()
        self.register_buffer("causal", causal)

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        x = self.tokens(tokens) + self.positions(torch.arange(length))
        visible = self.causal[:length, :length]
        mask = torch.zeros(length, length).masked_fill(~visible, -1e9)
        for layer in self.layers:
            x = layer(x, mask)
        return self.projection(self.norm(x))


class Translator(nn.Module):
    """torch's own encoder-decoder; feature sequences `[n, s, 32]` and `[n, t, 32]`."""

    def __init__(self) -> None:
        super().__init__()
        self.transformer = nn.Transformer(
            WIDTH, HEADS, 1, 1, 2 * WIDTH, dropout=0.0, batch_first=True
        )
        self.head = nn.Linear(WIDTH, 40)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.head(self.transformer(source, target)).log_softmax(-1)


class VisionTransformer(nn.Module):
    """Patches of 8 x 8, a class token, two layers; `[n, 3, 32, 32]` to `[n, 10]`."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 8, 8)
        self.token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.positions = nn.Parameter(torch.zeros(1, 17, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 2 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.ModuleList([layer, EncoderLayer()])
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, image: Tensor) -> Tensor:
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        x = self.layers[0](x)
        x = self.layers[1](x, torch.zeros(1, dtype=x.dtype))
        return self.head(x[:, 0])


class RotaryDecoder(nn.Module):
    """A Llama-like step with a cache of keys and values.

    RMS norms, rotary positions, grouped heads and a gated feed-forward; tokens `[n, t]` with
    `[n, 2, past, 8]` keys and values to logits and the longer cache.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.attention_norm = nn.RMSNorm(WIDTH)
        self.query = nn.Linear(WIDTH, WIDTH, bias=False)
        self.key = nn.Linear(WIDTH, WIDTH // 2, bias=False)
        self.value = nn.Linear(WIDTH, WIDTH // 2, bias=False)
        self.output = nn.Linear(WIDTH, WIDTH, bias=False)
        self.norm = nn.RMSNorm(WIDTH)
        self.gate = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        angle = torch.arange(64)[:, None] / 10_000 ** (torch.arange(4) / 4)
        self.register_buffer("cosine_fixed", torch.cat([angle, angle], -1).cos())
        self.register_buffer("sine_fixed", torch.cat([angle, angle], -1).sin())

    def rotate(self, x: Tensor, past: int) -> Tensor:
        """`x` turned by the angles of its positions, which begin at `past`."""
        first, second = x.chunk(2, -1)
        length = x.shape[2]
        cosine = self.cosine_fixed[past : past + length]
        sine = self.sine_fixed[past : past + length]
        return x * cosine + torch.cat([-second, first], -1) * sine

    def forward(self, tokens: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, ...]:
        batch, length = tokens.shape
        past = keys.shape[2]
        x = self.tokens(tokens)
        y = self.attention_norm(x)
        query = self.query(y).view(batch, length, 4, 8).transpose(1, 2)
        key = self.key(y).view(batch, length, 2, 8).transpose(1, 2)
        value = self.value(y).view(batch, length, 2, 8).transpose(1, 2)
        keys = torch.cat([keys, self.rotate(key, past)], 2)
        values = torch.cat([values, value], 2)
        mixed = functional.scaled_dot_product_attention(
            self.rotate(query, past), keys.repeat_interleave(2, 1), values.repeat_interleave(2, 1)
        )
        x = x + self.output(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        y = self.norm(x)
        x = x + self.down(functional.silu(self.gate(y)) * self.up(y))
        return self.head(x), keys, values
