"""BERT (Devlin et al. 2019), also with its head for masked tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from mcm_models.graph_builder import (
    GraphBuilder,
    Scope,
    around,
    declare,
    keeps_variance,
    require_at_most,
    require_heads_divide,
    require_sizes,
    spread,
)

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


def gelu(scope: Scope, hidden: ir.Value) -> ir.Value:
    """Exact Gelu (Hendrycks and Gimpel 2016), in five nodes."""
    error = scope.op("Erf", scope.op("Div", hidden, scope.floats(math.sqrt(2.0))))
    gated = scope.op("Mul", hidden, scope.op("Add", error, scope.floats(1.0)))
    return scope.op("Mul", gated, scope.floats(0.5))


_MASKED = -10000.0
"""Term that the exported graph adds to the score of a padded position."""
_EMBEDDING_STD = 0.02


@dataclass(frozen=True)
class Bert:
    """An encoder with pooler, in the decomposed form of torch's legacy exporter at opset 12.

    Layer normalisation and Gelu are spelt out, and the mask chain is computed once and read by
    every layer. The defaults are those of BERT-base.

    Attributes:
        layers: encoder layers.
        hidden: width of the residual stream; a multiple of `heads`.
        heads: attention heads.
        intermediate: width of the feed-forward layers.
        vocab: number of tokens.
        positions: rows of the position table, the longest sequence possible.
        types: rows of the token-type table.
        seq: tokens per sequence.
        batch: sequences per inference.
        dynamic: batch and seq are the symbolic dimensions `batch` and `seq`.
        computed_shapes: `Reshape` targets are computed with Shape, Gather and Concat, as in an
            export with dynamic axes whose dimensions were fixed afterwards; otherwise they are
            constants. Always so when `dynamic`.
        seed: seed of the random weights.
        shape_only: leave out the weights' values.

    Raises:
        ValueError: if a number is out of range.
    """

    name: ClassVar[str] = "bert"
    summary: ClassVar[str] = "BERT of any size, as exported at opset 12 (default: BERT-base)"

    layers: int = 12
    hidden: int = 768
    heads: int = 12
    intermediate: int = 3072
    vocab: int = 30_522
    positions: int = 512
    types: int = 2
    seq: int = 128
    batch: int = 1
    dynamic: bool = False
    computed_shapes: bool = False
    seed: int = 0
    shape_only: bool = False

    def __post_init__(self) -> None:
        require_sizes(self)
        require_heads_divide(self.hidden, self.heads)
        require_at_most(self.positions, "positions", seq=self.seq)

    def build(self) -> ir.Model:
        """Makes the model.

        Inputs are `input_ids`, `attention_mask` (1 for a token, 0 for padding) and
        `token_type_ids`, int64 `[batch, seq]`. Outputs are `last_hidden_state`
        `[batch, seq, hidden]` and `pooler_output` `[batch, hidden]`.
        """
        graph = GraphBuilder.of(self, 12, ir_version=7)
        extents = ("batch", "seq") if self.dynamic else (self.batch, self.seq)
        ids = graph.input("input_ids", ir.DataType.INT64, extents)
        mask = graph.input("attention_mask", ir.DataType.INT64, extents)
        type_ids = graph.input("token_type_ids", ir.DataType.INT64, extents)

        root = graph.root
        mask = _score_mask(root, mask)
        hidden = self._embeddings(root.sub("embeddings"), ids, type_ids)
        shape = SequenceShape(*extents, computed=self.dynamic or self.computed_shapes)
        for layer in range(self.layers):
            hidden = self._layer(root.sub(f"encoder.layer.{layer}"), hidden, mask, shape)
        pooled = self._pooler(root.sub("pooler"), hidden)
        graph.output(hidden, "last_hidden_state", ir.DataType.FLOAT, [*extents, self.hidden])
        graph.output(pooled, "pooler_output", ir.DataType.FLOAT, [extents[0], self.hidden])
        return graph.model()

    def _embeddings(self, scope: Scope, ids: ir.Value, type_ids: ir.Value) -> ir.Value:
        def look_up(name: str, rows: int, indices: ir.Value) -> ir.Value:
            table = scope.sub(name)
            weight = table.weight("weight", [rows, self.hidden], spread(_EMBEDDING_STD))
            return table.op("Gather", weight, indices)

        words = look_up("word_embeddings", self.vocab, ids)
        types = look_up("token_type_embeddings", self.types, type_ids)
        places = look_up("position_embeddings", self.positions, self._position_ids(scope, ids))
        total = scope.op("Add", scope.op("Add", words, types), places)
        return layer_norm(scope.sub("LayerNorm"), total, self.hidden)

    def _position_ids(self, scope: Scope, ids: ir.Value) -> ir.Value:
        """Numbers of the positions in use, `[1, seq]`."""
        if not self.dynamic:
            return scope.table("position_ids", np.arange(self.seq, dtype=np.int64)[np.newaxis])
        numbers = np.arange(self.positions, dtype=np.int64)[np.newaxis]
        every = scope.table("position_ids", numbers)
        length = scope.op("Gather", scope.op("Shape", ids), scope.index(1), axis=0)
        end = scope.op("Unsqueeze", length, axes=[0])
        used = scope.op("Slice", every, scope.ints(0), end, scope.ints(1), scope.ints(1))
        return declare(used, ir.DataType.INT64, [1, "seq"])

    def _layer(
        self, scope: Scope, hidden: ir.Value, mask: ir.Value, shape: SequenceShape
    ) -> ir.Value:
        """Self-attention and feed-forward, each normalised after its residual add.

        Args:
            scope: the layer's place.
            hidden: `[batch, seq, hidden]`, as is the result.
            mask: `[batch, 1, 1, seq]`, added to the scores.
            shape: batch and sequence length.
        """
        width, attention = self.hidden, scope.sub("attention")
        context = self._attention(attention.sub("self"), hidden, mask, shape)
        output = attention.sub("output")
        context = output.sub("dense").linear(context, width, width)
        hidden = layer_norm(output.sub("LayerNorm"), output.op("Add", context, hidden), width)

        up = scope.sub("intermediate")
        inner = up.sub("dense").linear(hidden, width, self.intermediate)
        inner = gelu(up.sub("intermediate_act_fn"), inner)
        down = scope.sub("output")
        inner = down.sub("dense").linear(inner, self.intermediate, width)
        return layer_norm(down.sub("LayerNorm"), down.op("Add", inner, hidden), width)

    def _attention(
        self, scope: Scope, hidden: ir.Value, mask: ir.Value, shape: SequenceShape
    ) -> ir.Value:
        head_width = self.hidden // self.heads
        leading = shape.leading(scope, hidden)

        def project(name: str, *perm: int) -> ir.Value:
            values = scope.sub(name).linear(hidden, self.hidden, self.hidden)
            values = shape.reshape(scope, values, leading, self.heads, head_width)
            return scope.op("Transpose", values, perm=perm)

        query = project("query", 0, 2, 1, 3)
        # The exporter merges the transpositions of the key into one.
        key = project("key", 0, 2, 3, 1)
        value = project("value", 0, 2, 1, 3)
        scores = scope.op("MatMul", query, key)
        scores = scope.op("Div", scores, scope.floats(math.sqrt(head_width)))
        scores = scope.op("Softmax", scope.op("Add", scores, mask), axis=3)
        context = scope.op("Transpose", scope.op("MatMul", scores, value), perm=[0, 2, 1, 3])
        return shape.reshape(scope, context, leading, self.hidden)

    def _pooler(self, scope: Scope, hidden: ir.Value) -> ir.Value:
        """A layer on the first token, `[batch, hidden]`."""
        first = scope.op("Gather", hidden, scope.index(0), axis=1)
        dense = scope.sub("dense")
        weight = dense.weight("weight", [self.hidden, self.hidden], keeps_variance(self.hidden))
        bias = dense.bias(self.hidden)
        pooled = dense.op("Gemm", first, weight, bias, alpha=1.0, beta=1.0, transB=1)
        return scope.sub("activation").op("Tanh", pooled)


def _score_mask(root: Scope, mask: ir.Value) -> ir.Value:
    """Terms of attention scores: 0 for tokens, `_MASKED` for padding; `[b, 1, 1, s]`."""
    wide = root.op("Unsqueeze", root.op("Unsqueeze", mask, axes=[1]), axes=[2])
    ones = root.op("Cast", wide, to=int(ir.DataType.FLOAT))
    padding = root.op("Sub", root.floats(1.0), ones)
    return root.op("Mul", padding, root.floats(_MASKED))


@dataclass(frozen=True)
class BertTiny(Bert):
    """The smallest of Turc et al. 2019, *Well-Read Students Learn Better*."""

    name: ClassVar[str] = "bert-tiny"
    summary: ClassVar[str] = "BERT-tiny, 4.4 M parameters: 2 layers of width 128"

    layers: int = 2
    hidden: int = 128
    heads: int = 2
    intermediate: int = 512


@dataclass(frozen=True)
class BertBase(Bert):
    """The paper's base model."""

    name: ClassVar[str] = "bert-base"
    summary: ClassVar[str] = "BERT-base, 109.5 M parameters: 12 layers of width 768"


