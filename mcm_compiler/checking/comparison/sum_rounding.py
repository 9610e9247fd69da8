"""How far two float32 results may be apart because their sums were added in another order.

A sum of n products in floating point is the exact sum of products that are each off by a factor of
at most 1 + gamma_n, gamma_n = n u / (1 - n u), in whatever order it is added (Higham 2002,
*Accuracy and Stability of Numerical Algorithms*, 2nd edition, lemma 3.1 and section 3.1); u is
2^-24. As roundings are as often up as down, n may be replaced by lambda sqrt(n), which fails with a
probability of at most 2 exp(-lambda^2 / 2) per operation, 7e-4 for lambda = 4 (Higham and Mary
2019, *A New Approach to Probabilistic Rounding Error Analysis*, theorem 2.4).

To first order the relative errors of ops that follow one another add up, and where paths join, the
largest counts: that is what an op does that makes nothing larger than what it reads. So an output
is off by at most the sum of lambda sqrt(n) u over the ops of some path, and two results, both of
them rounded, by twice that. The condition of a model, by which it makes errors larger than its
values, is taken as 1: a badly conditioned one is refused rather than passed.
"""

from __future__ import annotations

import math

import onnx_ir as ir

UNIT_ROUNDOFF = 2.0**-24
"""Of float32, rounded to nearest."""

LAMBDA = 4.0
"""See the module."""

_VIEWS = frozenset(
    {"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Slice", "Split"}
    | {"Concat", "Gather", "Expand", "Tile", "Pad", "Cast", "Shape", "Dropout", "Relu", "Max"}
    | {"Min", "MaxPool", "GlobalMaxPool", "Where", "Neg", "Abs", "Constant"}
)
"""Ops that round nothing."""

_WEIGHTED = frozenset({"Conv", "ConvTranspose"})
_OVER_LAST = frozenset({"Softmax", "LogSoftmax", "LayerNormalization", "RMSNormalization"})
_OVER_MAP = frozenset({"GlobalAveragePool", "InstanceNormalization", "GroupNormalization"})
_RECURRENT = frozenset({"LSTM", "GRU", "RNN"})


def sum_tolerance(model: ir.Model) -> float:
    """Relative tolerance for the outputs of a model whose sums may be added in any order.

    Of the path through the model on which roundings add up to most; linear in its ops.
    """
    off: dict[ir.Value, float] = {}
    for node in model.graph:
        before = max((off.get(v, 0.0) for v in node.inputs if v is not None), default=0.0)
        own = 0.0 if node.op_type in _VIEWS else LAMBDA * math.sqrt(sum_length(node))
        for value in node.outputs:
            off[value] = before + own * UNIT_ROUNDOFF
    return 2.0 * max((off.get(value, 0.0) for value in model.graph.outputs), default=0.0)


def sum_length(node: ir.Node) -> int:
    """Additions and products that an element of an op's result takes, at most.

    Where shapes are not known, and for ops that are not known to sum, 1.
    """
    shapes = [_shape(value) for value in node.inputs]
    first = shapes[0] if shapes else ()
    second = shapes[1] if len(shapes) > 1 else ()
    match node.op_type:
        case "MatMul" | "MatMulInteger":
            return max(first[-1] if first else 1, second[-2] if len(second) > 1 else 1)
        case "Gemm" | "FusedMatMul":
            # Whichever of its sides is summed over.
            return max((*first, 1)) if not second else max(min(max(first), max(second)), 1)
        case "Einsum" | "Attention" | "MultiHeadAttention":
            return max((size for shape in shapes for size in shape), default=1)
        case op if op in _WEIGHTED:
            return max(math.prod(second[1:]), 1)
        case op if op in _OVER_LAST:
            return first[-1] if first else 1
        case op if op in _OVER_MAP or op.startswith(("Reduce", "AveragePool", "BatchNorm")):
            return _elements_summed(node, first)
        case op if op in _RECURRENT:
            steps = first[0] if first else 1
            return max(steps, 1) * max(math.prod(second[2:]), 1)
        case _:
            return 1


def _elements_summed(node: ir.Node, read: tuple[int, ...]) -> int:
    """Elements read for each one written; a normalisation by stored numbers sums nothing."""
    if node.op_type == "BatchNormalization":
        return 4
    if node.op_type.endswith("Normalization"):
        return max(math.prod(read[2:]), 1)
    written = _shape(node.outputs[0])
    if node.op_type == "AveragePool":
        kernel = node.attributes.get("kernel_shape")
        return max(math.prod(kernel.as_ints()), 1) if kernel is not None else 1
    return max(math.prod(read) // max(math.prod(written), 1), 1)


def _shape(value: ir.Value | None) -> tuple[int, ...]:
    """Sizes, with 1 for those that are not known; empty where nothing is."""
    if value is None or value.shape is None:
        return ()
    return tuple(size if isinstance(size, int) else 1 for size in value.shape)
