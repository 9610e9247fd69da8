"""T5 (Raffel et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from mcm_models.graph_builder import GraphBuilder, Scope, require_at_least, require_sizes, spread
from mcm_models.zoo.layers import t5_layers

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
        attention = self._attention(self.seq, self.seq)
        hidden = scope.sub("embed_tokens").op("Gather", tokens, ids)
        first = scope.sub("block.0.layer.0.SelfAttention")
        position = self._position_bias(first, self.seq, bidirectional=True)
        bias = first.op("Add", position, padding)
        for layer in range(self.layers):
            block = scope.sub(f"block.{layer}")
            hidden = attention.sublayer(block.sub("layer.0"), "SelfAttention", hidden, None, bias)
            hidden = self._feed_forward.sublayer(block.sub("layer.1"), hidden)
        return t5_layers.rms_norm(scope.sub("final_layer_norm"), hidden, self.hidden)

    def _decoder(
        self,
        scope: Scope,
        tokens: ir.Value,
        ids: ir.Value,
        encoded: ir.Value,
        padding: ir.Value,
    ) -> ir.Value:
        attention = self._attention(self.decoder_seq, self.decoder_seq)
        cross_attention = self._attention(self.decoder_seq, self.seq)
        hidden = scope.sub("embed_tokens").op("Gather", tokens, ids)
        causal = self._causal_scores(scope)
        first = scope.sub("block.0.layer.0.SelfAttention")
        position = self._position_bias(first, self.decoder_seq, bidirectional=False)
        bias = first.op("Add", position, causal)
        for layer in range(self.decoder_layers):
            block = scope.sub(f"block.{layer}")
            hidden = attention.sublayer(block.sub("layer.0"), "SelfAttention", hidden, None, bias)
            hidden = cross_attention.sublayer(
                block.sub("layer.1"), "EncDecAttention", hidden, encoded, padding
            )
            hidden = self._feed_forward.sublayer(block.sub("layer.2"), hidden)
        return t5_layers.rms_norm(scope.sub("final_layer_norm"), hidden, self.hidden)

    def _causal_scores(self, scope: Scope) -> ir.Value:
        """Scores that keep a position from reading those after it, `[1, 1, seq, seq]`."""
        ahead = ~np.tri(self.decoder_seq, dtype=np.bool_)[np.newaxis, np.newaxis]
        return scope.table("causal_mask", np.where(ahead, np.float32(_LOWEST), np.float32(0.0)))

    def _attention(self, queries: int, keys: int) -> t5_layers.Attention:
        return t5_layers.Attention(
            self.batch, queries, keys, self.hidden, self.heads, self.head_width
        )

    @property
    def _feed_forward(self) -> t5_layers.FeedForward:
        return t5_layers.FeedForward(self.hidden, self.intermediate)

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
        numbers = t5_layers.relative_bucket(
            seq, self.buckets, self.max_distance, bidirectional=bidirectional
        )
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
