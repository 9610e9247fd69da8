"""T5 with labels and loss: the workloads of Wang et al. 2020 (*Auto-MAP*)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_models.zoo.layers.cross_entropy import cross_entropy
from mcm_models.zoo.layers.graph_builder import GraphBuilder, Scope
from mcm_models.zoo.layers.weights import spread
from mcm_models.zoo.t5 import T5, DecoderScores, padding_scores


@dataclass(frozen=True)
class T5Automap(T5):
    """Six and six layers with biases in the feed-forward layers, up to the loss of a batch.

    The paper gives 51 M parameters, layers and the names of the variables, but not the vocabulary;
    it is what the parameters leave room for. Attributes are those of `T5`.
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
        graph = GraphBuilder(
            self.name, opset=17, ir_version=8, seed=self.seed, shape_only=self.shape_only
        )
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
        losses = cross_entropy(root.sub("loss"), logits, labels, self.vocab)
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
