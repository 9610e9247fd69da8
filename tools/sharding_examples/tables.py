"""The examples. Sizes are such that every factor can be cut in two, in three, and unevenly."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, defs

from mcm_passes.parallelism.rules.operators import elementwise
from sharding_examples.example import Example, Operand


def _op(
    operator: str, *operands: Operand, results: int = 1, version: int = 21, **attributes: Any
) -> Example:
    return Example(operator, operands, attributes, results, version)


_UNARY: dict[str, tuple[str, dict[str, Any]]] = {
    "BitwiseNot": ("i32", {}),
    "BitCast": ("f", {"to": TensorProto.INT32}),
    "Cast": ("f", {"to": TensorProto.INT32}),
    "Not": ("b", {}),
    "RegexFullMatch": ("s", {"pattern": "[a-c]+"}),
}

_BINARY: dict[str, tuple[str, dict[str, Any]]] = {
    "And": ("b", {}),
    "Or": ("b", {}),
    "Xor": ("b", {}),
    "BitShift": ("u8<7", {"direction": "LEFT"}),
    "BitwiseAnd": ("i32", {}),
    "BitwiseOr": ("i32", {}),
    "BitwiseXor": ("i32", {}),
    "StringConcat": ("s", {}),
    "Mod": ("f", {"fmod": 1}),
}

_NEWER = {"BitCast": 26, "SwiGLU": 28, "Swish": 24, "CumProd": 26}


def _elementwise() -> list[Example]:
    found = []
    names = [name for name, maker in elementwise.RULES.items() if maker is elementwise.RULES["Add"]]
    unary = [name for name in names if defs.get_schema(name).max_input == 1]
    for operator in unary:
        kind, attributes = _UNARY.get(operator, ("p", {}))
        version = _NEWER.get(operator, 21)
        found.append(_op(operator, f"{kind} 5 6", version=version, **attributes))
    for operator in (name for name in names if name not in unary):
        kind, attributes = _BINARY.get(operator, ("p", {}))
        version = _NEWER.get(operator, 21)
        if operator == "Where":
            operands: list[Operand] = ["b 4 1 6", "f 5 1", "f 1 6"]
        elif operator == "SwiGLU":
            operands = ["f 4 6", "f 4 6"]
        elif operator in ("Sum", "Max", "Min", "Mean"):
            operands = ["f 4 5 6", "f 5 1", "f 6"]
        elif operator == "PRelu":
            operands = ["f 4 5 6", "f 5 1"]
        else:
            operands = [f"{kind} 4 1 6", f"{kind} 5 6"]
        found.append(_op(operator, *operands, version=version, **attributes))
    return [
        *found,
        _op("Add", "f 4 5", "f"),
        _op("Mul", "f 1 4", "f 5 1"),
        _op("CastLike", "f 5 6", "i32 1"),
        _op("Clip", "f 5 6", np.array(-0.5, np.float32), np.array(0.5, np.float32)),
        _op("Dropout", "f 5 6", results=2),
        _op("QuantizeLinear", "f 4 5 6", "p", "u8"),
        _op("QuantizeLinear", "f 4 5 6", "p 5", "i8 5", axis=1),
        _op("DequantizeLinear", "i8 4 5 6", "p 6", axis=-1),
        _op("DequantizeLinear", "i8 4 10", "p 4 5", axis=1, block_size=2),
    ]


def _reductions() -> list[Example]:
    found = []
    for name in [
        "Sum",
        "SumSquare",
        "L1",
        "Mean",
        "Max",
        "Min",
        "Prod",
        "L2",
        "LogSum",
        "LogSumExp",
    ]:
        found += [
            _op(f"Reduce{name}", "p 4 5 6", (1,)),
            _op(f"Reduce{name}", "p 4 5 6", (0, -1), keepdims=0),
        ]
    return [
        *found,
        _op("ReduceSum", "f 4 5"),
        _op("ReduceSum", "f 4 5", noop_with_empty_axes=1),
        _op("ReduceMean", "f 4 5 6", axes=[1, 2], version=13),
        _op("ArgMax", "f 4 5 6", axis=1),
        _op("ArgMin", "f 4 5 6", axis=-1, keepdims=0),
        _op("GlobalAveragePool", "f 4 5 5 6"),
        _op("GlobalMaxPool", "f 4 5 6"),
        _op("GlobalLpPool", "f 4 5 6 4"),
        _op("CumSum", "f 4 5 6", np.array(1)),
        _op("CumProd", "f 4 5 6", np.array(-1), version=26),
        _op("Det", "f 4 5 3 3"),
    ]


def _products() -> list[Example]:
    return [
        _op("MatMul", "f 4 5 6", "f 6 7"),
        _op("MatMul", "f 4 1 5 6", "f 5 6 7"),
        _op("MatMul", "f 6", "f 4 6 5"),
        _op("MatMul", "f 4 5 6", "f 6"),
        _op("MatMul", "f 6", "f 6"),
        _op("MatMul", "f 5 1", "f 1 6"),
        _op("MatMulInteger", "u8 4 5 6", "i8 6 7", "u8", "i8"),
        _op("MatMulInteger", "u8 5 6", "i8 6 7", "u8", "i8 7"),
        _op("QLinearMatMul", "u8 5 6", "p", "u8", "i8 6 7", "p 7", "i8 7", "p", "u8"),
        _op("Gemm", "f 5 6", "f 6 7", "f 7", alpha=0.5, beta=2.0),
        _op("Gemm", "f 6 5", "f 7 6", "f 5 1", transA=1, transB=1),
        _op("Gemm", "f 5 6", "f 6 7", "f"),
        _op("Gemm", "f 5 6", "f 6 7"),
        _op("Einsum", "f 4 5 6", "f 4 6 7", equation="bij,bjk->bik"),
        _op("Einsum", "f 4 5 6", "f 1 6 7", equation="...ij,...jk->...ik"),
        _op("Einsum", "f 5 6", "f 7", equation="ij,k->jki"),
        _op("Einsum", "f 4 5 5", equation="bii->bi"),
        _op("Einsum", "f 4 5 6", equation="bi...->b..."),
    ]


def _convolutions() -> list[Example]:
    return [
        _op("Conv", "f 4 5 8", "f 6 5 3", "f 6", pads=[1, 1]),
        _op("Conv", "f 4 5 9 8", "f 6 5 3 3", "f 6", strides=[2, 1], pads=[1, 0, 1, 2]),
        _op("Conv", "f 4 5 9 8", "f 6 5 1 1"),
        _op("Conv", "f 4 5 8 10", "f 6 5 2 2", strides=[2, 2]),
        _op("Conv", "f 2 4 8 10", "f 5 4 1 1", strides=[2, 2]),
        _op("Conv", "f 2 8 6 7", "f 12 2 3 3", "f 12", group=4, auto_pad="SAME_UPPER"),
        _op("Conv", "f 2 6 9", "f 6 1 3", group=6, dilations=[2], pads=[2, 2]),
        _op("Conv", "f 2 4 9 9", "f 5 4 3 3", strides=[2, 2], auto_pad="SAME_LOWER"),
        _op("Conv", "f 2 4 9 9", "f 5 4 3 3", auto_pad="VALID"),
        _op("ConvInteger", "u8 4 5 7 6", "u8 6 5 3 3", "u8", pads=[1, 1, 1, 1]),
        _op(
            "QLinearConv",
            "u8 4 5 7 6",
            "p",
            np.array(0, np.uint8),
            "i8 6 5 3 3",
            "p 6",
            np.zeros(6, np.int8),
            "p",
            "u8",
            "i32 6",
            pads=[1, 1, 1, 1],
        ),
        _op("ConvTranspose", "f 4 5 5 4", "f 5 6 3 3", "f 6", strides=[2, 2]),
        _op("ConvTranspose", "f 2 8 6", "f 8 3 3", "f 12", group=4),
        _op("DeformConv", "f 4 2 5 5", "f 6 2 2 2", "f 4 8 4 4", "f 6", version=22),
    ]


def _pooling() -> list[Example]:
    square: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [1, 2], "pads": [1, 1, 1, 1]}
    return [
        _op("MaxPool", "f 4 5 6 9", **square),
        _op("MaxPool", "f 4 5 8 10", kernel_shape=[2, 2], strides=[2, 2]),
        _op("MaxPool", "f 4 5 9", kernel_shape=[2], strides=[2], ceil_mode=1),
        _op("MaxPool", "f 4 5 6", kernel_shape=[2], results=2),
        _op("AveragePool", "f 4 5 6 9", **square),
        _op("AveragePool", "f 4 5 6 9", count_include_pad=1, **square),
        _op("LpPool", "f 4 5 6 9", **square),
        _op("Col2Im", "f 4 20 20", np.array([5, 6]), np.array([2, 2])),
        _op("GridSample", "f 4 5 6 6", "f 4 5 4 2"),
        _op("RoiAlign", "f 4 5 6 6", "p 6 4", "i64<4 6", output_height=2, output_width=3),
        _op(
            "MaxRoiPool",
            "f 2 5 6 6",
            np.array([[i % 2, 0, i % 3, 4, 5] for i in range(5)], np.float32),
            pooled_shape=[2, 2],
        ),
    ]


def _normalisations() -> list[Example]:
    group = ("f 4 12 5", "f 12", "f 12")
    return [
        _op("Softmax", "f 4 5 6"),
        _op("Softmax", "f 4 5 6", axis=1),
        _op("Softmax", "f 4 5 6", axis=1, version=11),
        _op("LogSoftmax", "f 4 5 6"),
        _op("Hardmax", "f 4 5 6", axis=0),
        _op("LpNormalization", "f 4 5 6", axis=1),
        _op("LRN", "f 4 5 6 4", size=3),
        _op("MeanVarianceNormalization", "f 4 5 6 4"),
        _op("LayerNormalization", "f 4 5 6", "f 6", "f 6"),
        _op("LayerNormalization", "f 4 5 6", "f 5 6", axis=1, results=3),
        _op("RMSNormalization", "f 4 5 6", "f 6", version=23),
        _op("BatchNormalization", "f 4 5 6 4", "f 5", "f 5", "f 5", "p 5"),
        _op(
            "BatchNormalization", "f 4 5 6", "f 5", "f 5", "f 5", "p 5", training_mode=1, results=3
        ),
        _op("InstanceNormalization", "f 4 5 6", "f 5", "f 5"),
        _op("GroupNormalization", *group, num_groups=4),
        _op("GroupNormalization", "f 4 12 5", "f 4", "f 4", num_groups=4, version=18),
        _op("DFT", "f 4 5 6 2", None, np.array(1), version=20),
        _op("DFT", "f 4 5 1", axis=1, onesided=1, version=17),
    ]


def _attention() -> list[Example]:
    new: dict[str, Any] = {"version": 24}
    return [
        _op("Attention", "f 4 5 6 8", "f 4 5 7 8", "f 4 5 7 6", "f 6 7", **new),
        _op("Attention", "f 4 12 5 8", "f 4 4 7 8", "f 4 4 7 6", "b 4 1 5 7", **new),
        _op("Attention", "f 4 5 6 8", "f 4 5 6 8", "f 4 5 6 8", is_causal=1, **new),
        _op("Attention", "f 4 5 24", "f 4 7 12", "f 4 7 24", q_num_heads=8, kv_num_heads=4, **new),
        _op(
            "Attention",
            "f 4 5 6 8",
            "f 4 5 3 8",
            "f 4 5 3 6",
            None,
            "f 4 5 4 8",
            "f 4 5 4 6",
            results=3,
            **new,
        ),
        _op("RotaryEmbedding", "f 4 5 6 8", "f 10 4", "f 10 4", "i64<10 4 6", version=23),
        _op("RotaryEmbedding", "f 4 6 40", "f 4 6 4", "f 4 6 4", num_heads=5, version=23),
        _op(
            "LinearAttention",
            "f 4 3 16",
            "f 4 3 8",
            "f 4 3 24",
            "f 4 4 2 6",
            update_rule="linear",
            q_num_heads=8,
            kv_num_heads=4,
            results=2,
            version=27,
        ),
        _op(
            "LinearAttention",
            "f 4 3 8",
            "f 4 3 8",
            "f 4 3 16",
            "f 4 4 2 4",
            "f 4 3 4",
            "p 4 3 4",
            update_rule="gated_delta",
            q_num_heads=4,
            kv_num_heads=4,
            results=2,
            version=27,
        ),
        _op("CausalConvWithState", "f 4 5 6", "f 5 1 3", "f 5", "f 4 5 2", results=2, version=27),
    ]


def _rearranging() -> list[Example]:
    return [
        _op("Transpose", "f 4 5 6", perm=[2, 0, 1]),
        _op("Transpose", "f 4 5"),
        _op("Reshape", "f 4 6 20", (4, 6, 5, 4)),
        _op("Reshape", "f 4 5 6", (0, -1)),
        _op("Reshape", "f 6 4", (4, 6)),
        _op("Reshape", "f 4 5 6 6", (4, 5, 4, 9)),
        _op("Reshape", "f 4 6 5 4", (4, 10, 3, 4)),
        _op("Flatten", "f 4 5 6", axis=2),
        _op("Flatten", "f 4 5 6", axis=0),
        _op("Squeeze", "f 4 1 5 1", (1,)),
        _op("Squeeze", "f 4 1 5"),
        _op("Unsqueeze", "f 4 5", (0, -1)),
        _op("Unsqueeze", "f 4 5", axes=[1], version=11),
        _op("DepthToSpace", "f 4 16 5 6", blocksize=2),
        _op("DepthToSpace", "f 4 16 5 6", blocksize=2, mode="CRD"),
        _op("SpaceToDepth", "f 4 5 8 10", blocksize=2),
        _op("SpaceToDepth", "f 4 5 8 10", blocksize=2, mode="CRD", version=28),
    ]


def _extents() -> list[Example]:
    scales = np.array([1, 1, 2, 1], np.float32)
    return [
        _op("Concat", "f 4 5 6", "f 4 2 6", axis=1),
        _op("Concat", "f 4 5 6", "f 4 5 6", axis=-1),
        _op("Concat", "f 4 5", "f 4 3", axis=1),
        _op("Concat", "f 4 5", axis=0),
        _op("Split", "f 4 9 5", axis=1, num_outputs=3, results=3),
        _op("Split", "f 4 12 5", (3, 9), axis=1, results=2),
        _op("Split", "f 4 9", axis=1, split=[6, 3], results=2, version=11),
        _op("Split", "f 4 5 6", (2, 3), axis=1, results=2),
        _op("Slice", "f 4 5 6", (1,), (4,), (1,)),
        _op("Slice", "f 4 9 6", (3,), (6,), (1,)),
        _op("Slice", "f 9 4", starts=[-6], ends=[99], axes=[0], version=9),
        _op("Slice", "f 4 5 6", (0, 0), (2, 5)),
        _op("Slice", "f 4 5 6", (-1, 0), (-10, 9), (2, 0), (-1, 1)),
        _op("Pad", "f 4 5 6", (0, 1, 0, 0, 2, 0)),
        _op("Pad", "f 4 5 6", (1, 1), None, (2,), mode="reflect"),
        _op("CenterCropPad", "f 4 5 6", (3, 6), axes=[1, 2]),
        _op("Resize", "f 4 5 4 6", None, scales),
        _op("Resize", "f 4 5 4 6", None, None, (4, 5, 8, 6), mode="linear"),
        _op(
            "Resize",
            "f 1 1 7 8",
            None,
            None,
            (7, 10),
            axes=[2, 3],
            keep_aspect_ratio_policy="not_larger",
        ),
        _op("Upsample", "f 4 5 4 6", scales, version=9),
        _op("Expand", "f 4 1 6", (5, 1, 5, 6)),
        _op("Tile", "f 4 5", (4, 1)),
        _op("ConstantOfShape", (4, 5)),
    ]


def _indexing() -> list[Example]:
    written = np.array([[0, 1], [3, 2], [1, 0]])
    return [
        _op("Gather", "f 9 5", "i64<9 4 6"),
        _op("Gather", "f 5 7 6", "i64<7 4", axis=1),
        _op("Gather", "f 5 7", np.array(-2), axis=1),
        _op("Gather", "f 5 7", "i64<7", axis=1),
        _op("GatherElements", "f 4 5 6", "i64<5 4 3 6", axis=1),
        _op("GatherND", "f 4 5 6", "i64<4 7 2"),
        _op("GatherND", "f 4 5 6", "i64<5 4 7 1", batch_dims=1),
        _op("ScatterElements", "f 4 5 6", "i64<5 4 1 6", "f 4 1 6", axis=1),
        _op("ScatterElements", "f 4 5 6", "i64<5 4 3 5", "f 4 3 5", axis=1, reduction="add"),
        _op("Scatter", "f 4 5", "i64<5 4 1", "f 4 1", axis=1, version=10),
        _op("ScatterND", "f 4 5 6", written, "f 3 6"),
        _op("TensorScatter", "f 4 5 8 6", "f 4 5 3 6", "i64<5 4", version=24),
        _op("OneHot", "i64<7 4 5", np.array(7), "f 2"),
        _op("OneHot", "i64<7 4 5", np.array(7), "f 2", axis=1),
        _op("TopK", "f 4 5 6", np.array([3]), axis=1, results=2),
        _op("Compress", "f 4 5 6", "b 5", axis=1),
        _op("ReverseSequence", "f 5 4 6", np.array([1, 5, 3, 2])),
        _op("Trilu", "f 4 5 6"),
    ]


def _losses() -> list[Example]:
    scores, labels = "f 4 7 5", "i64<7 4 5"
    loss, nll = "SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"
    return [
        _op(loss, scores, labels),
        _op(loss, scores, labels, reduction="none", results=2),
        _op(loss, scores, labels, reduction="sum", results=2),
        _op(loss, scores, labels, "p 7"),
        _op(loss, scores, labels, "p 7", reduction="sum"),
        _op(loss, scores, labels, ignore_index=3),
        _op(nll, scores, labels),
        _op(nll, scores, labels, reduction="none"),
        _op(nll, "f 5 7", "i64<7 5", "p 7", reduction="sum"),
    ]


def _batch_only() -> list[Example]:
    def gates(count: int) -> tuple[Operand, ...]:
        return "f 3 4 5", f"f 1 {count * 6} 5", f"f 1 {count * 6} 6", f"f 1 {count * 12}"

    return [
        _op("LSTM", *gates(4), np.array([3, 2, 1, 3], np.int32), hidden_size=6, results=3),
        _op("LSTM", *gates(4), None, "f 1 4 6", "f 1 4 6", "f 1 18", hidden_size=6, results=3),
        _op("GRU", *gates(3), hidden_size=6, results=2),
        _op(
            "RNN",
            "f 3 4 5",
            "f 2 6 5",
            "f 2 6 6",
            hidden_size=6,
            direction="bidirectional",
            results=2,
        ),
        _op(
            "LSTM",
            *("f 3 4 5", "f 2 24 5", "f 2 24 6", "f 2 48", None, "f 2 4 6", "f 2 4 6"),
            hidden_size=6,
            direction="bidirectional",
            activations=["Sigmoid", "Tanh", "Tanh", "HardSigmoid", "Relu", "Tanh"],
            results=3,
        ),
        _op(
            "GRU",
            *("f 3 4 5", "f 2 18 5", "f 2 18 6"),
            hidden_size=6,
            direction="bidirectional",
            linear_before_reset=1,
            results=2,
        ),
        _op("STFT", "f 4 16 1", np.array(4), None, np.array(8)),
        _op(
            "TfIdfVectorizer",
            "i64<6 4 9",
            mode="TF",
            min_gram_length=1,
            max_gram_length=2,
            max_skip_count=0,
            ngram_counts=[0, 4],
            ngram_indexes=[0, 1, 2, 3, 4, 5],
            pool_int64s=[2, 3, 5, 4, 5, 2, 1, 3],
        ),
        _op("AffineGrid", "f 4 2 3", (4, 1, 5, 6)),
    ]


FAMILIES: dict[str, list[Example]] = {
    "elementwise": _elementwise(),
    "reductions": _reductions(),
    "products": _products(),
    "convolutions": _convolutions(),
    "pooling": _pooling(),
    "normalisations": _normalisations(),
    "attention": _attention(),
    "rearranging": _rearranging(),
    "extents": _extents(),
    "indexing": _indexing(),
    "losses": _losses(),
    "batch_only": _batch_only(),
}
"""Examples of each family; those that are never divided need none."""
