"""T5 (Raffel et al. 2020), and the workloads of Wang et al. 2020 (*Auto-MAP*)."""

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
class DecoderScores:
    """Inputs of the decoder's own attention, where they are not kept in the model.

    Attributes:
        buckets: numbers of the pairs' distances, int64 `[decoder_seq, decoder_seq]`.
        mask: added to the scores, broadcast to `[batch, heads, decoder_seq, decoder_seq]`.
    """

    buckets: ir.Value
    mask: ir.Value


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
    biased: ClassVar[bool] = False
    """True if feed-forward layers have biases."""

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
        encoded = self._encoder(root.sub("encoder"), tokens, ids, padding, None)
        decoded = self._decoder(root.sub("decoder"), tokens, decoder_ids, encoded, padding, None)

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
        self,
        scope: Scope,
        tokens: ir.Value,
        ids: ir.Value,
        padding: ir.Value,
        buckets: ir.Value | None,
    ) -> ir.Value:
        attention = self._attention(self.seq, self.seq)
        hidden = scope.sub("embed_tokens").op("Gather", tokens, ids)
        first = scope.sub("block.0.layer.0.SelfAttention")
        position = self._position_bias(first, self.seq, buckets, bidirectional=True)
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
        given: DecoderScores | None,
    ) -> ir.Value:
        attention = self._attention(self.decoder_seq, self.decoder_seq)
        cross_attention = self._attention(self.decoder_seq, self.seq)
        hidden = scope.sub("embed_tokens").op("Gather", tokens, ids)
        causal = self._causal_scores(scope) if given is None else given.mask
        buckets = None if given is None else given.buckets
        first = scope.sub("block.0.layer.0.SelfAttention")
        position = self._position_bias(first, self.decoder_seq, buckets, bidirectional=False)
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
        return t5_layers.FeedForward(self.hidden, self.intermediate, self.biased)

    def _position_bias(
        self, scope: Scope, seq: int, buckets: ir.Value | None, *, bidirectional: bool
    ) -> ir.Value:
        """Scores by distance, `[1, heads, seq, seq]` (section 2.1 of the paper).

        `buckets` are the numbers of the pairs' distances `[seq, seq]`, kept as a table if None.
        """
        bias = scope.sub("relative_attention_bias")
        table = bias.weight("weight", [self.buckets, self.heads], spread(0.5))
        if buckets is None:
            numbers = t5_layers.relative_bucket(
                seq, self.buckets, self.max_distance, bidirectional=bidirectional
            )
            buckets = scope.table("buckets", numbers)
        scores = bias.op("Gather", table, buckets)
        scores = scope.op("Transpose", scores, perm=[2, 0, 1])
        return scope.op("Unsqueeze", scores, scope.ints(0))


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


@dataclass(frozen=True)
class T5Automap(T5):
    """Six and six layers with biases in the feed-forward layers, up to the loss of a batch.

    The paper gives 51 M parameters, layers and the names of the variables, but not the vocabulary;
    it is what the parameters leave space for. Attributes are those of `T5`.
    """

    name: ClassVar[str] = "t5-automap"
    summary: ClassVar[str] = "T5 with loss as in Auto-MAP, 51 M parameters: 6 + 6 layers"
    biased: ClassVar[bool] = True

    layers: int = 6
    decoder_layers: int = 6
    hidden: int = 512
    heads: int = 8
    intermediate: int = 2048
    vocab: int = 13_568
    batch: int = 64

    def build(self) -> ir.Model:
        """Makes the model; its output is `loss`, the weighted mean over tokens.

        Seven inputs have a batch dimension: `input_ids` and `attention_mask` `[batch, seq]`,
        `decoder_input_ids`, `decoder_attention_mask`, `labels` and `loss_weights`
        `[batch, decoder_seq]`, and `example_weights` `[batch]`. Three have none, because they are
        the same for all examples: `encoder_buckets` `[seq, seq]` and `decoder_buckets`
        `[decoder_seq, decoder_seq]`, numbers of relative positions, and `causal_mask`
        `[decoder_seq, decoder_seq]`, added to scores. Weights and `causal_mask` are float, all
        others int64.
        """
        graph = GraphBuilder.of(self, 17)
        source = [self.batch, self.seq]
        target = [self.batch, self.decoder_seq]
        pairs = [self.decoder_seq, self.decoder_seq]
        ids = graph.input("input_ids", ir.DataType.INT64, source)
        mask = graph.input("attention_mask", ir.DataType.INT64, source)
        decoder_ids = graph.input("decoder_input_ids", ir.DataType.INT64, target)
        decoder_mask = graph.input("decoder_attention_mask", ir.DataType.INT64, target)
        labels = graph.input("labels", ir.DataType.INT64, target)
        loss_weights = graph.input("loss_weights", ir.DataType.FLOAT, target)
        example_weights = graph.input("example_weights", ir.DataType.FLOAT, [self.batch])
        buckets = graph.input("encoder_buckets", ir.DataType.INT64, [self.seq, self.seq])
        decoder_buckets = graph.input("decoder_buckets", ir.DataType.INT64, pairs)
        causal = graph.input("causal_mask", ir.DataType.FLOAT, pairs)

        root, encoder, decoder = graph.root, graph.root.sub("encoder"), graph.root.sub("decoder")
        tokens = root.sub("shared").weight("weight", [self.vocab, self.hidden], spread(1.0))
        padding = padding_scores(encoder, mask)
        encoded = self._encoder(encoder, tokens, ids, padding, buckets)
        own = decoder.op("Add", causal, padding_scores(decoder, decoder_mask))
        scores = DecoderScores(decoder_buckets, own)
        decoded = self._decoder(decoder, tokens, decoder_ids, encoded, padding, scores)

        logits = self._head(root, decoded, tokens)
        losses = t5_layers.cross_entropy(root.sub("loss"), logits, labels, self.vocab)
        loss = _weighted_mean(root.sub("loss"), losses, loss_weights, example_weights)
        graph.output(loss, "loss", ir.DataType.FLOAT, [])
        return graph.model()


def _weighted_mean(
    scope: Scope, losses: ir.Value, loss_weights: ir.Value, example_weights: ir.Value
) -> ir.Value:
    weights = scope.op("Mul", loss_weights, scope.op("Unsqueeze", example_weights, scope.ints(1)))
    total = scope.op("ReduceSum", scope.op("Mul", losses, weights), keepdims=0)
    return scope.op("Div", total, scope.op("ReduceSum", weights, keepdims=0))


@dataclass(frozen=True)
class T5ThreeBillion(T5Automap):
    """T5-3B (Raffel et al. 2020, section 3.7), weights left out."""

    name: ClassVar[str] = "t5-3b"
    summary: ClassVar[str] = "T5-3B with loss, 2.9 G parameters, shapes only: 24 + 24 layers"

    layers: int = 24
    decoder_layers: int = 24
    hidden: int = 1024
    heads: int = 32
    head_width: int = 128
    intermediate: int = 16_384
    vocab: int = 32_128
    shape_only: bool = True


@dataclass(frozen=True)
class T5ElevenBillion(T5ThreeBillion):
    """T5-11B (Raffel et al. 2020, section 3.7), weights left out."""

    name: ClassVar[str] = "t5-11b"
    summary: ClassVar[str] = "T5-11B with loss, 11.3 G parameters, shapes only: 24 + 24 layers"

    heads: int = 128
    intermediate: int = 65_536
    batch: int = 16
