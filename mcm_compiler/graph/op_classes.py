"""Classes of ops that several packages share."""

from __future__ import annotations

ACTIVATIONS = frozenset(
    {
        "Celu", "Clip", "Elu", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "PRelu",
        "Relu", "Selu", "Sigmoid", "Softplus", "Softsign", "Swish", "Tanh", "ThresholdedRelu",
        "com.microsoft.BiasGelu", "com.microsoft.FastGelu", "com.microsoft.Gelu",
        "com.microsoft.QuickGelu",
    }
)  # fmt: skip

ARITHMETIC = frozenset({"Add", "Div", "Mul", "Pow", "Sub"})

ELEMENTWISE_OPS = ACTIVATIONS | ARITHMETIC | frozenset(
    {
        "Abs", "Acos", "Acosh", "And", "Asin", "Asinh", "Atan", "Atanh", "BitShift", "BitwiseAnd",
        "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast", "CastLike", "Ceil", "Cos", "Cosh",
        "DequantizeLinear", "Dropout", "Equal", "Erf", "Exp", "Floor", "Greater", "GreaterOrEqual",
        "Identity", "IsInf", "IsNaN", "Less", "LessOrEqual", "Log", "Max", "Mean", "Min", "Mod",
        "Neg", "Not", "Or", "QuantizeLinear", "Reciprocal", "Round", "Shrink", "Sign", "Sin",
        "Sinh", "Sqrt", "Sum", "Tan", "Where", "Xor",
    }
)  # fmt: skip
"""Each element of the output depends on one element of each operand."""

VIEW_OPS = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze"})
"""The output has the elements of the first operand in the same order."""

SHAPED_BY_VALUES = {
    "AffineGrid": (1,), "BlackmanWindow": (0,), "CenterCropPad": (1,), "Col2Im": (1, 2),
    "ConstantOfShape": (0,), "DFT": (1, 2), "Expand": (1,),
    "GroupQueryAttention": (6,), "HammingWindow": (0,), "HannWindow": (0,), "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1), "OneHot": (1,),
    "Pad": (1, 3), "Range": (0, 1, 2), "ReduceL1": (1,), "ReduceL2": (1,), "ReduceLogSum": (1,),
    "ReduceLogSumExp": (1,), "ReduceMax": (1,), "ReduceMean": (1,), "ReduceMin": (1,),
    "ReduceProd": (1,), "ReduceSum": (1,), "ReduceSumSquare": (1,), "Reshape": (1,),
    "Resize": (2, 3), "STFT": (1, 2, 3), "Slice": (1, 2, 3, 4), "Split": (1,), "Squeeze": (1,),
    "Tile": (1,), "TopK": (1,), "Unsqueeze": (1,), "Upsample": (1,),
}  # fmt: skip
"""Inputs whose values decide the shape of the output."""
