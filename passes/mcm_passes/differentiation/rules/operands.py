"""Facts of an op and its operands for rules, and small parts that they emit.

Exporters compute axes, paddings and places of slices from shapes. With static shapes these are
constants that no one has written down yet.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
from onnx import helper

from mcm_compiler.contracts.gradients import GradientOps, GradientRequest, NotDifferentiable, zeros

Gradients = Sequence[ir.Value | None]
Array = npt.NDArray[Any]


def operand(request: GradientRequest, index: int) -> ir.Value | None:
    """An input of the op, or None where it is left out."""
    inputs = request.node.inputs
    return inputs[index] if index < len(inputs) else None


def given(request: GradientRequest, index: int) -> ir.Value:
    """An input that the op cannot leave out.

    Raises:
        ValueError: if it does.
    """
    value = operand(request, index)
    if value is None:
        raise ValueError(f"{request.node.op_type} has no input {index}")
    return value


def arriving(request: GradientRequest, index: int = 0) -> ir.Value:
    """The gradient of an output that has one, as the first of an op with one output does.

    Raises:
        NotDifferentiable: if the loss depends on another output alone.
    """
    gradient = request.gradients[index]
    if gradient is None:
        raise NotDifferentiable(f"the loss depends on another output than output {index}")
    return gradient


def known_numbers(request: GradientRequest, index: int) -> list[int] | None:
    """The integers of a constant input, or None where it is left out.

    Raises:
        NotDifferentiable: if it is not constant.
    """
    known = known_elements(request, index)
    return None if known is None else [int(number) for number in known]


def known_elements(request: GradientRequest, index: int) -> Array | None:
    """The elements of a constant input in a row; likewise."""
    value = operand(request, index)
    if value is None:
        return None
    known = known_value(value)
    if known is None:
        raise NotDifferentiable(f"input {index} is not constant")
    return known.reshape(-1)


def placed(gradient: ir.Value | None, request: GradientRequest, index: int = 0) -> Gradients:
    """A gradient for one input and none for the others."""
    found: list[ir.Value | None] = [None] * len(request.node.inputs)
    found[index] = gradient
    return found


def ints(ops: GradientOps, numbers: Sequence[int]) -> ir.Value:
    """A constant int64 vector."""
    return ops.constant(np.array(numbers, np.int64))


def reshaped(ops: GradientOps, value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """A value in another shape, or itself where it has that."""
    if dims(value) == tuple(shape):
        return value
    # A zero in the target of a Reshape means the dimension of its operand, unless told otherwise.
    empty: dict[str, Any] = {} if math.prod(shape) else {"allowzero": 1}
    return ops.op("Reshape", value, ints(ops, shape), **empty)


def filled(ops: GradientOps, shape: Sequence[int], like: ir.Value) -> ir.Value:
    """Zeros of a shape in the type of a value."""
    return ops.constant(zeros(tuple(shape), like))


def dims(value: ir.Value) -> tuple[int, ...]:
    """The shape of a value that was emitted, which is static."""
    return tuple(int(dim) for dim in cast("ir.Shape", value.shape).numpy())


def cut_or_padded(ops: GradientOps, value: ir.Value, pads: Sequence[int]) -> ir.Value:
    """Zeros around a value, or without its outermost places where a pad is negative.

    Args:
        ops: emits.
        value: of static shape.
        pads: in front of and then behind each dimension.
    """
    sizes = dims(value)
    rank = len(sizes)
    cut = [axis for axis in range(rank) if min(pads[axis], pads[axis + rank]) < 0]
    if cut:
        # Negative pads of `Pad` are a part of ONNX that not every runtime has.
        starts = [max(0, -pads[axis]) for axis in cut]
        ends = [sizes[axis] - max(0, -pads[axis + rank]) for axis in cut]
        value = ops.op("Slice", value, ints(ops, starts), ints(ops, ends), ints(ops, cut))
    more = [max(0, pad) for pad in pads]
    return ops.op("Pad", value, ints(ops, more)) if any(more) else value


def numpy_type(value: ir.Value) -> npt.DTypeLike:
    """The element type of a value in numpy.

    Raises:
        ValueError: if it is unknown.
    """
    if value.dtype is None:
        raise ValueError(f"the type of {value.name!r} is unknown")
    return value.dtype.numpy()


def zero(request: GradientRequest) -> Gradients:
    """The rule of an op that is constant almost everywhere, or whose inputs only specify."""
    return [None] * len(request.node.inputs)


MOST_OPS = 200
"""Values behind more ops than that count as computed."""

MOST_ELEMENTS = 4096
"""Larger arrays are not followed: what specifies an op is small."""

_OF_SHAPES = frozenset({"Shape", "Size"})


def known_value(value: ir.Value) -> Array | None:
    """The elements of a value that depends on constants and static shapes alone, else None."""
    return _Search().value(value)


class _Search:
    """One walk back from a value, which ends at constants and shapes."""

    def __init__(self) -> None:
        self._found: dict[ir.Value, Array | None] = {}
        self._left = MOST_OPS

    def value(self, value: ir.Value) -> Array | None:
        if value not in self._found:
            self._found[value] = None
            self._found[value] = self._walked(value)
        return self._found[value]

    def _walked(self, value: ir.Value) -> Array | None:
        if value.is_graph_input():
            return None
        tensor = ir.convenience.get_const_tensor(value)
        if tensor is not None:
            small = tensor.size <= MOST_ELEMENTS and tensor.dtype is not ir.DataType.STRING
            return tensor.numpy() if small else None
        node = value.producer()
        self._left -= 1
        if node is None or self._left < 0 or node.domain not in ("", "ai.onnx"):
            return None
        if any(isinstance(a.value, ir.Graph) for a in node.attributes.values()):
            return None
        place = list(node.outputs).index(value)
        inputs: list[Array | None] = []
        for source in node.inputs:
            found = None if source is None else self._operand(node, source)
            if source is not None and found is None:
                return None
            inputs.append(found)
        if not inputs:
            return None
        made = computed(ir.to_proto(node), inputs, _imports(node))
        return made[place] if made[place].size <= MOST_ELEMENTS else None

    def _operand(self, node: ir.Node, source: ir.Value) -> Array | None:
        if node.op_type not in _OF_SHAPES:
            return self.value(source)
        if source.shape is None or not source.shape.is_static():
            return None
        return of_shape(tuple(int(dim) for dim in source.shape.numpy()))


def of_shape(shape: tuple[int, ...]) -> Array:
    """An array of a shape that takes no memory."""
    return np.broadcast_to(np.zeros((), np.bool_), shape)


def _imports(node: ir.Node) -> dict[str, int]:
    graph = node.graph
    found = dict(graph.opset_imports) if graph is not None else {}
    return {"": found.get("", onnx.defs.onnx_opset_version())}


def computed(
    node: onnx.NodeProto, inputs: Sequence[Array | None], opset_imports: Mapping[str, int]
) -> list[Array]:
    """The outputs of an op of known inputs, as onnx's reference computes them.

    Args:
        node: the op.
        inputs: an array for each of its inputs that is not left out.
        opset_imports: versions by domain.
    """
    from onnx.reference import ReferenceEvaluator

    names = sorted({name for name in node.input if name})
    graph = helper.make_graph(
        [node],
        "constants",
        [helper.make_value_info(name, onnx.TypeProto()) for name in names],
        [helper.make_value_info(name, onnx.TypeProto()) for name in node.output if name],
    )
    imports = [helper.make_opsetid(domain, version) for domain, version in opset_imports.items()]
    model = helper.make_model(graph, opset_imports=imports)
    feeds = {name: array for name, array in zip(node.input, inputs, strict=True) if name}
    made = ReferenceEvaluator(model).run(None, feeds)
    return [np.asarray(array) for array in cast("list[Any]", made)]


@dataclass(frozen=True, eq=False)
class Term:
    """A value and what emits ops on it: each operator is an op.

    Numbers among the operands become scalar constants of the type of the value.
    """

    ops: GradientOps
    value: ir.Value

    def op(self, op_type: str, *others: Term | ir.Value | float, **attributes: Any) -> Term:
        """The only result of an op with the value as its first operand."""
        operands = [
            other.value if isinstance(other, Term)
            else other if isinstance(other, ir.Value)
            else self.ops.like(self.value, other)
            for other in others
        ]  # fmt: skip
        return Term(self.ops, self.ops.op(op_type, self.value, *operands, **attributes))

    def number(self, number: float) -> Term:
        """A scalar of the type of the value."""
        return Term(self.ops, self.ops.like(self.value, number))

    def select(self, then: Term, other: Term | float) -> Term:
        """`then` where this condition holds, `other` elsewhere."""
        return self.op("Where", then, other if isinstance(other, Term) else then.number(other))

    def __add__(self, other: Term | float) -> Term:
        return self.op("Add", other)

    def __radd__(self, number: float) -> Term:
        return self.number(number) + self

    def __sub__(self, other: Term | float) -> Term:
        return self.op("Sub", other)

    def __rsub__(self, number: float) -> Term:
        return self.number(number) - self

    def __mul__(self, other: Term | float) -> Term:
        return self.op("Mul", other)

    def __truediv__(self, other: Term | float) -> Term:
        return self.op("Div", other)

    def __neg__(self) -> Term:
        return self.op("Neg")

    def __lt__(self, other: Term | float) -> Term:
        return self.op("Less", other)

    def __gt__(self, other: Term | float) -> Term:
        return self.op("Greater", other)

    def __and__(self, other: Term) -> Term:
        return self.op("And", other)


def operand_terms(request: GradientRequest) -> tuple[Term, ...]:
    """The gradient that arrives, and the operands, none of which may be left out."""
    count = len(request.node.inputs)
    values = [arriving(request), *(given(request, index) for index in range(count))]
    return tuple(Term(request.ops, value) for value in values)
