"""Unrolled neural machine translation (Wu et al. 2016, *Google's Neural Machine Translation*)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import onnx_ir as ir

from mcm_models.graph_builder import (
    GraphBuilder,
    Scope,
    keeps_variance,
    require_at_least,
    require_sizes,
    spread,
)
from mcm_models.zoo.layers.recurrent_layers import (
    LstmLayer,
    State,
    TimeAxis,
    initial_state,
    unrolled,
)


class Attention(Protocol):
    """Looks into the memory of an encoder, once a step."""

    def context(self, step: int, query: ir.Value) -> ir.Value:
        """Content of the memory for a query, `[batch, hidden]` both."""
        ...


_FIRST_RESIDUAL = 2
"""Layers from this one on add their input to their output (section 3.1 of the paper)."""


Attends = Callable[[Scope, ir.Value, int, TimeAxis], Attention]
"""Makes attention over a memory `[batch, steps, hidden]`, of a hidden size."""


@dataclass(frozen=True)
class Nmt:
    """Encoder and decoder of stacked LSTMs with attention, unrolled into one copy per time step.

    The shape is that of the paper. The first encoder layer runs in both directions, and residual
    connections begin at the third layer. Attention uses the lowest decoder layer's output of the
    step before, and its result goes into all decoder layers. The decoder reads the given target
    words (teacher forcing) and starts from the encoder's last states. A layer's weights are shared
    by all of its steps, which is what makes placement hard where memory is tight. There are about
    `30 layers + 8` ops in a time step, 247 of them for 8 layers.

    Attributes:
        layers: layers of the encoder, and of the decoder, at least 2.
        steps: words of the source, and of the target.
        hidden: size of the embeddings and of every state.
        vocab: number of words of each language.
        batch: sentences per inference.
        seed: seed of the random weights.
        shape_only: leave out the weights' values.

    Raises:
        ValueError: if a number is out of range.
    """

    name: ClassVar[str] = "nmt"
    summary: ClassVar[str] = "translation by unrolled LSTMs with attention, of any size"

    layers: int = 2
    steps: int = 8
    hidden: int = 128
    vocab: int = 1000
    batch: int = 1
    seed: int = 0
    shape_only: bool = False

    def __post_init__(self) -> None:
        require_at_least(2, self, "layers")
        require_sizes(self)

    def build(self) -> ir.Model:
        """Makes the model.

        Inputs are `source_ids` and `target_ids`, int64 `[batch, steps]`; the output is `logits`
        `[batch, steps, vocab]`.
        """
        graph = GraphBuilder.of(self, 14)
        extents = [self.batch, self.steps]
        source = graph.input("source_ids", ir.DataType.INT64, extents)
        target = graph.input("target_ids", ir.DataType.INT64, extents)
        time = TimeAxis.of(graph)
        root = graph.root
        outputs = self._translate(root, source, target, time, _Attention.over)
        projection = root.sub("projection")
        weight = projection.weight("weight", [self.hidden, self.vocab], keeps_variance(self.hidden))
        bias = projection.bias(self.vocab)
        every = time.together(projection, outputs)
        logits = projection.op("Add", projection.op("MatMul", every, weight), bias)
        graph.output(logits, "logits", ir.DataType.FLOAT, [*extents, self.vocab])
        return graph.model()

    def _translate(
        self, root: Scope, source: ir.Value, target: ir.Value, time: TimeAxis, attend: Attends
    ) -> list[ir.Value]:
        """The outputs of the decoder's top layer, `[batch, hidden]` for each word of the target."""
        encoder, decoder = root.sub("encoder"), root.sub("decoder")
        outputs, states = self._encode(encoder, self._words(encoder, source, time))
        memory = time.together(encoder.sub("memory"), outputs)
        attention = attend(decoder.sub("attention"), memory, self.hidden, time)
        return self._decode(decoder, self._words(decoder, target, time), attention, states)

    def _words(self, scope: Scope, ids: ir.Value, time: TimeAxis) -> list[ir.Value]:
        """Embeddings of the words, `[batch, hidden]` each."""
        scope = scope.sub("embedding")
        table = scope.weight("weight", [self.vocab, self.hidden], spread(1.0))
        return time.apart(scope, scope.op("Gather", table, ids, axis=0), self.steps)

    def _layer(self, scope: Scope, *input_widths: int) -> LstmLayer:
        return LstmLayer.with_weights(scope, input_widths, self.hidden)

    def _encode(
        self, scope: Scope, words: Sequence[ir.Value]
    ) -> tuple[list[ir.Value], list[State]]:
        """The outputs of the top layer, and the last state of each layer."""
        zeros = initial_state("lstm", scope, self.batch, self.hidden)
        first = scope.sub("layer.0")
        ahead, state = unrolled(self._layer(first.sub("forward"), self.hidden), words, zeros)
        backward = self._layer(first.sub("backward"), self.hidden)
        back, _ = unrolled(backward, words, zeros, backwards=True)
        stack = [self._layer(scope.sub("layer.1"), 2 * self.hidden)]
        stack += [self._layer(scope.sub(f"layer.{n}"), self.hidden) for n in range(2, self.layers)]
        states = [zeros] * len(stack)
        outputs: list[ir.Value] = []
        for step, pair in enumerate(zip(ahead, back, strict=True)):
            both = first.op("Concat", *pair, axis=1)
            output, states = _stack_step(stack, step, both, [], states, _FIRST_RESIDUAL - 1)
            outputs.append(output)
        return outputs, [state, *states]

    def _decode(
        self, scope: Scope, words: Sequence[ir.Value], attention: Attention, states: list[State]
    ) -> list[ir.Value]:
        """The outputs of the top layer."""
        stack = [
            self._layer(scope.sub(f"layer.{number}"), self.hidden, self.hidden)
            for number in range(self.layers)
        ]
        outputs: list[ir.Value] = []
        for step, word in enumerate(words):
            context = attention.context(step, states[0][0])
            output, states = _stack_step(stack, step, word, [context], states, _FIRST_RESIDUAL)
            outputs.append(output)
        return outputs


