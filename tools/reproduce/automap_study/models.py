"""The workloads of Auto-MAP (Wang et al. 2020): T5 and VGG-19 up to the loss of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from mcm_models.graph_builder import RELU_GAIN, GraphBuilder, Scope, Uniform, keeps_variance, spread
from mcm_models.zoo.image_networks import Vgg19
from mcm_models.zoo.layers.convolution_layers import FeatureMaps
from mcm_models.zoo.t5 import T5, padding_scores


def cross_entropy(
    scope: Scope,
    logits: ir.Value,
    labels: ir.Value,
    classes: int,
    class_weights: ir.Value | None = None,
) -> ir.Value:
    """Minus the logarithm of the probability that each label was given.

    Only reductions over the classes tie them together: no probabilities are written out. The
    classes may therefore be on several devices (as in Shoeybi et al. 2019, *Megatron-LM*,
    section 3), which the op `SoftmaxCrossEntropyLoss` would not allow.

    Args:
        scope: the loss's place.
        logits: `[..., classes]`.
        labels: int64 `[...]`.
        classes: number of logits.
        class_weights: factor of each class, `[classes]`; 1 where None.

    Returns:
        `[...]`.
    """
    highest = scope.op("ReduceMax", logits, axes=[-1], keepdims=1)
    shifted = scope.op("Sub", logits, highest)
    last = scope.ints(-1)
    total = scope.op("ReduceSum", scope.op("Exp", shifted), last, keepdims=0)
    wanted = scope.op("Unsqueeze", labels, last)
    numbers = scope.table("class_numbers", np.arange(classes, dtype=np.int64))
    hit = scope.op("Cast", scope.op("Equal", wanted, numbers), to=int(ir.DataType.FLOAT))
    chosen = scope.op("ReduceSum", scope.op("Mul", hit, shifted), last, keepdims=0)
    losses = scope.op("Sub", scope.op("Log", total), chosen)
    if class_weights is None:
        return losses
    factors = scope.op("ReduceSum", scope.op("Mul", hit, class_weights), last, keepdims=0)
    return scope.op("Mul", losses, factors)


@dataclass(frozen=True)
class T5Automap(T5):
    """Six and six layers with biases in the feed-forward layers, up to the loss of a batch.

    The paper gives 51 M parameters, layers and the names of the variables, but not the vocabulary;
    it is what the parameters leave space for. Attributes are those of `T5`.
    """

    name: ClassVar[str] = "t5-automap"
    summary: ClassVar[str] = "T5 with loss as in Auto-MAP, 51 M parameters: 6 + 6 layers"

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
        graph.input("decoder_attention_mask", ir.DataType.INT64, target)
        labels = graph.input("labels", ir.DataType.INT64, target)
        loss_weights = graph.input("loss_weights", ir.DataType.FLOAT, target)
        example_weights = graph.input("example_weights", ir.DataType.FLOAT, [self.batch])
        graph.input("encoder_buckets", ir.DataType.INT64, [self.seq, self.seq])
        graph.input("decoder_buckets", ir.DataType.INT64, pairs)
        graph.input("causal_mask", ir.DataType.FLOAT, pairs)

        root, encoder, decoder = graph.root, graph.root.sub("encoder"), graph.root.sub("decoder")
        tokens = root.sub("shared").weight("weight", [self.vocab, self.hidden], spread(1.0))
        padding = padding_scores(encoder, mask)
        encoded = self._encoder(encoder, tokens, ids, padding)
        decoded = self._decoder(decoder, tokens, decoder_ids, encoded, padding)

        logits = self._head(root, decoded, tokens)
        losses = cross_entropy(root.sub("loss"), logits, labels, self.vocab)
        loss = _weighted_mean(root.sub("loss"), losses, loss_weights, example_weights)
        graph.output(loss, "loss", ir.DataType.FLOAT, [])
        return graph.model()

    def _dense(
        self, scope: Scope, hidden: ir.Value, fan_in: int, fan_out: int, values: Uniform
    ) -> ir.Value:
        product = T5._dense(self, scope, hidden, fan_in, fan_out, values)
        return scope.op("Add", product, scope.bias(fan_out))

    def _distances(self, scope: Scope, seq: int, *, bidirectional: bool) -> ir.Value:
        return _input(scope, "encoder_buckets" if bidirectional else "decoder_buckets")

    def _causal_scores(self, scope: Scope) -> ir.Value:
        padding = padding_scores(scope, _input(scope, "decoder_attention_mask"))
        return scope.op("Add", _input(scope, "causal_mask"), padding)


def _input(scope: Scope, name: str) -> ir.Value:
    return next(value for value in scope.graph.inputs if value.name == name)


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


_FEATURES = 4096


@dataclass(frozen=True)
class Vgg19Training(Vgg19):
    """VGG-19 up to the loss of a batch, a workload of Wang et al. 2020 (*Auto-MAP*).

    Linear layers are named as in the paper, and their kernels stored `[fan_in, fan_out]` as there.
    """

    name: ClassVar[str] = "vgg19-training"
    summary: ClassVar[str] = "VGG-19 with labels and loss, 143.7 M parameters"

    batch: int = 64

    def build(self) -> ir.Model:
        """Makes the model; its output is `loss`, the mean over images times `loss_scale`.

        Inputs with a batch dimension are `input` `[batch, 3, size, size]` and `labels`, int64
        `[batch]`; those without are `class_weights` `[classes]` and the scalar `loss_scale` (of
        mixed-precision training: Micikevicius et al. 2018, section 3.2).
        """
        graph = GraphBuilder.of(self, 13)
        extents = [self.batch, 3, self.image_size, self.image_size]
        image = graph.input("input", ir.DataType.FLOAT, extents)
        labels = graph.input("labels", ir.DataType.INT64, [self.batch])
        class_weights = graph.input("class_weights", ir.DataType.FLOAT, [self.classes])
        scale = graph.input("loss_scale", ir.DataType.FLOAT, [])

        logits = self.layers(graph.root, FeatureMaps(image, 3))
        scope = graph.root.sub("loss")
        losses = cross_entropy(scope, logits, labels, self.classes, class_weights)
        loss = scope.op("Mul", scope.op("ReduceMean", losses, axes=[0], keepdims=0), scale)
        graph.output(loss, "loss", ir.DataType.FLOAT, [])
        return graph.model()

    def _classifier(self, root: Scope, hidden: ir.Value, fan_in: int) -> ir.Value:
        for name, width in (("fc1", _FEATURES), ("fc2", _FEATURES), ("predictions", self.classes)):
            scope = root.sub(name)
            kernel = scope.weight("kernel", [fan_in, width], keeps_variance(fan_in, RELU_GAIN))
            hidden = scope.op("MatMul", hidden, kernel)
            hidden = scope.op("Add", hidden, scope.bias(width))
            if name != "predictions":
                hidden = scope.op("Relu", hidden)
            fan_in = width
        return hidden
