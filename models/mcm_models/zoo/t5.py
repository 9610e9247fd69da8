"""T5 (Raffel et al. 2020): its sublayers, the buckets of its relative positions, its sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from mcm_models.graph_builder import (
    GraphBuilder,
    Scope,
    Uniform,
    around,
    before_relu,
    keeps_variance,
    require_at_least,
    require_sizes,
    spread,
)


def relative_bucket(
    seq: int, buckets: int, max_distance: int, *, bidirectional: bool
) -> npt.NDArray[np.int64]:
    """Number of the bucket of each pair of positions.

    Half of a direction's buckets hold one distance each, the others grow logarithmically up to
    `max_distance` (Raffel et al. 2020, section 2.1; formula of the released code).

    Args:
        seq: positions.
        buckets: how many there are.
        max_distance: distances from here on share the last bucket.
        bidirectional: later keys have buckets of their own; otherwise they share bucket 0.

    Returns:
        `[seq, seq]`: query, key.
    """
    places = np.arange(seq)
    ahead = places[np.newaxis, :] - places[:, np.newaxis]
    if bidirectional:
        buckets //= 2
        first = np.where(ahead > 0, buckets, 0)
        distance = np.abs(ahead)
    else:
        first = np.zeros_like(ahead)
        distance = np.maximum(-ahead, 0)
    exact = buckets // 2
    # Short distances take the other branch; the maximum keeps their logarithm finite.
    growth = np.log(np.maximum(distance, exact) / exact) / math.log(max_distance / exact)
    coarse = np.minimum(exact + (growth * (buckets - exact)).astype(np.int64), buckets - 1)
    return (first + np.where(distance < exact, distance, coarse)).astype(np.int64)


_EPSILON = 1e-6


def rms_norm(scope: Scope, hidden: ir.Value, width: int) -> ir.Value:
    """Division by the root mean square over the last axis (Zhang and Sennrich 2019)."""
    squared = scope.op("Pow", hidden, scope.floats(2.0))
    mean = scope.op("ReduceMean", squared, axes=[-1])
    root = scope.op("Sqrt", scope.op("Add", mean, scope.floats(_EPSILON)))
    # The exporter writes a reciprocal square root as a division of one.
    inverse = scope.op("Div", scope.floats(1.0), root)
    normal = scope.op("Mul", hidden, inverse)
    return scope.op("Mul", scope.weight("weight", [width], around(1.0, 0.1)), normal)


def _linear(scope: Scope, hidden: ir.Value, fan_in: int, fan_out: int, values: Uniform) -> ir.Value:
    return scope.op("MatMul", hidden, scope.weight("weight", [fan_in, fan_out], values))


_LOWEST = float(np.finfo(np.float32).min)
"""Term on the score of a position that may not be read."""


@dataclass(frozen=True)
class T5:
    """Encoder and decoder in one forward graph at opset 17, of the first T5 (ReLU, tied head).

    The position bias of the first layer, joined with the mask, is read by all layers of its
    stack. The head reads the token embedding itself through a `Gemm` with `transB`, so the two
    stay tied without a transposed copy. The defaults are those of T5-base.

    Attributes:
        layers: encoder layers.
        decoder_layers: decoder layers.
        hidden: width of the residual stream (`d_model`).
        heads: attention heads.
        head_width: width of a head (`d_kv`); `heads * head_width` need not be `hidden`.
        intermediate: width of the feed-forward layers (`d_ff`).
        vocab: number of tokens.
        buckets: rows of each relative-position table, at least 4 and even.
        max_distance: distance from which on all positions share a bucket.
        seq: tokens that the encoder reads.
        decoder_seq: tokens that the decoder reads.
        batch: pairs of sequences per inference.
        seed: seed of the random weights.
        shape_only: leave out the weights' values.

    Raises:
        ValueError: if a number is out of range.
    """

    name: ClassVar[str] = "t5"
    summary: ClassVar[str] = "T5 of any size, encoder and decoder (default: T5-base)"

    layers: int = 12
    decoder_layers: int = 12
    hidden: int = 768
    heads: int = 12
    head_width: int = 64
    intermediate: int = 3072
    vocab: int = 32_128
    buckets: int = 32
    max_distance: int = 128
    seq: int = 128
    decoder_seq: int = 128
    batch: int = 1
    seed: int = 0
    shape_only: bool = False

    def __post_init__(self) -> None:
        require_sizes(self)
        require_at_least(4, self, "buckets")
        if self.buckets % 2:
            raise ValueError(f"buckets={self.buckets} is odd; half of them are for each direction")
        require_at_least(self.buckets, self, "max_distance")

    def build(self) -> ir.Model:
        """Makes the model.

        Inputs are `input_ids` and `attention_mask` (1 for a token, 0 for padding), int64
        `[batch, seq]`, and `decoder_input_ids`, int64 `[batch, decoder_seq]`. The output is
        `logits` `[batch, decoder_seq, vocab]`.
        """
        graph = GraphBuilder.of(self, 17)
        source = [self.batch, self.seq]
        target = [self.batch, self.decoder_seq]
        ids = graph.input("input_ids", ir.DataType.INT64, source)
        mask = graph.input("attention_mask", ir.DataType.INT64, source)
        decoder_ids = graph.input("decoder_input_ids", ir.DataType.INT64, target)

        root = graph.root
        tokens = root.sub("shared").weight("weight", [self.vocab, self.hidden], spread(1.0))
        padding = padding_scores(root.sub("encoder"), mask)
        encoded = self._encoder(root.sub("encoder"), tokens, ids, padding)
        decoded = self._decoder(root.sub("decoder"), tokens, decoder_ids, encoded, padding)

        logits = self._head(root, decoded, tokens)
        graph.output(logits, "logits", ir.DataType.FLOAT, [*target, self.vocab])
        return graph.model()

    def _head(self, root: Scope, decoded: ir.Value, tokens: ir.Value) -> ir.Value:
        # A tied head of unit variance would give logits of variance `hidden`.
        scaled = root.op("Mul", decoded, root.floats(self.hidden**-0.5))
        head = root.sub("lm_head")
        flat = head.op("Reshape", scaled, head.ints(-1, self.hidden))
        logits = head.op("Gemm", flat, tokens, alpha=1.0, beta=1.0, transB=1)
        return head.op("Reshape", logits, head.ints(self.batch, self.decoder_seq, self.vocab))

    def _encoder(
        self, scope: Scope, tokens: ir.Value, ids: ir.Value, padding: ir.Value
    ) -> ir.Value:
        hidden = scope.sub("embed_tokens").op("Gather", tokens, ids)
        first = scope.sub("block.0.layer.0.SelfAttention")
        position = self._position_bias(first, self.seq, bidirectional=True)
        bias = first.op("Add", position, padding)
        for layer in range(self.layers):
            block = scope.sub(f"block.{layer}")
            hidden = self._attention(block.sub("layer.0"), hidden, bias, self.seq)
            hidden = self._feed_forward(block.sub("layer.1"), hidden)
        return rms_norm(scope.sub("final_layer_norm"), hidden, self.hidden)

    def _decoder(
        self, scope: Scope, tokens: ir.Value, ids: ir.Value, encoded: ir.Value, padding: ir.Value
    ) -> ir.Value:
        hidden = scope.sub("embed_tokens").op("Gather", tokens, ids)
        causal = self._causal_scores(scope)
        first = scope.sub("block.0.layer.0.SelfAttention")
        position = self._position_bias(first, self.decoder_seq, bidirectional=False)
        bias = first.op("Add", position, causal)
        for layer in range(self.decoder_layers):
            block = scope.sub(f"block.{layer}")
            hidden = self._attention(block.sub("layer.0"), hidden, bias, self.decoder_seq)
            hidden = self._attention(
                block.sub("layer.1"), hidden, padding, self.decoder_seq, encoded
            )
            hidden = self._feed_forward(block.sub("layer.2"), hidden)
        return rms_norm(scope.sub("final_layer_norm"), hidden, self.hidden)

    def _causal_scores(self, scope: Scope) -> ir.Value:
        """Scores that keep a position from reading those after it, `[1, 1, seq, seq]`."""
        ahead = ~np.tri(self.decoder_seq, dtype=np.bool_)[np.newaxis, np.newaxis]
        return scope.table("causal_mask", np.where(ahead, np.float32(_LOWEST), np.float32(0.0)))

    def _attention(
        self,
        scope: Scope,
        hidden: ir.Value,
        bias: ir.Value,
        queries: int,
        encoded: ir.Value | None = None,
    ) -> ir.Value:
        """Attends, without biases and without a division by the head's width, and adds.

        Args:
            scope: the sublayer's place.
            hidden: `[batch, queries, hidden]`, as is the result.
            bias: added to the scores, broadcast to `[batch, heads, queries, keys]`.
            queries: tokens that ask.
            encoded: `[batch, seq, hidden]`, what is read; None reads the normalised `hidden`.
        """
        normal = rms_norm(scope.sub("layer_norm"), hidden, self.hidden)
        read, keys = (normal, queries) if encoded is None else (encoded, self.seq)
        attention = scope.sub("SelfAttention" if encoded is None else "EncDecAttention")
        width = self.heads * self.head_width
        # The missing division by sqrt(head_width) is in the query's scale (released code).
        narrow = spread((self.hidden * self.head_width) ** -0.5)
        usual = keeps_variance(self.hidden)

        def project(name: str, of: ir.Value, seq: int, values: Uniform, *perm: int) -> ir.Value:
            projected = _linear(attention.sub(name), of, self.hidden, width, values)
            target = attention.ints(self.batch, seq, self.heads, self.head_width)
            return attention.op("Transpose", attention.op("Reshape", projected, target), perm=perm)

        query = project("q", normal, queries, narrow, 0, 2, 1, 3)
        key = project("k", read, keys, usual, 0, 2, 3, 1)
        value = project("v", read, keys, usual, 0, 2, 1, 3)
        scores = attention.op("Add", attention.op("MatMul", query, key), bias)
        scores = attention.op("Softmax", scores, axis=-1)
        context = attention.op("MatMul", scores, value)
        context = attention.op("Transpose", context, perm=[0, 2, 1, 3])
        context = attention.op("Reshape", context, attention.ints(self.batch, queries, width))
        output = _linear(attention.sub("o"), context, width, self.hidden, keeps_variance(width))
        return scope.op("Add", hidden, output)

    def _feed_forward(self, scope: Scope, hidden: ir.Value) -> ir.Value:
        """Transforms by two linear layers around a ReLU, and adds; `[batch, seq, hidden]`."""
        dense = scope.sub("DenseReluDense")
        inner = rms_norm(scope.sub("layer_norm"), hidden, self.hidden)
        wide, usual = before_relu(self.hidden), keeps_variance(self.intermediate)
        inner = self._dense(dense.sub("wi"), inner, self.hidden, self.intermediate, wide)
        inner = dense.sub("act").op("Relu", inner)
        inner = self._dense(dense.sub("wo"), inner, self.intermediate, self.hidden, usual)
        return scope.op("Add", hidden, inner)

    def _dense(
        self, scope: Scope, hidden: ir.Value, fan_in: int, fan_out: int, values: Uniform
    ) -> ir.Value:
        """One of the two layers."""
        return _linear(scope, hidden, fan_in, fan_out, values)

    def _position_bias(self, scope: Scope, seq: int, *, bidirectional: bool) -> ir.Value:
        """Scores by distance, `[1, heads, seq, seq]` (section 2.1 of the paper)."""
        bias = scope.sub("relative_attention_bias")
        table = bias.weight("weight", [self.buckets, self.heads], spread(0.5))
        buckets = self._distances(scope, seq, bidirectional=bidirectional)
        scores = bias.op("Gather", table, buckets)
        scores = scope.op("Transpose", scores, perm=[2, 0, 1])
        return scope.op("Unsqueeze", scores, scope.ints(0))

    def _distances(self, scope: Scope, seq: int, *, bidirectional: bool) -> ir.Value:
        """Buckets of the pairs' distances, `[seq, seq]`."""
        numbers = relative_bucket(seq, self.buckets, self.max_distance, bidirectional=bidirectional)
        return scope.table("buckets", numbers)


def padding_scores(scope: Scope, mask: ir.Value) -> ir.Value:
    """Terms of attention scores: 0 for tokens, `_LOWEST` for padding; `[b, 1, 1, s]`."""
    wide = scope.op("Unsqueeze", scope.op("Unsqueeze", mask, scope.ints(1)), scope.ints(2))
    ones = scope.op("Cast", wide, to=int(ir.DataType.FLOAT))
    padding = scope.op("Sub", scope.floats(1.0), ones)
    return scope.op("Mul", padding, scope.floats(_LOWEST))


@dataclass(frozen=True)
class T5Small(T5):
    """The paper's small model."""

    name: ClassVar[str] = "t5-small"
    summary: ClassVar[str] = "T5-small, 60.5 M parameters: 6 + 6 layers of width 512"

    layers: int = 6
    decoder_layers: int = 6
    hidden: int = 512
    heads: int = 8
    intermediate: int = 2048
