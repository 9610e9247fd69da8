"""Constraints of an op on the sizes of its inputs: equations between sizes, least sizes.

Only what holds of every run that succeeds is an equation. Where an op also takes a size of 1, as
the broadcasting ones do, the equation is weak.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from mcm_compiler.diagnostics import quote
from mcm_compiler.drafting.symbols import Shape, Size

MAX_CONSTANT = 1 << 16
"""Elements of a constant that is looked into."""


@dataclass(frozen=True)
class Equation:
    """Two sizes that are equal.

    Attributes:
        left: a size or a symbol.
        right: the same.
        reason: which op asks for it, in a few words.
        weak: whether 1 would do as well.
    """

    left: int | str
    right: int | str
    reason: str
    weak: bool = False


@dataclass(frozen=True)
class AtLeast:
    """A symbol that has to be as large as the largest index into it asks for."""

    symbol: str
    size: int
    reason: str


Asked = Equation | AtLeast


class _Node:
    """An op with the shapes of its inputs as far as they are known."""

    def __init__(self, node: ir.Node, shapes: Mapping[str, Shape]) -> None:
        self.node = node
        self._shapes = shapes
        self.place = f"needed by {node.op_type} {quote(node.name or '')}"

    def shape(self, position: int) -> Shape | None:
        value = self.node.inputs[position] if position < len(self.node.inputs) else None
        return self._shapes.get(value.name or "") if value is not None else None

    def dim(self, position: int, axis: int) -> Size:
        shape = self.shape(position)
        return shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None

    def constant(self, position: int) -> np.ndarray | None:
        value = self.node.inputs[position] if position < len(self.node.inputs) else None
        tensor = ir.convenience.get_const_tensor(value) if value is not None else None
        return None if tensor is None or tensor.size > MAX_CONSTANT else tensor.numpy()

    def whole(self, name: str, default: int) -> int:
        return self.node.attributes.get_int(name, default)

    def floats(self, name: str) -> int:
        attribute = self.node.attributes.get(name)
        return len(attribute.value) if attribute is not None else 0

    def equal(self, left: Size, right: Size, weak: bool = False) -> Iterator[Asked]:
        if left is not None and right is not None and left != right:
            yield Equation(left, right, self.place, weak)


def asked_of(node: ir.Node, shapes: Mapping[str, Shape]) -> list[Asked]:
    """Constraints of an op on the symbols in the shapes of its inputs."""
    rule = _RULES.get(node.op_type)
    if rule is None:
        return []
    return [
        asked
        for asked in rule(_Node(node, shapes))
        if isinstance(asked, AtLeast) or isinstance(asked.left, str) or isinstance(asked.right, str)
    ]


def _matmul(second: int) -> Callable[[_Node], Iterator[Asked]]:
    def rule(op: _Node) -> Iterator[Asked]:
        left, right = op.shape(0), op.shape(second)
        if not left or not right:
            return
        yield from op.equal(op.dim(0, -1), op.dim(second, -2 if len(right) > 1 else -1))
        yield from _aligned(op, left[:-2], right[:-2])

    return rule


def _gemm(op: _Node) -> Iterator[Asked]:
    left = op.dim(0, 0 if op.whole("transA", 0) else 1)
    right = op.dim(1, 1 if op.whole("transB", 0) else 0)
    yield from op.equal(left, right)


def _conv(weight: int, transposed: bool = False) -> Callable[[_Node], Iterator[Asked]]:
    def rule(op: _Node) -> Iterator[Asked]:
        inner = op.dim(weight, 0 if transposed else 1)
        if isinstance(inner, int):
            yield from op.equal(op.dim(0, 1), inner * (1 if transposed else op.whole("group", 1)))

    return rule


def _recurrent(op: _Node) -> Iterator[Asked]:
    layout = op.whole("layout", 0)
    yield from op.equal(op.dim(0, 2), op.dim(1, 2))
    for state in (5, 6):
        yield from op.equal(op.dim(state, 1 if layout else 0), op.dim(1, 0))
        yield from op.equal(op.dim(state, 0 if layout else 1), op.dim(0, 0 if layout else 1))
        yield from op.equal(op.dim(state, 2), op.dim(2, 2))
    yield from op.equal(op.dim(4, 0), op.dim(0, 0 if layout else 1))


def _quantised_recurrent(op: _Node) -> Iterator[Asked]:
    """Its weights are transposed: `[directions, input, 4 hidden]`."""
    yield from op.equal(op.dim(0, 2), op.dim(1, 1))
    for state in (5, 6):
        yield from op.equal(op.dim(state, 0), op.dim(1, 0))
        yield from op.equal(op.dim(state, 1), op.dim(0, 1))
        yield from op.equal(op.dim(state, 2), op.dim(2, 1))


def _channels(op: _Node) -> Iterator[Asked]:
    yield from op.equal(op.dim(0, 1), op.dim(1, 0))


def _last_axes(op: _Node) -> Iterator[Asked]:
    scale, data = op.shape(1), op.shape(0)
    if scale and data and len(scale) <= len(data):
        for axis in range(1, len(scale) + 1):
            if scale[-axis] != 1:
                yield from op.equal(data[-axis], scale[-axis])


def _broadcast(op: _Node) -> Iterator[Asked]:
    known = [shape for i in range(len(op.node.inputs)) if (shape := op.shape(i)) is not None]
    for index, left in enumerate(known):
        for right in known[index + 1 :]:
            yield from _aligned(op, left, right)


def _aligned(op: _Node, left: Shape, right: Shape) -> Iterator[Asked]:
    for axis in range(1, min(len(left), len(right)) + 1):
        if left[-axis] != 1 and right[-axis] != 1:
            yield from op.equal(left[-axis], right[-axis], weak=True)


def _concat(op: _Node) -> Iterator[Asked]:
    known = [shape for i in range(len(op.node.inputs)) if (shape := op.shape(i)) is not None]
    rank = len(known[0]) if known else 0
    joined = op.whole("axis", 0) % rank if rank else 0
    for other in known[1:]:
        for axis in range(min(rank, len(other))):
            if axis != joined:
                yield from op.equal(known[0][axis], other[axis])


def _reshape(op: _Node) -> Iterator[Asked]:
    data, target = op.shape(0), op.constant(1)
    if data is None or target is None or target.ndim != 1 or (target < 0).any():
        return
    sizes = [int(size) for size in target]
    if op.whole("allowzero", 0) == 0:
        copied = [axis for axis, size in enumerate(sizes) if size == 0]
        if any(axis >= len(data) for axis in copied):
            return
        data = tuple(size for axis, size in enumerate(data) if axis not in copied)
        sizes = [size for size in sizes if size != 0]
    open_sizes = [size for size in data if not isinstance(size, int)]
    if len(open_sizes) != 1 or open_sizes[0] is None:
        return
    rest = math.prod(size for size in data if isinstance(size, int))
    total = math.prod(sizes)
    if rest > 0 and total % rest == 0:
        yield Equation(open_sizes[0], total // rest, op.place)


def _gather(op: _Node) -> Iterator[Asked]:
    indices = op.constant(1)
    size = op.dim(0, op.whole("axis", 0))
    if indices is None or not isinstance(size, str) or indices.size == 0:
        return
    if indices.dtype.kind in "iu":
        most = max(int(indices.max()) + 1, -int(indices.min()))
        yield AtLeast(size, most, op.place)


def _split(op: _Node) -> Iterator[Asked]:
    parts = op.constant(1)
    size = op.dim(0, op.whole("axis", 0))
    if parts is not None and parts.ndim == 1:
        yield from op.equal(size, int(parts.sum()))
    elif sizes := op.node.attributes.get_ints("split", None):
        yield from op.equal(size, sum(sizes))


def _einsum(op: _Node) -> Iterator[Asked]:
    text = op.node.attributes.get_string("equation", "") or ""
    terms = text.partition("->")[0].replace(" ", "").split(",")
    first: dict[str, Size] = {}
    for position, term in enumerate(terms):
        shape = op.shape(position)
        if shape is None or len(term) != len(shape) or not term.isalpha():
            continue
        for letter, size in zip(term, shape, strict=True):
            if first.get(letter) is None:
                first[letter] = size
            else:
                yield from op.equal(first[letter], size)


def _scan(op: _Node) -> Iterator[Asked]:
    """Declarations of a body about its inputs: states as they are, sequences without their axis."""
    body = op.node.attributes.get("body")
    sequences = op.whole("num_scan_inputs", 0)
    if body is None or body.type is not ir.AttributeType.GRAPH:
        return
    inner = body.as_graph().inputs
    if len(inner) != len(op.node.inputs) or not sequences:
        return  # of opset 8, which also takes lengths
    states = len(inner) - sequences
    axes = op.node.attributes.get_ints("scan_input_axes", None) or [0] * sequences
    for position, value in enumerate(inner):
        outer = op.shape(position)
        if outer is None or value.shape is None:
            continue
        if position >= states:
            axis = axes[position - states] % len(outer) if outer else 0
            yield from op.equal(outer[axis], op.dim(states, axes[0]))
            outer = outer[:axis] + outer[axis + 1 :]
        if len(outer) == len(value.shape):
            for size, declared in zip(outer, value.shape, strict=True):
                yield from op.equal(size, declared if isinstance(declared, int) else None)


def _trees(op: _Node) -> Iterator[Asked]:
    """Trees name the features that they read by number."""
    features = op.node.attributes.get_ints("nodes_featureids", None)
    size = op.dim(0, -1)
    if features and isinstance(size, str):
        yield AtLeast(size, max(features) + 1, op.place)


def _per_feature(*attributes: str) -> Callable[[_Node], Iterator[Asked]]:
    """Ops with a number for each feature, or one for all of them."""

    def rule(op: _Node) -> Iterator[Asked]:
        for name in attributes:
            if (count := op.floats(name)) > 1:
                yield from op.equal(op.dim(0, -1), count)

    return rule


def _linear(outputs: str) -> Callable[[_Node], Iterator[Asked]]:
    """Coefficients of all outputs one after the other."""

    def rule(op: _Node) -> Iterator[Asked]:
        count = op.floats(outputs) if outputs != "targets" else op.whole("targets", 1)
        coefficients = op.floats("coefficients")
        if count > 0 and coefficients and coefficients % count == 0:
            yield from op.equal(op.dim(0, -1), coefficients // count)

    return rule


def _vectors(op: _Node) -> Iterator[Asked]:
    """Support vectors one after the other."""
    count = op.whole("n_supports", 0) or sum(
        op.node.attributes.get_ints("vectors_per_class", ()) or ()
    )
    numbers = op.floats("support_vectors")
    if count > 0 and numbers and numbers % count == 0:
        yield from op.equal(op.dim(0, -1), numbers // count)


_BROADCASTING = (
    "Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater",
    "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod", "Mul", "Or", "Pow",
    "PRelu", "Sub", "Sum", "Where", "Xor",
)  # fmt: skip

_RULES: dict[str, Callable[[_Node], Iterator[Asked]]] = {
    **dict.fromkeys(_BROADCASTING, _broadcast),
    "BatchNormalization": _channels,
    "Concat": _concat,
    "Conv": _conv(1),
    "ConvInteger": _conv(1),
    "ConvTranspose": _conv(1, transposed=True),
    "DynamicQuantizeLSTM": _quantised_recurrent,
    "DynamicQuantizeMatMul": _matmul(1),
    "Einsum": _einsum,
    "FusedConv": _conv(1),
    "FusedGemm": _gemm,
    "GRU": _recurrent,
    "Gather": _gather,
    "Gemm": _gemm,
    "Imputer": _per_feature("imputed_value_floats", "imputed_value_int64s"),
    "InstanceNormalization": _channels,
    "LSTM": _recurrent,
    "LayerNormalization": _last_axes,
    "LinearClassifier": _linear("intercepts"),
    "LinearRegressor": _linear("targets"),
    "MatMul": _matmul(1),
    "MatMulInteger": _matmul(1),
    "MatMulIntegerToFloat": _matmul(1),
    "QLinearConv": _conv(3),
    "QLinearMatMul": _matmul(3),
    "RNN": _recurrent,
    "Reshape": _reshape,
    "SVMClassifier": _vectors,
    "SVMRegressor": _vectors,
    "Scan": _scan,
    "Scaler": _per_feature("offset", "scale"),
    "SimplifiedLayerNormalization": _last_axes,
    "Split": _split,
    "TreeEnsemble": _trees,
    "TreeEnsembleClassifier": _trees,
    "TreeEnsembleRegressor": _trees,
}
