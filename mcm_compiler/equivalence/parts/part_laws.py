"""How a part of an operand becomes a part of a result: one law for each op type that has one.

Each law states a fact of the ONNX operator alone: if these operands are cut to the same units along
these axes, the result is cut along that axis, or is a partial sum. An op type or an axis that is
not here has no law, and nothing is said about its parts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from mcm_compiler.equivalence.parts.value_views import Shape
from mcm_compiler.equivalence.values.value_numbers import OpKey
from mcm_compiler.graph.structure import schema_of

Axes = dict[int, tuple[int, int]]
"""For each operand that is cut, `(axis, elements of a unit)`."""


@dataclass(frozen=True)
class Law:
    """How an op falls into parts.

    Attributes:
        operands: that are cut; all others are the same for all parts.
        outputs: `(axis, elements of a unit)` for each output; empty for a partial result.
        combined: the op that puts partial results together, such as "Add"; "" for parts.
        counted_once: operand that only one of the partial results may count in, or -1.
        units_attribute: an attribute that is the number of units of the part, or "".
        units_each: attributes that are a number for each unit of the part.
    """

    operands: Axes
    outputs: tuple[tuple[int, int], ...] = ()
    combined: str = ""
    counted_once: int = -1
    units_attribute: str = ""
    units_each: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True)
class WholeOp:
    """An op of the model, with what a law may ask.

    Attributes:
        key: of the op.
        shapes: of the operands, None where not known or left out.
        results: shapes of the outputs.
        ints: elements of a constant operand of integers, or None.
    """

    key: OpKey
    shapes: tuple[Shape | None, ...]
    results: tuple[Shape | None, ...]
    ints: Callable[[int], tuple[int, ...] | None] = field(compare=False)


def law_of(op: WholeOp, position: int, axis: int) -> Law | None:
    """Law for operand `position` cut along `axis`; None where there is none."""
    key = op.key
    if (
        key.bodies
        or key.attribute("broadcast") is not None
        or not op.results
        or op.results[0] is None
    ):
        return None
    if position >= len(op.shapes) or op.shapes[position] is None:
        return None
    schema = schema_of(key.op_type, key.version, key.domain)
    if schema is not None and len(key.inputs) < schema.min_input:
        return None
    if key.domain == "com.microsoft":
        law = _MICROSOFT_LAWS.get(key.op_type)
        return None if law is None else law(op, position, axis)
    if key.domain:
        return None
    if key.op_type in _ELEMENTWISE:
        return _broadcast(op, position, axis)
    law = _expand if key.op_type == "Expand" else _LAWS.get(key.op_type)
    return None if law is None else law(op, position, axis)


def sizes_operand(key: OpKey) -> int:
    """The operand that is the shape of the result, which a part has of its own; or -1."""
    return 1 if key.op_type == "Expand" and not key.domain else -1


def has_law(domain: str, op_type: str) -> bool:
    """Return whether parts of ops of a type can be followed along some axis."""
    if domain == "com.microsoft":
        return op_type in _MICROSOFT_LAWS
    return not domain and (op_type in _ELEMENTWISE or op_type in _LAWS)


def _broadcast(op: WholeOp, position: int, axis: int) -> Law | None:
    """Element by element: whoever has the axis is cut."""
    result, own = op.results[0], op.shapes[position]
    assert result is not None
    assert own is not None
    if len(op.results) > 1:
        return None
    out = axis + len(result) - len(own)
    operands: Axes = {}
    for at, number in enumerate(op.key.inputs):
        if number is None:
            continue
        shape = op.shapes[at]
        if shape is None:
            return None
        along = out - (len(result) - len(shape))
        if along >= 0 and shape[along] > 1:
            if shape[along] != result[out]:
                return None
            operands[at] = (along, 1)
    return Law(operands, ((out, 1),)) if operands.get(position) == (axis, 1) else None


def _same_axis(op: WholeOp, position: int, axis: int) -> Law | None:
    if position or len(op.key.inputs) != 1 or len(op.results) != 1:
        return None
    return Law({0: (axis, 1)}, ((axis, 1),))


_INTEGER_PRODUCTS: Mapping[str, tuple[int, tuple[int, ...], tuple[int, ...]]] = {
    "MatMulInteger": (1, (2,), (3,)),
    "QLinearMatMul": (3, (1, 2), (4, 5)),
}
"""The second factor, and the scales and zero points of either."""


def _integer_product(op: WholeOp, position: int, axis: int) -> Law | None:
    """A `MatMul`, with one scale and zero point, or one for each row or column."""
    at, of_rows, of_columns = _INTEGER_PRODUCTS[op.key.op_type]
    left, right = op.shapes[0], op.shapes[at]
    if left is None or right is None:
        return None
    loops = {(0, len(left) - 2): of_rows, (at, len(right) - 1): of_columns}
    many = {k: loop for loop, each in loops.items() for k in each if _has_many(op, k)}
    if any(len(op.shapes[k] or ()) != 1 for k in many):
        return None
    loop = many.get(position, (position, axis))
    if loop[0] not in (0, at):
        return None
    law = _matmul(replace(op, shapes=(left, right)), int(loop[0] == at), loop[1])
    if law is None or (law.combined and op.key.op_type != "MatMulInteger"):
        return None
    operands = {(0, at)[k]: place for k, place in law.operands.items()}
    with_loop = {k: (0, 1) for k, own in many.items() if own == loop}
    return replace(law, operands=operands | with_loop)


def _matmul(op: WholeOp, position: int, axis: int) -> Law | None:
    left, right, result = op.shapes[0], op.shapes[1], op.results[0]
    if left is None or right is None or result is None or min(len(left), len(right)) < 2:
        return None
    rank = len((left, right)[position])
    along = axis - rank  # from the end
    if along == (-1 if position == 0 else -2):
        operands: Axes = {0: (len(left) - 1, 1), 1: (len(right) - 2, 1)}
        return Law(operands, combined="Add")
    if along >= -2:
        return Law({position: (axis, 1)}, ((len(result) + along, 1),))
    operands = {}
    for at, shape in enumerate((left, right)):
        if len(shape) + along >= 0 and shape[along] > 1:
            operands[at] = (len(shape) + along, 1)
    same = len({(left, right)[at][along] for at in operands}) == 1
    return Law(operands, ((len(result) + along, 1),)) if same and position in operands else None


def _blocked_matmul(op: WholeOp, position: int, axis: int) -> Law | None:
    """Columns have blocks, scales and zero points of their own: elements in a row of operands."""
    left, result, columns = op.shapes[0], op.results[0], op.key.number("N", 0)
    if left is None or result is None or columns < 1 or len(op.results) > 1:
        return None
    if position == 0:
        return Law({0: (axis, 1)}, ((axis, 1),)) if axis < len(left) - 1 else None
    operands: Axes = {}
    for at in (1, 2, 3, 5):
        if op.key.reads(at) is not None:
            shape = op.shapes[at]
            if not shape or shape[0] % columns:
                return None
            operands[at] = (0, shape[0] // columns)
    if operands.get(position, (-1, 0))[0] != axis:
        return None
    return Law(operands, ((len(result) - 1, 1),), units_attribute="N")


def _gather_blocks(op: WholeOp, position: int, axis: int) -> Law | None:
    """Columns of a table in blocks of a row; a byte may hold several elements or zero points."""
    table, indices, result = op.shapes[0], op.shapes[1], op.results[0]
    if not table or indices is None or not result or len(table) != 2 or len(op.results) > 1:
        return None
    if op.key.number("gather_axis", 0) or op.key.number("quantize_axis", 1) != 1:
        return None
    if position == 1:
        return Law({1: (axis, 1)}, ((axis, 1),))
    given = [at for at in (0, 2, 3) if op.key.reads(at) is not None]
    shapes = [shape for at in given if (shape := op.shapes[at]) is not None]
    if axis != 1 or [len(shape) for shape in shapes] != [2] * len(given):
        return None
    extents = [shape[-1] for shape in shapes]
    units = math.gcd(*extents)
    operands = {at: (1, extent // units) for at, extent in zip(given, extents, strict=True)}
    return Law(operands, ((len(indices), result[-1] // units),)) if position in operands else None


def _gemm(op: WholeOp, position: int, axis: int) -> Law | None:
    result = op.results[0]
    if result is None or op.shapes[0] is None or op.shapes[1] is None:
        return None
    rows, left = (1, 0) if op.key.number("transA", 0) else (0, 1)
    right, columns = (1, 0) if op.key.number("transB", 0) else (0, 1)
    has_bias = op.key.reads(2) is not None
    bias = op.shapes[2] if has_bias else ()
    if bias is None:
        return None
    if (position, axis) in ((0, left), (1, right)):
        operands: Axes = {0: (left, 1), 1: (right, 1)}
        return Law(operands, combined="Add", counted_once=2 if has_bias else -1)
    out = {(0, rows): 0, (1, columns): 1}.get((position, axis))
    if position == 2:
        out = axis + 2 - len(bias)
    if out is None:
        return None
    operands = {0: (rows, 1)} if out == 0 else {1: (columns, 1)}
    along = out - (2 - len(bias))
    if along >= 0 and bias[along] > 1:
        operands[2] = (along, 1)
    return Law(operands, ((out, 1),)) if position in operands else None


def _has_many(op: WholeOp, position: int) -> bool:
    """True if an operand, one of one element or of one for each index, has several."""
    shape = op.shapes[position] if op.key.reads(position) is not None else None
    return shape is not None and math.prod(shape) > 1


CONVOLUTIONS: Mapping[str, tuple[int, tuple[int, ...]]] = {
    "Conv": (1, (2,)),
    "ConvInteger": (1, (3,)),
    "QLinearConv": (3, (4, 5, 8)),
}
"""The operand with the kernel, and those with one element for each channel made."""


def _conv(op: WholeOp, position: int, axis: int) -> Law | None:
    at, of_channels = CONVOLUTIONS[op.key.op_type]
    image, kernel = op.shapes[0], op.shapes[at]
    if image is None or kernel is None:
        return None
    groups = op.key.number("group", 1)
    if (position, axis) == (0, 0):
        return Law({0: (0, 1)}, ((0, 1),))
    each = [at, *(k for k in of_channels if _has_many(op, k))]
    makes = position in each and axis == 0
    if groups == 1:
        if makes:
            return Law(dict.fromkeys(each, (0, 1)), ((1, 1),))
        if (position, axis) in ((0, 1), (at, 1)) and op.key.op_type != "QLinearConv":
            has_bias = op.key.op_type == "Conv" and op.key.reads(2) is not None
            operands: Axes = {0: (1, 1), at: (1, 1)}
            return Law(operands, combined="Add", counted_once=2 if has_bias else -1)
        return None
    if not makes and (position, axis) != (0, 1):
        return None
    if image[1] % groups or kernel[0] % groups:
        return None
    made = kernel[0] // groups
    operands = {0: (1, image[1] // groups)} | dict.fromkeys(each, (0, made))
    return Law(operands, ((1, made),), units_attribute="group")


def _conv_transpose(op: WholeOp, position: int, axis: int) -> Law | None:
    """The kernel has the channels that are read first. `output_shape` names none of channels."""
    if op.key.number("group", 1) != 1:
        return None
    has_bias = op.key.reads(2) is not None
    match (position, axis):
        case (0, 0):
            return Law({0: (0, 1)}, ((0, 1),))
        case (1, 1) | (2, 0):
            return Law({1: (1, 1)} | ({2: (0, 1)} if has_bias else {}), ((1, 1),))
        case (0, 1) | (1, 0):
            operands: Axes = {0: (1, 1), 1: (0, 1)}
            return Law(operands, combined="Add", counted_once=2 if has_bias else -1)
        case _:
            return None


def _batch_normalization(op: WholeOp, position: int, axis: int) -> Law | None:
    old = op.key.version < 7 or op.key.attribute("spatial") is not None
    if old or op.key.number("training_mode", 0) or len(op.results) != 1:
        return None
    if (position == 0 and axis == 1) or position:
        return Law({0: (1, 1)} | dict.fromkeys(range(1, 5), (0, 1)), ((1, 1),))
    return Law({0: (axis, 1)}, ((axis, 1),))


def _instance_normalization(op: WholeOp, position: int, axis: int) -> Law | None:
    if (position == 0 and axis == 1) or position:
        return Law({0: (1, 1), 1: (0, 1), 2: (0, 1)}, ((1, 1),))
    return Law({0: (0, 1)}, ((0, 1),)) if axis == 0 else None


def _softmax(op: WholeOp, position: int, axis: int) -> Law | None:
    """Before version 13 all axes from `axis` on are one."""
    shape = op.shapes[0]
    assert shape is not None
    late = op.key.version >= 13
    along = op.key.number("axis", -1 if late else 1) % len(shape)
    free = axis != along if late else axis < along
    return Law({0: (axis, 1)}, ((axis, 1),)) if free else None


def _layer_normalization(op: WholeOp, position: int, axis: int) -> Law | None:
    shape = op.shapes[0]
    assert shape is not None
    along = op.key.number("axis", -1) % len(shape)
    if position or axis >= along:
        return None
    if any(other is None or len(other) > len(shape) - along for other in op.shapes[1:]):
        return None
    return Law({0: (axis, 1)}, ((axis, 1),) * len(op.results))


def _pool(op: WholeOp, position: int, axis: int) -> Law | None:
    return Law({0: (axis, 1)}, ((axis, 1),)) if axis < 2 and len(op.results) == 1 else None


def _transpose(op: WholeOp, position: int, axis: int) -> Law | None:
    shape = op.shapes[0]
    assert shape is not None
    order = op.key.numbers("perm") or tuple(range(len(shape)))[::-1]
    if axis not in order:
        return None
    return Law({0: (axis, 1)}, ((order.index(axis), 1),))


_REDUCTIONS = (
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
    "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare",
)  # fmt: skip
_REDUCED_BY: Mapping[str, str] = {
    "ReduceSum": "Add",
    "ReduceMax": "Max",
    "ReduceMin": "Min",
    "ReduceProd": "Mul",
}


def _reduce(op: WholeOp, position: int, axis: int) -> Law | None:
    shape = op.shapes[0]
    if shape is None or position:
        return None
    axes = op.key.numbers("axes")
    if axes is None and op.key.reads(1) is not None:
        axes = op.ints(1)
        if axes is None:
            return None
    if not axes:
        if op.key.number("noop_with_empty_axes", 0):
            return None
        axes = tuple(range(len(shape)))
    gone = {other % len(shape) for other in axes}
    if axis in gone:
        combined = _REDUCED_BY.get(op.key.op_type, "")
        return Law({0: (axis, 1)}, combined=combined) if combined else None
    kept = axis if op.key.number("keepdims", 1) else axis - sum(other < axis for other in gone)
    return Law({0: (axis, 1)}, ((kept, 1),))


def _gather(op: WholeOp, position: int, axis: int) -> Law | None:
    table, indices = op.shapes[0], op.shapes[1]
    if not table or indices is None:
        return None
    along = op.key.number("axis", 0) % len(table)
    if position == 1:
        return Law({1: (axis, 1)}, ((along + axis, 1),))
    if axis == along:
        return None
    return Law({0: (axis, 1)}, ((axis if axis < along else axis + len(indices) - 1, 1),))


def _concat(op: WholeOp, position: int, axis: int) -> Law | None:
    shape = op.shapes[position]
    assert shape is not None
    if axis == op.key.number("axis", 0) % len(shape):
        return None
    return Law(dict.fromkeys(range(len(op.shapes)), (axis, 1)), ((axis, 1),))


def _expand(op: WholeOp, position: int, axis: int) -> Law | None:
    """Along axes that keep their size; of the others, all parts are alike."""
    result, own = op.results[0], op.shapes[0]
    assert result is not None
    if position or own is None or len(own) > len(result):
        return None
    out = axis + len(result) - len(own)
    return Law({0: (axis, 1)}, ((out, 1),)) if own[axis] == result[out] else None


def _quantize(op: WholeOp, position: int, axis: int) -> Law | None:
    """Scales and zero points are one, or one for each index of `axis` or for each block of it."""
    shape, scale = op.shapes[0], op.shapes[1]
    if not shape or scale is None or len(op.results) != 1:
        return None
    along, block = op.key.number("axis", 1) % len(shape), op.key.number("block_size", 0)
    further = [at for at in range(1, len(op.shapes)) if op.key.inputs[at] is not None]
    if any(op.shapes[at] != scale for at in further):
        return None
    if block:
        if len(scale) != len(shape) or scale[along] * block != shape[along]:
            return None
        unit = block if axis == along else 1
        return Law({0: (axis, unit)} | dict.fromkeys(further, (axis, 1)), ((axis, unit),))
    if math.prod(scale) == 1:
        return Law({0: (axis, 1)}, ((axis, 1),)) if position == 0 else None
    if len(scale) != 1 or (position and axis):
        return None
    if position or axis == along:
        return Law({0: (along, 1)} | dict.fromkeys(further, (0, 1)), ((along, 1),))
    return Law({0: (axis, 1)}, ((axis, 1),))


def _resize(op: WholeOp, position: int, axis: int) -> Law | None:
    """Along axes that keep their size; `sizes` would name those of the part."""
    scales = op.ints(2) if op.key.reads(2) is not None else None
    if scales is None or op.key.attribute("axes") is not None or op.key.reads(1) is not None:
        return None
    kept = position == 0 and axis < len(scales) and scales[axis] == 1
    return Law({0: (axis, 1)}, ((axis, 1),)) if kept else None


def _grouped_heads(op: WholeOp, position: int, axis: int) -> Law | None:
    """Every key-value head has its queries, its past and its present; all else is of all heads."""
    grouped = op.key.op_type == "GroupQueryAttention"
    pasts = (3, 4) if grouped else (6, 7)
    heads = op.key.number("num_heads", 0)
    groups = op.key.number("kv_num_heads", 0) if grouped else heads
    given = (0, 1, 2, *pasts)
    allowed = {*given, *((5, 6, 7, 8) if grouped else (5,))}
    named = {at for at, number in enumerate(op.key.inputs) if number is not None}
    if not named.issuperset(given) or not named <= allowed:
        return None
    shapes = [op.shapes[at] if at < len(op.shapes) else None for at in given]
    bias = None if grouped or op.key.reads(5) is None else op.shapes[5]
    if groups < 1 or heads % groups or any(s is None for s in shapes) or len(op.results) != 3:
        return None
    if [len(s or ()) for s in shapes] != [3, 3, 3, 4, 4] or (bias is not None and len(bias) != 4):
        return None
    made, *ends = [shape[2] if shape else 0 for shape in (op.results[0], *shapes[:3])]
    if any(not end or end % groups for end in (made, *ends)):
        return None
    operands: Axes = {at: (2, end // groups) for at, end in enumerate(ends)}
    operands |= dict.fromkeys(pasts, (1, 1))
    if bias is not None and bias[1] > 1:
        operands[5] = (1, 1)
    if operands.get(position, (-1, 0))[0] != axis:
        return None
    counts = {"num_heads": heads // groups} | ({"kv_num_heads": 1} if grouped else {})
    return Law(operands, ((2, made // groups), (1, 1), (1, 1)), units_each=counts)


def operands_in_a_row(key: OpKey, row: Shape) -> tuple[tuple[int, int], ...]:
    """Columns of operand 0 that are the first operands, where an op has these in one; else none.

    GroupQueryAttention without keys and values has them behind the queries. It computes what it
    does with each of the three as an operand.
    """
    if (key.domain, key.op_type) != ("com.microsoft", "GroupQueryAttention"):
        return ()
    heads, groups = key.number("num_heads", 0), key.number("kv_num_heads", 0)
    if key.reads(1) is not None or key.reads(2) is not None or len(key.inputs) < 3:
        return ()
    if len(row) != 3 or min(heads, groups) < 1 or row[2] % (heads + 2 * groups):
        return ()
    width = row[2] // (heads + 2 * groups)
    return tuple(itertools.pairwise([0, heads * width, (heads + groups) * width, row[2]]))


def _attention(op: WholeOp, position: int, axis: int) -> Law | None:
    """The same with an axis of heads, which masks may have."""
    query, key = op.shapes[0], op.shapes[1]
    if query is None or key is None or len(query) != 4 or len(key) != 4 or query[1] % key[1]:
        return None
    if axis != 1:
        return None
    each = query[1] // key[1]
    given = [at for at, number in enumerate(op.key.inputs) if number is not None]
    operands: Axes = {at: (1, each if at == 0 else 1) for at in given if at in (0, 1, 2, 4, 5)}
    if 3 in given:
        mask = op.shapes[3]
        if mask is None or (len(mask) > 2 and mask[-3] not in (1, query[1])):
            return None
        if len(mask) > 2 and mask[-3] > 1:
            operands[3] = (len(mask) - 3, each)
    outputs = ((1, each), (1, 1), (1, 1), (1, each))[: len(op.results)]
    return Law(operands, outputs) if position in operands else None


def _scatter(op: WholeOp, position: int, axis: int) -> Law | None:
    """A cache that tokens are written into, with as many heads."""
    shape = op.shapes[0]
    along = op.key.number("axis", -2) % len(shape or (1,))
    if shape is None or position > 1 or axis in (0, along) or len(op.results) != 1:
        return None
    return Law({0: (axis, 1), 1: (axis, 1)}, ((axis, 1),))


_MICROSOFT_LAWS: Mapping[str, Callable[[WholeOp, int, int], Law | None]] = {
    **dict.fromkeys(("FastGelu", "Gelu", "QuickGelu"), _same_axis),
    **dict.fromkeys(("GroupQueryAttention", "MultiHeadAttention"), _grouped_heads),
    "GatherBlockQuantized": _gather_blocks,
    "MatMulNBits": _blocked_matmul,
}

_ELEMENTWISE = frozenset(
    {"Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "BitwiseAnd",
     "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast", "Ceil", "Celu", "Clip", "Cos", "Cosh", "Div",
     "Elu", "Equal", "Erf", "Exp", "Floor", "Gelu", "Greater", "GreaterOrEqual", "HardSigmoid",
     "HardSwish", "IsInf", "IsNaN", "LeakyRelu", "Less", "LessOrEqual", "Log", "Max", "Mean",
     "Min", "Mish", "Mod", "Mul", "Neg", "Not", "Or", "PRelu", "Pow", "Reciprocal", "Relu",
     "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt",
     "Sub", "Sum", "Tan", "Tanh", "ThresholdedRelu", "Where", "Xor"}
)  # fmt: skip
"""Each element of the result comes from the elements at its place, after broadcasting."""

_LAWS: Mapping[str, Callable[[WholeOp, int, int], Law | None]] = {
    **dict.fromkeys(
        ("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LpPool", "MaxPool"), _pool
    ),
    **dict.fromkeys(("DequantizeLinear", "QuantizeLinear"), _quantize),
    **dict.fromkeys(("LogSoftmax", "Softmax"), _softmax),
    **dict.fromkeys(_REDUCTIONS, _reduce),
    "Attention": _attention,
    "BatchNormalization": _batch_normalization,
    "Concat": _concat,
    **dict.fromkeys(CONVOLUTIONS, _conv),
    **dict.fromkeys(_INTEGER_PRODUCTS, _integer_product),
    "ConvTranspose": _conv_transpose,
    "Gather": _gather,
    "Gemm": _gemm,
    "InstanceNormalization": _instance_normalization,
    "LayerNormalization": _layer_normalization,
    "MatMul": _matmul,
    "Resize": _resize,
    "TensorScatter": _scatter,
    "Transpose": _transpose,
}
