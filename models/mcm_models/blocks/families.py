"""The four families of blocks, of given sizes."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from mcm_models.blocks.block_graph import BlockGraph


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