@dataclass(frozen=True)
class BertLarge(Bert):
    """The paper's large model, the workload of Xie et al. 2022 (MCM).

    Its shapes are computed by default: that is the export whose 2,083 nodes come nearest to the
    2,138 that MCM reports; here they are 2,019, and 1,515 with `computed_shapes=False`.
    """

    name: ClassVar[str] = "bert-large"
    summary: ClassVar[str] = "BERT-large, 335.1 M parameters: 24 layers of width 1024"

    layers: int = 24
    hidden: int = 1024
    heads: int = 16
    intermediate: int = 4096
    computed_shapes: bool = True


@dataclass(frozen=True)
class Bert48(Bert):
    """BERT-large with twice the layers, a workload of Wang et al. 2020 (*Auto-MAP*)."""

    name: ClassVar[str] = "bert-48"
    summary: ClassVar[str] = "BERT-48, 637.4 M parameters: 48 layers of width 1024"

    layers: int = 48
    hidden: int = 1024
    heads: int = 16
    intermediate: int = 4096


@dataclass(frozen=True)
class BertPretraining(Bert):
    """An encoder with pooler and a prediction for every token.

    The projection onto the vocabulary has a weight of its own, not the transposed embedding: in a
    pipeline the first and the last stage have a copy each anyway.
    """

    name: ClassVar[str] = "bert-pretraining"
    summary: ClassVar[str] = "BERT of any size with its head for masked tokens"

    def _pooler(self, scope: Scope, hidden: ir.Value) -> ir.Value:
        head = scope.graph.root.sub("cls.predictions")
        logits = self._predictions(head, hidden)
        extents = ("batch", "seq") if self.dynamic else (self.batch, self.seq)
        scope.graph.output(logits, "prediction_logits", ir.DataType.FLOAT, [*extents, self.vocab])
        return super()._pooler(scope, hidden)

    def _predictions(self, scope: Scope, hidden: ir.Value) -> ir.Value:
        """Transform with Gelu and normalisation, then scores of all tokens."""
        transform = scope.sub("transform")
        dense = transform.sub("dense")
        x = dense.linear(hidden, self.hidden, self.hidden)
        x = gelu(transform.sub("transform_act_fn"), x)
        x = layer_norm(transform.sub("LayerNorm"), x, self.hidden)
        return scope.sub("decoder").linear(x, self.hidden, self.vocab)
