"""The loss of a language model over unrolled steps, a chunk of steps at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from mcm_models.zoo.layers.graph_builder import Scope
from mcm_models.zoo.layers.weights import around, keeps_variance


@dataclass(frozen=True)
class SequenceLoss:
    """Projection onto the vocabulary and weighted mean of the words' cross-entropies.

    Logits exist for one chunk of steps at a time, so that neither all of them nor a gradient of
    the projection for every step has to be held.

    Attributes:
        scope: where its weights are; a chunk's ops stand in `chunk.<number>` below.
        weight: `[hidden, vocab]`.
        bias: `[vocab]`.
        chunk: steps whose logits are made at once.
    """

    scope: Scope
    weight: ir.Value
    bias: ir.Value
    chunk: int

    @classmethod
    def with_weights(cls, scope: Scope, hidden: int, vocab: int, chunk: int) -> SequenceLoss:
        weight = scope.weight("weight", [hidden, vocab], keeps_variance(hidden))
        return cls(scope, weight, scope.weight("bias", [vocab], around(0.0, 0.1)), chunk)

    def mean(
        self, outputs: Sequence[ir.Value], labels: ir.Value, word_weights: ir.Value
    ) -> ir.Value:
        """The loss, a scalar: cross-entropies times weights, over the sum of the weights.

        Args:
            outputs: of each step, `[batch, hidden]`.
            labels: the word that each step shall foretell, int64 `[batch, steps]`.
            word_weights: 0 for padding, `[batch, steps]`.
        """
        chunks = [outputs[at : at + self.chunk] for at in range(0, len(outputs), self.chunk)]
        sizes = [len(chunk) for chunk in chunks]
        wanted = self._in_chunks("labels", labels, sizes)
        counted = self._in_chunks("word_weights", word_weights, sizes)
        losses: list[ir.Value] = []
        for number, (chunk, label, weight) in enumerate(zip(chunks, wanted, counted, strict=True)):
            scope = self.scope.sub(f"chunk.{number}")
            rows = scope.op("Concat", *chunk, axis=0) if len(chunk) > 1 else chunk[0]
            logits = scope.op("Add", scope.op("MatMul", rows, self.weight), self.bias)
            loss = scope.op("SoftmaxCrossEntropyLoss", logits, label, reduction="none")
            losses.append(scope.op("ReduceSum", scope.op("Mul", loss, weight), keepdims=0))
        total = self.scope.op("Sum", *losses) if len(losses) > 1 else losses[0]
        count = self.scope.op("ReduceSum", word_weights, keepdims=0)
        return self.scope.op("Div", total, count)

    def _in_chunks(self, name: str, values: ir.Value, sizes: Sequence[int]) -> list[ir.Value]:
        """`[batch, steps]` to one vector a chunk, step by step as the rows of logits are."""
        scope = self.scope.sub(name)
        by_step = scope.op("Transpose", values, perm=[1, 0])
        parts = [by_step]
        if len(sizes) > 1:
            parts = [*scope.ops(len(sizes), "Split", by_step, scope.ints(*sizes), axis=0)]
        flat = scope.ints(-1)
        return [scope.op("Reshape", part, flat) for part in parts]
