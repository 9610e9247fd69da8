"""Takes a graph up to an opset whose ops gradients are written in.

`ScatterND` adds from opset 16 on, and reductions have their axes as an input from 18 on. Few ops
mean something else there than in older opsets; those are written again, where they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.constants import add_initializer, graphs_of
from mcm_compiler.graph.structure import since_version
from mcm_compiler.ir.rewriting.naming import UnusedNames

OPSET = 18
"""The oldest opset of gradients."""

IR_VERSION = 8
"""The IR version that goes with it."""

_SAME = frozenset((
    "Abs", "Acos", "Acosh", "Add", "And", "ArgMax", "ArgMin", "Asin", "Asinh", "Atan", "Atanh",
    "AveragePool", "BitShift", "Cast", "Ceil", "Compress", "Concat", "ConcatFromSequence",
    "Constant", "ConstantOfShape", "Conv", "ConvTranspose", "Cos", "Cosh", "CumSum",
    "DepthToSpace", "DequantizeLinear", "Div", "Einsum", "Elu", "Equal", "Erf", "Exp", "Expand",
    "EyeLike", "Flatten", "Floor", "GRU", "Gather", "GatherElements", "GatherND", "Gemm",
    "GlobalAveragePool", "GlobalMaxPool", "Greater", "GreaterOrEqual", "HardSigmoid",
    "Identity", "If", "InstanceNormalization", "IsInf", "IsNaN", "LRN", "LSTM", "LeakyRelu",
    "Less", "LessOrEqual", "Log", "Loop", "LpNormalization", "LpPool", "MatMul", "Max",
    "MaxPool", "MaxUnpool", "Mean", "MeanVarianceNormalization", "Min", "Mod", "Mul", "Neg",
    "NegativeLogLikelihoodLoss", "NonZero", "Not", "OneHot", "Or", "PRelu", "Pow",
    "QuantizeLinear", "RNN", "RandomNormalLike", "Range", "Reciprocal", "Relu", "Reshape",
    "Resize", "RoiAlign", "Round", "Scan", "ScatterElements", "ScatterND", "Selu", "SequenceAt",
    "Shape", "Sigmoid", "Sign", "Sin", "Sinh", "Size", "SoftmaxCrossEntropyLoss", "Softplus",
    "Softsign", "SpaceToDepth", "SplitToSequence", "Sqrt", "Sub", "Sum", "Tan", "Tanh", "Tile",
    "Transpose", "Where", "Xor",
))  # fmt: skip
"""Ops that mean in opset 18 what they meant in 11; later forms take more types or attributes."""

_OLDEST_SAME = 11
_OLDEST_SAME_SCAN = 9

_OLDEST = 7
"""The first opset whose operands are broadcast as in numpy."""

_STATEFUL = frozenset(("BatchNormalization", "Dropout", "PRelu"))
"""Ops that are configured otherwise before `_OLDEST` whether they train, or how they broadcast."""


class _Raising:
    """One graph on its way up."""

    def __init__(self, graph: ir.Graph, old: int, names: UnusedNames) -> None:
        self.graph = graph
        self.old = old
        self._names = names

    def ints(self, numbers: Sequence[int]) -> ir.Value:
        """A vector of int64."""
        return self._constant(np.array(numbers, np.int64))

    def number(self, number: float, like: ir.Value) -> ir.Value:
        """A scalar of the type of a value."""
        if like.dtype is None:
            raise _Refused(f"the type of {like.name!r} is unknown")
        return self._constant(np.array(number, like.dtype.numpy()))

    def _constant(self, array: npt.NDArray[Any]) -> ir.Value:
        tensor = ir.tensor(array, name=self._names.take("constant/raised"))
        return add_initializer(self.graph, tensor)

    def replace(
        self, node: ir.Node, inputs: Sequence[ir.Value | None], *without: str, **more: Any
    ) -> None:
        """Gives a node other inputs and takes attributes from it; its outputs stay."""
        attributes = [a for a in node.attributes.values() if a.name not in without]
        attributes += [ir.convenience.convert_attribute(k, v) for k, v in more.items()]
        new = ir.Node(
            node.domain, node.op_type, inputs, attributes, num_outputs=len(node.outputs),
            name=node.name,
        )  # fmt: skip
        new.metadata_props.update(node.metadata_props)
        for old, made in zip(node.outputs, new.outputs, strict=True):
            made.name, made.type, made.shape = old.name, old.type, old.shape
        ir.convenience.replace_nodes_and_values(
            self.graph, node, [node], [new], node.outputs, new.outputs
        )

    def in_front(self, node: ir.Node, op_type: str, *inputs: ir.Value, **more: Any) -> ir.Value:
        """A new op before a node, of the shape of its first input unless given."""
        name = self._names.take(f"{node.name}/{op_type}")
        new = ir.node(op_type, inputs, more, name=name)
        (value,) = new.outputs
        value.name, value.type = name, inputs[0].type
        self.graph.insert_before(node, new)
        return value


def _axes_as_input(raising: _Raising, node: ir.Node) -> None:
    if len(node.inputs) > 1:
        return
    axes = node.attributes.get("axes")
    inputs = [node.inputs[0], *([raising.ints(axes.as_ints())] if axes is not None else [])]
    raising.replace(node, inputs, "axes")


def _split(raising: _Raising, node: ir.Node) -> None:
    sizes = node.attributes.get("split")
    if sizes is not None:
        raising.replace(node, [node.inputs[0], raising.ints(sizes.as_ints())], "split")
    elif len(node.inputs) < 2 or node.inputs[1] is None:
        raising.replace(node, node.inputs[:1], "split", num_outputs=len(node.outputs))


def _softmax(raising: _Raising, node: ir.Node) -> None:
    """Up to opset 12 all dimensions from `axis` on are one."""
    if raising.old >= 13:
        return
    (x,) = node.inputs
    assert x is not None
    shape = x.shape
    axis = node.attributes.get_int("axis", 1)
    rank = None if shape is None else len(shape)
    if rank is not None and axis % rank == rank - 1:
        raising.replace(node, [x], "axis", axis=-1)
        return
    if shape is None or rank is None or not shape.is_static():
        raise _Refused("its shape is open")
    dims = [int(dim) for dim in shape.numpy()]
    rows = int(np.prod(dims[: axis % rank], dtype=np.int64))
    columns = int(np.prod(dims[axis % rank :], dtype=np.int64))
    flat = raising.in_front(node, "Reshape", x, raising.ints([rows, columns]))
    flat.shape = ir.Shape([rows, columns])
    made = raising.in_front(node, node.op_type, flat, axis=-1)
    made.shape = ir.Shape([rows, columns])
    new = ir.node("Reshape", [made, raising.ints(dims)], name=node.name)
    new.metadata_props.update(node.metadata_props)
    (out,), (old,) = new.outputs, node.outputs
    out.name, out.type, out.shape = old.name, old.type, old.shape
    ir.convenience.replace_nodes_and_values(
        raising.graph, node, [node], [new], node.outputs, new.outputs
    )


def _batch_normalization(raising: _Raising, node: ir.Node) -> None:
    if raising.old < 14 and any(v.uses() or v.is_graph_output() for v in node.outputs[1:]):
        raise _Refused("before opset 14 it gives statistics in another form")


def _clip(raising: _Raising, node: ir.Node) -> None:
    """Up to opset 10 the bounds are attributes."""
    if raising.old >= 11:
        return
    x = node.inputs[0]
    low, high = (node.attributes.get(name) for name in ("min", "max"))
    bounds = [
        None if bound is None or x is None else raising.number(bound.as_float(), x)
        for bound in (low, high)
    ]
    raising.replace(node, [x, *bounds], "min", "max")


def _slice(raising: _Raising, node: ir.Node) -> None:
    """Up to opset 9 all but the operand are attributes."""
    if raising.old >= 10:
        return
    found = [node.attributes.get(name) for name in ("starts", "ends", "axes")]
    numbers = [raising.ints(a.as_ints()) for a in found if a is not None]
    raising.replace(node, [node.inputs[0], *numbers], "starts", "ends", "axes")


def _pad(raising: _Raising, node: ir.Node) -> None:
    """Up to opset 10 the paddings are an attribute."""
    if raising.old >= 11:
        return
    x = node.inputs[0]
    pads = node.attributes.get("pads")
    if raising.old < 2 or pads is None or x is None:
        raise _Refused("its paddings are missing")
    value = raising.number(node.attributes.get_float("value", 0.0), x)
    raising.replace(node, [x, raising.ints(pads.as_ints()), value], "pads", "value")


def _dropout(raising: _Raising, node: ir.Node) -> None:
    if raising.old < 12:
        raising.replace(node, node.inputs[:1], "ratio")


_REDUCTIONS = (
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
    "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare",
)  # fmt: skip

_REWRITES: dict[str, Callable[[_Raising, ir.Node], None]] = {
    **dict.fromkeys((*_REDUCTIONS, "Squeeze", "Unsqueeze"), _axes_as_input),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), _softmax),
    "Split": _split,
    "BatchNormalization": _batch_normalization,
    "Dropout": _dropout,
    "Clip": _clip,
    "Slice": _slice,
    "Pad": _pad,
    "TopK": lambda raising, _: _since(raising, 10),
}


class _Refused(Exception):  # noqa: N818 - it is an answer
    """Says why an op cannot be taken up."""


def raise_opset(model: ir.Model) -> int:
    """Takes a model up to `OPSET`, in place; a newer one stays.

    Returns:
        The opset that it has then.

    Raises:
        CompileError: MCM-D036 for an op that means something else there and cannot be rewritten.
    """
    old = model.opset_imports.get("", 0)
    if old >= OPSET:
        return old
    names = UnusedNames(model.graph)
    for graph in graphs_of(model):
        raising = _Raising(graph, old, names)
        for node in list(graph):
            if node.domain not in ("", "ai.onnx"):
                continue
            try:
                _raise(raising, node)
            except _Refused as refused:
                raise CompileError(_fault(node, old, str(refused))) from None
    model.opset_imports[""] = OPSET
    model.ir_version = max(model.ir_version, IR_VERSION)
    return OPSET


def _raise(raising: _Raising, node: ir.Node) -> None:
    if raising.old < _OLDEST and ("broadcast" in node.attributes or node.op_type in _STATEFUL):
        raise _Refused(f"opsets before {_OLDEST} broadcast and train otherwise")
    before, after = since_version(node.op_type, raising.old), since_version(node.op_type, OPSET)
    if before == after:
        return
    rewrite = _REWRITES.get(node.op_type)
    if rewrite is not None:
        rewrite(raising, node)
    elif not after:
        raise _Refused(f"opset {OPSET} has none")
    elif node.op_type not in _SAME or _grew(node, raising.old):
        raise _Refused("it means something else there")


def _grew(node: ir.Node, old: int) -> bool:
    """Return whether an op of an old opset differs from that of 11 in more than its types."""
    if node.op_type == "Scan":
        return old < _OLDEST_SAME_SCAN
    return old < _OLDEST_SAME and node.op_type in ("Resize", "Loop", "OneHot")


def _since(raising: _Raising, version: int) -> None:
    if raising.old < version:
        raise _Refused(f"before opset {version} it has attributes for inputs")


def _fault(node: ir.Node, old: int, reason: str) -> Diagnostic:
    return Diagnostic(
        "MCM-D036",
        f"gradients are written in opset {OPSET}, the model has {old}, and {quote(node.op_type)} "
        f"cannot be taken there: {reason}",
        at=f"node {quote(node.name or '')} ({quote(node.op_type)})",
        hint=f"export the model with opset_version={OPSET} or newer",
    )
