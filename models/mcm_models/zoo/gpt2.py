"""GPT-2 (Radford et al. 2019, *Language Models are Unsupervised Multitask Learners*)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from mcm_models import graph_builder
from mcm_models.zoo.layers.decoder_caches import Cache, Caches

_EPSILON = 1e-5
_LOWEST = float(np.finfo(np.float32).min)
"""Score of a position that is ahead."""


@dataclass(frozen=True)
class Gpt2:
    """A decoder at opset 17, where a layer normalisation is one node.

    Linear layers are `Gemm` between two `Reshape`s, as the exporter writes GPT-2's `Conv1D`. The
    language-model head reads the token embedding itself through a `Gemm` with `transB`, so the
    two stay tied without a transposed copy. The defaults are those of the 124 M model.

    Attributes:
        layers: decoder layers.
        hidden: width of the residual stream; a multiple of `heads`.
        heads: attention heads.
        intermediate: width of the feed-forward layers.
        vocab: number of tokens.
        positions: rows of the position table, the longest sequence possible.
        seq: tokens per sequence.
        batch: sequences per inference.
        cache: take the keys and values of earlier tokens, and give them back with those of `seq`
            more: `past_key_values.N.key` and `.value` to `present.N.key` and `.value`.
        past: earlier tokens, with `cache`: 0 where a prompt is read first (prefill).
        seed: seed of the random weights.
        shape_only: leave out the weights' values.

    Raises:
        ValueError: if a number is out of range.
    """

    name: ClassVar[str] = "gpt2"
    summary: ClassVar[str] = "GPT-2, 124.4 M parameters: 12 causal layers, head tied to embedding"

    layers: int = 12
    hidden: int = 768
    heads: int = 12
    intermediate: int = 3072
    vocab: int = 50_257
    positions: int = 1024
    seq: int = 128
    batch: int = 1
    cache: bool = False
    past: int = 0
    seed: int = 0
    shape_only: bool = False

    def __post_init__(self) -> None:
        graph_builder.require_sizes(self, "past")
        graph_builder.require_heads_divide(self.hidden, self.heads)
        graph_builder.require_at_most(self.positions, "positions", seq=self.seq)
        if self.past and not self.cache:
            raise ValueError(f"past is {self.past}, and cache is false")
        if self.past + self.seq > self.positions:
            raise ValueError(
                f"past and seq are {self.past + self.seq} together, positions is {self.positions}"
            )

    def build(self) -> ir.Model:
        """Makes the model: `input_ids` `[batch, seq]` to `logits` `[batch, seq, vocab]`.

        With `cache` keys and values are `[batch, heads, past, hidden / heads]`, and come out with
        `past + seq` positions.
        """
        graph = graph_builder.GraphBuilder.of(self, 17)
        ids = graph.input("input_ids", ir.DataType.INT64, [self.batch, self.seq])
        width = self.hidden // self.heads
        caches = Caches(graph, self.layers, [self.batch, self.heads, self.past, width])
        earlier = caches.past() if self.cache else [None] * self.layers
        root = graph.root
        body = root.sub("transformer")

        # With this deviation the tied head gives logits of about unit variance.
        table = graph_builder.keeps_variance(self.hidden)
        tokens = body.sub("wte").weight("weight", [self.vocab, self.hidden], table)
        places = body.sub("wpe").weight("weight", [self.positions, self.hidden], table)
        until = self.past + self.seq
        numbers = np.arange(self.past, until, dtype=np.int64)[np.newaxis]
        numbers = body.table("position_ids", numbers)
        ahead = np.tri(self.seq, until, self.past, np.bool_)
        causal = body.table("causal_mask", ahead[np.newaxis, np.newaxis])
        hidden = body.op(
            "Add",
            body.sub("wte").op("Gather", tokens, ids),
            body.sub("wpe").op("Gather", places, numbers),
        )
        present: list[Cache] = []
        for layer, past in enumerate(earlier):
            hidden, cache = self._layer(body.sub(f"h.{layer}"), hidden, causal, past)
            present += [cache] if cache is not None else []
        hidden = self._layer_norm(body.sub("ln_f"), hidden)

        head = root.sub("lm_head")
        flat = head.op("Reshape", hidden, head.ints(-1, self.hidden))
        logits = head.op("Gemm", flat, tokens, alpha=1.0, beta=1.0, transB=1)
        extents = [self.batch, self.seq, self.vocab]
        logits = head.op("Reshape", logits, head.ints(*extents))
        graph.output(logits, "logits", ir.DataType.FLOAT, extents)
        caches.present(present, until)
        return graph.model()

    def _layer(
        self, scope: graph_builder.Scope, hidden: ir.Value, causal: ir.Value, past: Cache | None
    ) -> tuple[ir.Value, Cache | None]:
        """Pre-normalised attention and feed-forward; `hidden` is `[batch, seq, hidden]`."""
        # The paper scales the weights that write into the residual stream by its depth.
        residual_gain = 1.0 / math.sqrt(2 * self.layers)
        attention = scope.sub("attn")
        branch = self._layer_norm(scope.sub("ln_1"), hidden)
        branch, cache = self._attention(attention, branch, causal, past)
        branch = self._linear(
            attention.sub("c_proj"), branch, self.hidden, self.hidden, residual_gain
        )
        hidden = scope.op("Add", branch, hidden)

        mlp = scope.sub("mlp")
        branch = self._layer_norm(scope.sub("ln_2"), hidden)
        branch = self._linear(mlp.sub("c_fc"), branch, self.hidden, self.intermediate)
        branch = _gelu(mlp.sub("act"), branch)
        branch = self._linear(
            mlp.sub("c_proj"), branch, self.intermediate, self.hidden, residual_gain
        )
        return scope.op("Add", hidden, branch), cache

    def _attention(
        self, scope: graph_builder.Scope, hidden: ir.Value, causal: ir.Value, past: Cache | None
    ) -> tuple[ir.Value, Cache | None]:
        head_width = self.hidden // self.heads
        joined = self._linear(scope.sub("c_attn"), hidden, self.hidden, 3 * self.hidden)
        parts = scope.ops(3, "Split", joined, scope.ints(*[self.hidden] * 3), axis=2)
        # Without a cache a key is transposed for its product at once.
        key_order = [0, 2, 3, 1] if past is None else [0, 2, 1, 3]
        query, key, value = (
            scope.op(
                "Transpose",
                scope.op("Reshape", part, scope.ints(self.batch, self.seq, self.heads, head_width)),
                perm=perm,
            )
            for part, perm in zip(parts, ([0, 2, 1, 3], key_order, [0, 2, 1, 3]), strict=True)
        )
        cache = None
        if past is not None:
            key = scope.op("Concat", past[0], key, axis=2)
            value = scope.op("Concat", past[1], value, axis=2)
            cache = key, value
            key = scope.op("Transpose", key, perm=[0, 1, 3, 2])
        scores = scope.op("MatMul", query, key)
        scores = scope.op("Div", scores, scope.floats(math.sqrt(head_width)))
        scores = scope.op("Where", causal, scores, scope.floats(_LOWEST))
        scores = scope.op("Softmax", scores, axis=-1)
        context = scope.op("Transpose", scope.op("MatMul", scores, value), perm=[0, 2, 1, 3])
        joined = scope.op("Reshape", context, scope.ints(self.batch, self.seq, self.hidden))
        return joined, cache

    def _linear(
        self,
        scope: graph_builder.Scope,
        hidden: ir.Value,
        fan_in: int,
        fan_out: int,
        gain: float = 1.0,
    ) -> ir.Value:
        flat = scope.op("Reshape", hidden, scope.ints(-1, fan_in))
        weight = scope.weight(
            "weight", [fan_in, fan_out], graph_builder.keeps_variance(fan_in, gain)
        )
        bias = scope.bias(fan_out)
        flat = scope.op("Gemm", flat, weight, bias, alpha=1.0, beta=1.0)
        return scope.op("Reshape", flat, scope.ints(self.batch, self.seq, fan_out))

    def _layer_norm(self, scope: graph_builder.Scope, hidden: ir.Value) -> ir.Value:
        weight = scope.weight("weight", [self.hidden], graph_builder.around(1.0, 0.1))
        bias = scope.bias(self.hidden)
        return scope.op("LayerNormalization", hidden, weight, bias, axis=-1, epsilon=_EPSILON)


def _gelu(scope: graph_builder.Scope, hidden: ir.Value) -> ir.Value:
    """Gelu by its tanh approximation (Hendrycks and Gimpel 2016, section 2)."""
    cubed = scope.op("Mul", scope.op("Pow", hidden, scope.floats(3.0)), scope.floats(0.044715))
    inner = scope.op("Mul", scope.op("Add", hidden, cubed), scope.floats(math.sqrt(2 / math.pi)))
    gate = scope.op("Add", scope.op("Tanh", inner), scope.floats(1.0))
    return scope.op("Mul", scope.op("Mul", hidden, scope.floats(0.5)), gate)


@dataclass(frozen=True)
class Gpt2Tiny(Gpt2):
    """A size for tests; no published model."""

    name: ClassVar[str] = "gpt2-tiny"
    summary: ClassVar[str] = "GPT-2 for tests, 0.5 M parameters: 2 layers of width 128"

    layers: int = 2
    hidden: int = 128
    heads: int = 2
    intermediate: int = 512
    vocab: int = 1000
    positions: int = 128
    seq: int = 32
