"""Classes of ops that several fusion rules share."""

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
