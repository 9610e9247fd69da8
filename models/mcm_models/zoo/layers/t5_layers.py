"""The sublayers of T5, and the buckets of its relative positions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from mcm_models.graph_builder import Scope, Uniform, around, before_relu, keeps_variance, spread


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


@dataclass(frozen=True)
class Attention:
    """Multi-head attention without biases and without a division by the head's width.

    Attributes:
        batch: sequences per inference.
        queries: tokens that ask.
        keys: tokens that are read.
        hidden: width of the residual stream.
        heads: attention heads.
        head_width: width of a head.
    """

    batch: int
    queries: int
    keys: int
    hidden: int
    heads: int
    head_width: int

    def sublayer(
        self, scope: Scope, name: str, hidden: ir.Value, encoded: ir.Value | None, bias: ir.Value
    ) -> ir.Value:
        """Attends and adds.

        Args:
            scope: the sublayer's place.
            name: the attention's name in it.
            hidden: `[batch, queries, hidden]`, as is the result.
            encoded: `[batch, keys, hidden]`, what is read; None reads the normalised `hidden`.
            bias: added to the scores, broadcast to `[batch, heads, queries, keys]`.
        """
        normal = rms_norm(scope.sub("layer_norm"), hidden, self.hidden)
        attention = scope.sub(name)
        context = self._attend(attention, normal, normal if encoded is None else encoded, bias)
        width = self.heads * self.head_width
        output = _linear(attention.sub("o"), context, width, self.hidden, keeps_variance(width))
        return scope.op("Add", hidden, output)

    def _attend(self, scope: Scope, normal: ir.Value, read: ir.Value, bias: ir.Value) -> ir.Value:
        width = self.heads * self.head_width
        # The missing division by sqrt(head_width) is in the query's scale (released code).
        narrow = spread((self.hidden * self.head_width) ** -0.5)
        usual = keeps_variance(self.hidden)

        def project(name: str, of: ir.Value, seq: int, values: Uniform, *perm: int) -> ir.Value:
            projected = _linear(scope.sub(name), of, self.hidden, width, values)
            target = scope.ints(self.batch, seq, self.heads, self.head_width)
            return scope.op("Transpose", scope.op("Reshape", projected, target), perm=perm)

        query = project("q", normal, self.queries, narrow, 0, 2, 1, 3)
        key = project("k", read, self.keys, usual, 0, 2, 3, 1)
        value = project("v", read, self.keys, usual, 0, 2, 1, 3)
        scores = scope.op("Add", scope.op("MatMul", query, key), bias)
        scores = scope.op("Softmax", scores, axis=-1)
        context = scope.op("Transpose", scope.op("MatMul", scores, value), perm=[0, 2, 1, 3])
        return scope.op("Reshape", context, scope.ints(self.batch, self.queries, width))


@dataclass(frozen=True)
class FeedForward:
    """Two linear layers around a ReLU.

    Attributes:
        hidden: width of the residual stream.
        intermediate: width between the two.
    """

    hidden: int
    intermediate: int

    def sublayer(self, scope: Scope, hidden: ir.Value) -> ir.Value:
        """Transforms and adds; `hidden` is `[batch, seq, hidden]`, as is the result."""
        dense = scope.sub("DenseReluDense")
        inner = rms_norm(scope.sub("layer_norm"), hidden, self.hidden)
        wide, usual = before_relu(self.hidden), keeps_variance(self.intermediate)
        inner = self.linear(dense.sub("wi"), inner, self.hidden, self.intermediate, wide)
        inner = dense.sub("act").op("Relu", inner)
        inner = self.linear(dense.sub("wo"), inner, self.intermediate, self.hidden, usual)
        return scope.op("Add", hidden, inner)

    def linear(
        self, scope: Scope, hidden: ir.Value, fan_in: int, fan_out: int, values: Uniform
    ) -> ir.Value:
        """One of the two layers."""
        return _linear(scope, hidden, fan_in, fan_out, values)


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