def _stack_step(
    stack: Sequence[LstmLayer],
    step: int,
    below: ir.Value,
    beside: Sequence[ir.Value],
    states: Sequence[State],
    first_residual: int,
) -> tuple[ir.Value, list[State]]:
    """One time step of layers upon each other: the top's output, and all states.

    Args:
        stack: the layers, the lowest first.
        step: its number.
        below: what the lowest layer reads.
        beside: what every layer reads besides.
        states: of the step before.
        first_residual: index of the first layer that adds its input to its output.
    """
    after: list[State] = []
    for index, (layer, state) in enumerate(zip(stack, states, strict=True)):
        after.append(layer.step(step, [below, *beside], state))
        output = after[-1][0]
        below = layer.scope.op("Add", output, below) if index >= first_residual else output
    return below, after


@dataclass(frozen=True)
class _Attention:
    """Additive attention (Bahdanau et al. 2015, appendix A.1.2).

    Attributes:
        scope: where its weights are.
        memory: `[batch, steps, hidden]`, what the encoder found.
        keys: `[batch, steps, hidden]`, the same in the space of comparison.
        query_weight: `[hidden, hidden]`.
        score_weight: `[hidden, 1]`.
        time: the axis of time.
    """

    scope: Scope
    memory: ir.Value
    keys: ir.Value
    query_weight: ir.Value
    score_weight: ir.Value
    time: TimeAxis

    @classmethod
    def over(cls, scope: Scope, memory: ir.Value, hidden: int, time: TimeAxis) -> _Attention:
        square = keeps_variance(hidden)
        key_weight = scope.weight("key.weight", [hidden, hidden], square)
        keys = scope.sub("key").op("MatMul", memory, key_weight)
        query_weight = scope.weight("query.weight", [hidden, hidden], square)
        score_weight = scope.weight("score.weight", [hidden, 1], spread(1.0))
        return cls(scope, memory, keys, query_weight, score_weight, time)

    def context(self, step: int, query: ir.Value) -> ir.Value:
        """Content of the memory for a query, `[batch, hidden]` both: 9 ops."""
        scope = self.scope.sub(f"step.{step}")
        query = scope.op("MatMul", query, self.query_weight)
        query = scope.op("Unsqueeze", query, self.time.axis)
        matches = scope.op("Tanh", scope.op("Add", self.keys, query))
        scores = scope.op("MatMul", matches, self.score_weight)
        shares = scope.op("Softmax", scope.op("Transpose", scores, perm=[0, 2, 1]), axis=2)
        return scope.op("Squeeze", scope.op("MatMul", shares, self.memory), self.time.axis)


@dataclass(frozen=True)
class Gnmt(Nmt):
    """The paper's size, for sentences of 20 words.

    `steps=405` makes 100,000 ops. Their logits are one tensor of `4 * steps * vocab` bytes, which
    is more than a small chip's memory; with `vocab=4000` it is 6 MiB.
    """

    name: ClassVar[str] = "gnmt"
    summary: ClassVar[str] = "GNMT, unrolled over 20 steps: 4,948 ops, 8 layers of width 1024"

    layers: int = 8
    steps: int = 20
    hidden: int = 1024
    vocab: int = 32_000
