"""An encoder layer of BERT, spelt out as torch's legacy exporter writes it at opset 12."""

from __future__ import annotations

import math
from dataclasses import dataclass

import onnx_ir as ir

from mcm_models.zoo.layers.graph_builder import Scope, around, declare

_EPSILON = 1e-12


@dataclass(frozen=True)
class SequenceShape:
    """Batch and sequence length, and how the graph gets to know them.

    Attributes:
        batch: sequences per inference, or the name of that dimension.
        seq: tokens per sequence, or the name of that dimension.
        computed: the graph reads them off a value, as it must when one is a name.
    """

    batch: int | str
    seq: int | str
    computed: bool

    def leading(self, scope: Scope, hidden: ir.Value) -> tuple[ir.Value, ...]:
        """Nodes for the first two dimensions of `hidden`; none if they are constants."""
        if not self.computed:
            return ()
        return tuple(
            scope.op("Gather", scope.op("Shape", hidden), scope.index(axis), axis=0)
            for axis in (0, 1)
        )

    def reshape(
        self, scope: Scope, value: ir.Value, leading: tuple[ir.Value, ...], *last: int
    ) -> ir.Value:
        """Gives `value` the shape `[batch, seq, *last]`; `leading` as `leading()` made it."""
        shape = [self.batch, self.seq, *last]
        if leading:
            extents = [scope.op("Unsqueeze", extent, axes=[0]) for extent in leading]
            extents += [scope.ints(extent) for extent in last]
            target = scope.op("Concat", *extents, axis=0)
        else:
            target = scope.ints(*(extent for extent in shape if isinstance(extent, int)))
        # ONNX's shape inference does not follow computed shapes before opset 13.
        return declare(scope.op("Reshape", value, target), ir.DataType.FLOAT, shape)


def encoder_layer(
    scope: Scope,
    hidden: ir.Value,
    mask: ir.Value,
    shape: SequenceShape,
    *,
    width: int,
    heads: int,
    intermediate: int,
) -> ir.Value:
    """Self-attention and feed-forward, each normalised after its residual add.

    Args:
        scope: the layer's place.
        hidden: `[batch, seq, width]`, as is the result.
        mask: `[batch, 1, 1, seq]`, added to the scores.
        shape: batch and sequence length.
        width: width of the residual stream.
        heads: attention heads; they divide `width`.
        intermediate: width of the feed-forward layer.
    """
    attention = scope.sub("attention")
    context = _self_attention(attention.sub("self"), hidden, mask, shape, width=width, heads=heads)
    output = attention.sub("output")
    context = output.sub("dense").linear(context, width, width)
    hidden = layer_norm(output.sub("LayerNorm"), output.op("Add", context, hidden), width)

    up = scope.sub("intermediate")
    inner = up.sub("dense").linear(hidden, width, intermediate)
    inner = gelu(up.sub("intermediate_act_fn"), inner)
    down = scope.sub("output")
    inner = down.sub("dense").linear(inner, intermediate, width)
    return layer_norm(down.sub("LayerNorm"), down.op("Add", inner, hidden), width)


def layer_norm(scope: Scope, hidden: ir.Value, width: int) -> ir.Value:
    """Layer normalisation over the last axis (Ba et al. 2016), in nine nodes."""
    mean = scope.op("ReduceMean", hidden, axes=[-1])
    centered = scope.op("Sub", hidden, mean)
    squared = scope.op("Pow", centered, scope.floats(2.0))
    variance = scope.op("ReduceMean", squared, axes=[-1])
    deviation = scope.op("Sqrt", scope.op("Add", variance, scope.floats(_EPSILON)))
    normal = scope.op("Div", centered, deviation)
    scaled = scope.op("Mul", normal, scope.weight("weight", [width], around(1.0, 0.1)))
    return scope.op("Add", scaled, scope.bias(width))


def _self_attention(
    scope: Scope,
    hidden: ir.Value,
    mask: ir.Value,
    shape: SequenceShape,
    *,
    width: int,
    heads: int,
) -> ir.Value:
    head_width = width // heads
    leading = shape.leading(scope, hidden)

    def project(name: str, *perm: int) -> ir.Value:
        values = scope.sub(name).linear(hidden, width, width)
        values = shape.reshape(scope, values, leading, heads, head_width)
        return scope.op("Transpose", values, perm=perm)

    query = project("query", 0, 2, 1, 3)
    # The exporter merges the transpositions of the key into one.
    key = project("key", 0, 2, 3, 1)
    value = project("value", 0, 2, 1, 3)
    scores = scope.op("MatMul", query, key)
    scores = scope.op("Div", scores, scope.floats(math.sqrt(head_width)))
    scores = scope.op("Softmax", scope.op("Add", scores, mask), axis=3)
    context = scope.op("Transpose", scope.op("MatMul", scores, value), perm=[0, 2, 1, 3])
    return shape.reshape(scope, context, leading, width)


def gelu(scope: Scope, hidden: ir.Value) -> ir.Value:
    """Exact Gelu (Hendrycks and Gimpel 2016), in five nodes."""
    error = scope.op("Erf", scope.op("Div", hidden, scope.floats(math.sqrt(2.0))))
    gated = scope.op("Mul", hidden, scope.op("Add", error, scope.floats(1.0)))
    return scope.op("Mul", gated, scope.floats(0.5))
