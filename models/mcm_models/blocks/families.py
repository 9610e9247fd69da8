"""The four families of blocks, of given sizes."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from mcm_models.zoo.layers import graph_builder

_OPSET = 20
_IR_VERSION = 9


class BlockGraph:
    """A graph that is added to in the order of its ops.

    Args:
        name: of the model.
        seed: of its weights.
    """

    def __init__(self, name: str, seed: int) -> None:
        self._builder = graph_builder.GraphBuilder(
            name, opset=_OPSET, ir_version=_IR_VERSION, seed=seed, shape_only=False
        )
        self._outputs = 0

    def input(self, name: str, *shape: int) -> ir.Value:
        """A graph input in float32."""
        return self._builder.input(name, ir.DataType.FLOAT, shape)

    def output(self, value: ir.Value) -> None:
        """Makes a value a graph output."""
        self._builder.output(value, f"y{self._outputs}", ir.DataType.FLOAT, shape_of(value))
        self._outputs += 1

    def op(
        self,
        scope: str,
        op_type: str,
        shape: tuple[int, ...],
        *inputs: ir.Value,
        **given: graph_builder.Attribute,
    ) -> ir.Value:
        """An op whose result has a given shape."""
        return graph_builder.declare(
            self._scope(scope).op(op_type, *inputs, **given), ir.DataType.FLOAT, shape
        )

    def reshaped(self, scope: str, value: ir.Value, *shape: int) -> ir.Value:
        """The value under another shape."""
        return self.op(scope, "Reshape", shape, value, self._scope(scope).ints(*shape))

    def scaled(self, scope: str, value: ir.Value, factor: float) -> ir.Value:
        """The value times a number."""
        return self.op(scope, "Mul", shape_of(value), value, self._scope(scope).floats(factor))

    def linear(self, scope: str, value: ir.Value, width: int) -> ir.Value:
        """A layer with bias on the last axis."""
        place, shape = self._scope(scope), shape_of(value)
        weight = place.weight("weight", [shape[-1], width], graph_builder.keeps_variance(shape[-1]))
        bias = place.weight("bias", [width], graph_builder.around(0.0, 0.1))
        wide = (*shape[:-1], width)
        return self.op(scope, "Add", wide, self.op(scope, "MatMul", wide, value, weight), bias)

    def normalized(self, scope: str, value: ir.Value) -> ir.Value:
        """Layer normalisation over the last axis."""
        place, shape = self._scope(scope), shape_of(value)
        weights = [
            place.weight(name, [shape[-1]], graph_builder.around(mean, 0.1))
            for name, mean in (("weight", 1.0), ("bias", 0.0))
        ]
        return self.op(scope, "LayerNormalization", shape, value, *weights, axis=-1)

    def model(self) -> ir.Model:
        """The finished model."""
        return self._builder.model()

    def _scope(self, name: str) -> graph_builder.Scope:
        return self._builder.root.sub(name)


def shape_of(value: ir.Value) -> tuple[int, ...]:
    """The static shape of a value.

    Raises:
        ValueError: if it has none.
    """
    if value.shape is None:
        raise ValueError(f"{value.name} has no shape")
    return tuple(value.shape.numpy())


def gemm_block(name: str, rows: int, width: int, outputs: Sequence[int], seed: int = 0) -> ir.Model:
    """Products side by side of one input, as the projections before an attention.

    Args:
        name: of the model.
        rows: of the input.
        width: of the input.
        outputs: width of each product's output.
        seed: of the weights.
    """
    graph = BlockGraph(name, seed)
    value = graph.input("x", rows, width)
    for index, wide in enumerate(outputs):
        graph.output(graph.linear(f"gemm.{index}", value, wide))
    return graph.model()


def mlp_block(name: str, rows: int, widths: Sequence[int], seed: int = 0) -> ir.Model:
    """Layers with ReLU between them.

    Args:
        name: of the model.
        rows: of the input.
        widths: of the input and of the output of each layer.
        seed: of the weights.
    """
    graph = BlockGraph(name, seed)
    value = graph.input("x", rows, widths[0])
    for index, width in enumerate(widths[1:]):
        scope = f"layer.{index}"
        if index:
            value = graph.op(scope, "Relu", (rows, widths[index]), value)
        value = graph.linear(scope, value, width)
    graph.output(value)
    return graph.model()


def ffn_block(name: str, rows: int, width: int, inner: int, seed: int = 0) -> ir.Model:
    """The feed-forward half of a transformer's layer: up, Gelu, down, residual, normalisation.

    Args:
        name: of the model.
        rows: tokens.
        width: of the residual stream.
        inner: between the two layers.
        seed: of the weights.
    """
    graph = BlockGraph(name, seed)
    value = graph.input("x", rows, width)
    hidden = graph.op("gelu", "Gelu", (rows, inner), graph.linear("up", value, inner))
    down = graph.linear("down", hidden, width)
    graph.output(graph.normalized("norm", graph.op("down", "Add", (rows, width), down, value)))
    return graph.model()


def mha_block(name: str, rows: int, heads: int, head_width: int, seed: int = 0) -> ir.Model:
    """The attention half: projections, scores, softmax, context, projection, residual.

    Args:
        name: of the model.
        rows: tokens.
        heads: of the attention.
        head_width: width of the residual stream over heads.
        seed: of the weights.
    """
    graph = BlockGraph(name, seed)
    width = heads * head_width
    value = graph.input("x", rows, width)

    def projected(scope: str, *perm: int) -> ir.Value:
        made = graph.reshaped(scope, graph.linear(scope, value, width), rows, heads, head_width)
        shape = (rows, heads, head_width)
        permuted = (shape[perm[0]], shape[perm[1]], shape[perm[2]])
        return graph.op(scope, "Transpose", permuted, made, perm=perm)

    query, key = projected("query", 1, 0, 2), projected("key", 1, 2, 0)
    scores = graph.op("scores", "MatMul", (heads, rows, rows), query, key)
    scores = graph.scaled("scores", scores, head_width**-0.5)
    scores = graph.op("softmax", "Softmax", (heads, rows, rows), scores, axis=-1)
    parts = projected("value", 1, 0, 2)
    context = graph.op("context", "MatMul", (heads, rows, head_width), scores, parts)
    context = graph.op("context", "Transpose", (rows, heads, head_width), context, perm=[1, 0, 2])
    context = graph.reshaped("context", context, rows, width)
    made = graph.linear("output", context, width)
    graph.output(graph.op("output", "Add", (rows, width), made, value))
    return graph.model()
