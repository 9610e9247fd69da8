"""What an unrolled decoder asks of attention, and attention as published systems train it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import onnx_ir as ir

from mcm_models.zoo.layers.graph_builder import Scope
from mcm_models.zoo.layers.lstm_cells import TimeAxis
from mcm_models.zoo.layers.weights import around, keeps_variance, spread


class Attention(Protocol):
    """Looks into the memory of an encoder, once a step."""

    def context(self, step: int, query: ir.Value) -> ir.Value:
        """What the memory holds for a query, `[batch, hidden]` both."""
        ...


class MakesAttention(Protocol):
    """Makes attention over a memory `[batch, steps, hidden]`."""

    def __call__(
        self, scope: Scope, memory: ir.Value, hidden: int, time: TimeAxis
    ) -> Attention: ...


@dataclass(frozen=True)
class NormalisedAttention:
    """Additive attention (Bahdanau et al. 2015) with its score vector normalised.

    The vector is `g v / |v|` (Salimans and Kingma 2016, *Weight Normalization*, equation 2), made
    anew in each step as public translation systems do. Padding of the source gets no share.

    Attributes:
        scope: where its weights are.
        memory: `[batch, steps, hidden]`, what the encoder found.
        keys: `[batch, steps, hidden]`, the same in the space of comparison.
        padding: `[batch, steps]`, 0 for words and far below zero for padding.
        query_weight: `[hidden, hidden]`.
        bias: `[hidden]`, of the comparison.
        direction: `[hidden]`, v.
        length: `[1]`, g.
        last: the constant that numbers the last axis.
        time: the axis of time.
    """

    scope: Scope
    memory: ir.Value
    keys: ir.Value
    padding: ir.Value
    query_weight: ir.Value
    bias: ir.Value
    direction: ir.Value
    length: ir.Value
    last: ir.Value
    time: TimeAxis

    @classmethod
    def over(
        cls, scope: Scope, memory: ir.Value, hidden: int, time: TimeAxis, *, padding: ir.Value
    ) -> NormalisedAttention:
        square = keeps_variance(hidden)
        key_weight = scope.weight("key.weight", [hidden, hidden], square)
        return cls(
            scope=scope,
            memory=memory,
            keys=scope.sub("key").op("MatMul", memory, key_weight),
            padding=padding,
            query_weight=scope.weight("query.weight", [hidden, hidden], square),
            bias=scope.weight("score.bias", [hidden], around(0.0, 0.1)),
            direction=scope.weight("score.direction", [hidden], spread(1.0)),
            length=scope.weight("score.length", [1], around(1.0, 0.1)),
            last=scope.ints(-1),
            time=time,
        )

    def context(self, step: int, query: ir.Value) -> ir.Value:
        """What the memory holds for a query, `[batch, hidden]` both: 17 ops."""
        scope = self.scope.sub(f"step.{step}")
        query = scope.op("Add", scope.op("MatMul", query, self.query_weight), self.bias)
        query = scope.op("Unsqueeze", query, self.time.axis)
        matches = scope.op("Tanh", scope.op("Add", self.keys, query))
        squares = scope.op("Mul", self.direction, self.direction)
        norm = scope.op("Sqrt", scope.op("ReduceSum", squares, self.last, keepdims=1))
        vector = scope.op("Mul", self.direction, scope.op("Div", self.length, norm))
        weighed = scope.op("Mul", matches, vector)
        scores = scope.op("ReduceSum", weighed, self.last, keepdims=0)
        shares = scope.op("Softmax", scope.op("Add", scores, self.padding), axis=1)
        shares = scope.op("Unsqueeze", shares, self.last)
        found = scope.op("Mul", shares, self.memory)
        return scope.op("ReduceSum", found, self.time.axis, keepdims=0)
