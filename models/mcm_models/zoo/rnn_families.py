"""Unrolled recurrent networks of any size."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import onnx_ir as ir

from mcm_models import graph_builder
from mcm_models.zoo.layers import recurrent_layers
from mcm_models.zoo.layers.convolution_layers import FeatureMaps, conv_bn_relu, halved


@dataclass(frozen=True)
class RecurrentNetwork(ABC):
    """Recurrent layers spelt out in elementary ops, one copy per time step.

    Attributes:
        cell: kind of the cells, `lstm` or `gru`.
        layers: layers upon each other.
        steps: elements of each sequence.
        hidden: size of every state.
        batch: sequences per inference.
        seed: seed of the random weights.
        shape_only: leave out the weights' values.

    Raises:
        ValueError: if a number is out of range.
    """

    name: ClassVar[str]
    summary: ClassVar[str]

    cell: recurrent_layers.CellKind = "lstm"
    layers: int = 2
    steps: int = 8
    hidden: int = 256
    batch: int = 1
    seed: int = 0
    shape_only: bool = False

    def __post_init__(self) -> None:
        graph_builder.require_sizes(self)

    def build(self) -> ir.Model:
        """Makes the model; `connect` returns its inputs and outputs."""
        graph = graph_builder.GraphBuilder.of(self, 14)
        self.connect(graph, recurrent_layers.TimeAxis.of(graph))
        return graph.model()

    @abstractmethod
    def connect(self, graph: graph_builder.GraphBuilder, time: recurrent_layers.TimeAxis) -> None:
        """Builds the network with its inputs and outputs."""

    def start(self, scope: graph_builder.Scope) -> recurrent_layers.State:
        """The state before the first step."""
        return recurrent_layers.initial_state(self.cell, scope, self.batch, self.hidden)

    def read_both_ways(
        self, root: graph_builder.Scope, sequence: list[ir.Value], width: int
    ) -> list[ir.Value]:
        """All layers, each bidirectional; what is read and written, `[batch, width]`, is per step.

        The width that is written is `2 * hidden`.
        """
        start = self.start(root)
        for number in range(self.layers):
            scope = root.sub(f"layer.{number}")
            sequence = recurrent_layers.bidirectional(
                self.cell, scope, sequence, width, self.hidden, start
            )
            width = 2 * self.hidden
        return sequence

    def embedded(
        self, scope: graph_builder.Scope, ids: ir.Value, vocab: int, time: recurrent_layers.TimeAxis
    ) -> list[ir.Value]:
        """Embeddings of the words `[batch, steps]`: `[batch, hidden]` per step."""
        scope = scope.sub("embedding")
        table = scope.weight("weight", [vocab, self.hidden], graph_builder.spread(1.0))
        return time.apart(scope, scope.op("Gather", table, ids, axis=0), self.steps)


@dataclass(frozen=True)
class Projection:
    """A linear layer that all steps share.

    Attributes:
        scope: where its weights are; the steps stand below.
        weight: `[width, classes]`.
        bias: `[classes]`.
    """

    scope: graph_builder.Scope
    weight: ir.Value
    bias: ir.Value

    @classmethod
    def with_weights(cls, scope: graph_builder.Scope, width: int, classes: int) -> Projection:
        """From `width` numbers to `classes` logits, with weights of its own."""
        weight = scope.weight("weight", [width, classes], graph_builder.keeps_variance(width, 2.0))
        return cls(scope, weight, scope.bias(classes))

    def step(self, number: int, features: ir.Value) -> ir.Value:
        """Logits `[batch, classes]` of one step."""
        scope = self.scope.sub(f"step.{number}")
        return scope.op("Add", scope.op("MatMul", features, self.weight), self.bias)


@dataclass(frozen=True)
class StackedRnn(RecurrentNetwork):
    """From feature vectors, such as those of sound, to the class of the whole sequence.

    The head reads the mean of the top layer's outputs.

    Attributes:
        features: size of each input vector.
        classes: number of logits.
        residual: layers from the second on add their input to their output (Wu et al. 2016,
            section 3.1).
    """

    name: ClassVar[str] = "stacked-rnn"
    summary: ClassVar[str] = "sequence classifier of stacked LSTM or GRU layers, unrolled"

    features: int = 128
    classes: int = 100
    residual: bool = False

    def connect(self, graph: graph_builder.GraphBuilder, time: recurrent_layers.TimeAxis) -> None:
        """`features` `[batch, steps, features]` to `logits` `[batch, classes]`."""
        root = graph.root
        extents = [self.batch, self.steps, self.features]
        sequence = time.apart(root, graph.input("features", ir.DataType.FLOAT, extents), self.steps)
        start = self.start(root)
        width = self.features
        for number in range(self.layers):
            scope = root.sub(f"layer.{number}")
            layer = recurrent_layers.recurrent_layer(self.cell, scope, width, self.hidden)
            outputs, _ = recurrent_layers.unrolled(layer, sequence, start)
            if self.residual and number > 0:
                pairs = zip(outputs, sequence, strict=True)
                outputs = [scope.op("Add", output, read) for output, read in pairs]
            sequence, width = outputs, self.hidden
        head = Projection.with_weights(root.sub("head"), self.hidden, self.classes)
        logits = head.step(0, root.sub("average").op("Mean", *sequence))
        graph.output(logits, "logits", ir.DataType.FLOAT, [self.batch, self.classes])


@dataclass(frozen=True)
class BidirectionalRnn(RecurrentNetwork):
    """From words to a tag for each of them; the model's scores, without the CRF behind them.

    Attributes:
        vocab: number of words.
        classes: number of tags.
    """

    name: ClassVar[str] = "bidirectional-rnn"
    summary: ClassVar[str] = "tagger of bidirectional LSTM or GRU layers, unrolled"

    vocab: int = 10_000
    classes: int = 64

    def connect(self, graph: graph_builder.GraphBuilder, time: recurrent_layers.TimeAxis) -> None:
        """`input_ids` int64 `[batch, steps]` to `logits` `[batch, steps, classes]`."""
        root = graph.root
        extents = [self.batch, self.steps]
        ids = graph.input("input_ids", ir.DataType.INT64, extents)
        sequence = self.embedded(root, ids, self.vocab, time)
        sequence = self.read_both_ways(root, sequence, self.hidden)
        tags = root.sub("tags")
        head = Projection.with_weights(tags, 2 * self.hidden, self.classes)
        logits = time.together(tags, [head.step(t, both) for t, both in enumerate(sequence)])
        graph.output(logits, "logits", ir.DataType.FLOAT, [*extents, self.classes])


@dataclass(frozen=True)
class EncoderDecoderRnn(RecurrentNetwork):
    """The decoder starts from the encoder's last states, and reads the given target words.

    As in the paper, the source is read from its end. `layers` and `steps` are those of the
    encoder and of the decoder each.

    Attributes:
        vocab: number of words of each language.
    """

    name: ClassVar[str] = "encoder-decoder-rnn"
    summary: ClassVar[str] = "translation by unrolled LSTM or GRU layers, without attention"

    vocab: int = 2000

    def connect(self, graph: graph_builder.GraphBuilder, time: recurrent_layers.TimeAxis) -> None:
        """`source_ids` and `target_ids`, int64 `[batch, steps]`, to `logits` of each word."""
        root = graph.root
        extents = [self.batch, self.steps]
        source = graph.input("source_ids", ir.DataType.INT64, extents)
        target = graph.input("target_ids", ir.DataType.INT64, extents)
        encoder, decoder = root.sub("encoder"), root.sub("decoder")
        words = self.embedded(encoder, source, self.vocab, time)
        _, states = self._stack(encoder, words, [self.start(root)] * self.layers, backwards=True)
        words = self.embedded(decoder, target, self.vocab, time)
        outputs, _ = self._stack(decoder, words, states)
        projection = root.sub("projection")
        head = Projection.with_weights(projection, self.hidden, self.vocab)
        logits = [head.step(number, output) for number, output in enumerate(outputs)]
        joined = time.together(projection, logits)
        graph.output(joined, "logits", ir.DataType.FLOAT, [*extents, self.vocab])

    def _stack(
        self,
        scope: graph_builder.Scope,
        sequence: list[ir.Value],
        starts: Sequence[recurrent_layers.State],
        *,
        backwards: bool = False,
    ) -> tuple[list[ir.Value], list[recurrent_layers.State]]:
        """The outputs of the top layer, and the last state of each layer."""
        states: list[recurrent_layers.State] = []
        for number, start in enumerate(starts):
            layer = recurrent_layers.recurrent_layer(
                self.cell, scope.sub(f"layer.{number}"), self.hidden, self.hidden
            )
            sequence, state = recurrent_layers.unrolled(layer, sequence, start, backwards=backwards)
            states.append(state)
        return sequence, states


@dataclass(frozen=True)
class ConvRnn(RecurrentNetwork):
    """From the image of a line of text to a character, or none, for each of its columns.

    The image's width is `steps` columns of `2^stages` pixels.

    Attributes:
        stages: stages of convolutions, each of which halves the image.
        blocks: convolutions of each stage.
        width: channels of the first stage, doubled with each stage.
        kernel: extent of the kernels, odd.
        height: height of the image in pixels.
        classes: number of characters.
    """

    name: ClassVar[str] = "conv-rnn"
    summary: ClassVar[str] = "convolutions with bidirectional LSTM or GRU layers behind them"

    layers: int = 1
    stages: int = 3
    blocks: int = 2
    width: int = 64
    kernel: int = 3
    height: int = 32
    classes: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        graph_builder.require_at_least(2**self.stages, self, "height")
        graph_builder.require_odd(self, "kernel")

    def connect(self, graph: graph_builder.GraphBuilder, time: recurrent_layers.TimeAxis) -> None:
        """`input` `[batch, 3, height, columns]` to `logits` `[batch, steps, classes]`."""
        root = graph.root
        extents = [self.batch, 3, self.height, self.steps << self.stages]
        maps = self._columns(root, graph.input("input", ir.DataType.FLOAT, extents))
        sequence = time.apart(root, maps.value, self.steps)
        sequence = self.read_both_ways(root, sequence, maps.channels)
        characters = root.sub("characters")
        head = Projection.with_weights(characters, 2 * self.hidden, self.classes)
        logits = [head.step(number, both) for number, both in enumerate(sequence)]
        joined = time.together(characters, logits)
        graph.output(joined, "logits", ir.DataType.FLOAT, [self.batch, self.steps, self.classes])

    def _columns(self, root: graph_builder.Scope, image: ir.Value) -> FeatureMaps:
        """Features `[batch, steps, channels]` of the columns."""
        maps = FeatureMaps(image, 3)
        for stage in range(self.stages):
            scope = root.sub(f"stage.{stage}")
            for block in range(self.blocks):
                layer = scope.sub(f"block.{block}")
                maps = conv_bn_relu(layer, maps, self.width << stage, self.kernel)
            maps = halved(scope.sub("pool"), maps)
        columns = root.op("ReduceMean", maps.value, axes=[2], keepdims=0)
        return FeatureMaps(root.op("Transpose", columns, perm=[0, 2, 1]), maps.channels)
