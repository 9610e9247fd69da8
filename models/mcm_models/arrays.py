"""Formulas over arrays that are written once: JAX trains them, onnxruntime evaluates them.

A formula is a function of arrays and of the operations `o` on them: `Jax`, or `Onnx`, whose arrays
are values of an ONNX graph that grows with each operation. Both have the same methods. Indexing
takes rows by an array of numbers, `a[:, k]` takes a column, and `a[:, None]` adds an axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from mcm_compiler.processes.run_limits import quiet_onnxruntime

OPSET, IR_VERSION = 18, 8


class Jax:
    """Operations of JAX; what has the same name there is taken from `jax.numpy`."""

    def __init__(self) -> None:
        import jax

        self._jax = jax

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jax.numpy, name)

    def relu(self, a: Any) -> Any:
        """0 for what is below."""
        return self._jax.nn.relu(a)

    def rsqrt(self, a: Any) -> Any:
        """One over the square root."""
        return self._jax.lax.rsqrt(a)

    def integers(self, a: Any) -> Any:
        """Towards 0."""
        return a.astype("int32")

    def floats(self, a: Any) -> Any:
        """Of integers."""
        return a.astype("float32")

    def gathered(self, reduction: str, rows: Any, ends: Any, like: Any, none: float) -> Any:
        """Sums, minima or maxima (`add`, `min`, `max`) of rows by the numbers in `ends`.

        Args:
            reduction: which.
            rows: `[Q, ...]`.
            ends: `[Q]`, ascending.
            like: an array of the result's shape.
            none: of numbers that `ends` does not have; 0 for sums.
        """
        ops = self._jax.ops
        reduce = {"add": ops.segment_sum, "min": ops.segment_min, "max": ops.segment_max}[reduction]
        found = reduce(rows, ends, like.shape[0], indices_are_sorted=True)
        return found if reduction == "add" else self.where(self.isinf(found), none, found)

    def along_last(self, table: Any, index: Any) -> Any:
        """`table[..., i, index[i, j]]`."""
        index = self.broadcast_to(index, (*table.shape[:-1], index.shape[-1]))
        return self.take_along_axis(table, index, axis=-1)


class Value:
    """An array of an ONNX graph."""

    def __init__(self, graph: Onnx, name: str) -> None:
        self.graph, self.name = graph, name

    def __add__(self, other: Any) -> Value:
        return self.graph.op("Add", self, other)

    def __sub__(self, other: Any) -> Value:
        return self.graph.op("Sub", self, other)

    def __rsub__(self, other: Any) -> Value:
        return self.graph.op("Sub", other, self)

    def __mul__(self, other: Any) -> Value:
        return self.graph.op("Mul", self, other)

    def __truediv__(self, other: Any) -> Value:
        return self.graph.op("Div", self, other)

    def __matmul__(self, other: Any) -> Value:
        return self.graph.op("MatMul", self, other)

    __radd__, __rmul__ = __add__, __mul__

    def __getitem__(self, key: Any) -> Value:
        if not isinstance(key, tuple):
            return self.graph.op("Gather", self, key, axis=0)
        if key[1] is None:
            return self.graph.op("Unsqueeze", self, np.array([1]))
        return self.graph.op("Gather", self, np.array(key[1]), axis=1)

    @property
    def T(self) -> Value:  # noqa: N802 (as arrays have it)
        """Of a matrix."""
        return self.transpose(1, 0)

    def transpose(self, *axes: int) -> Value:
        """With other axes."""
        return self.graph.op("Transpose", self, perm=axes)


class Onnx:
    """Operations that append nodes to a graph."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self._names: dict[bytes, str] = {}

    def op(self, kind: str, *inputs: Any, **attributes: Any) -> Value:
        """A node; inputs that are no values are constants."""
        names = [each.name if isinstance(each, Value) else self._constant(each) for each in inputs]
        return self._added(kind, names, attributes)

    def concatenate(self, parts: Sequence[Value], axis: int) -> Value:
        """One after the other."""
        return self.op("Concat", *parts, axis=axis)

    def stack(self, parts: Sequence[Value], axis: int) -> Value:
        """Along a new axis."""
        return self.concatenate([self.op("Unsqueeze", p, np.array([axis])) for p in parts], axis)

    def relu(self, a: Value) -> Value:
        """See `Jax`, as for all below."""
        return self.op("Relu", a)

    def rsqrt(self, a: Value) -> Value:
        return self.op("Reciprocal", self.op("Sqrt", a))

    def maximum(self, a: Value, b: Any) -> Value:
        return self.op("Max", a, b)

    def minimum(self, a: Value, b: Any) -> Value:
        return self.op("Min", a, b)

    def clip(self, a: Value, low: float, high: float) -> Value:
        return self.minimum(self.maximum(a, low), high)

    def integers(self, a: Value) -> Value:
        return self.op("Cast", a, to=onnx.TensorProto.INT32)

    def floats(self, a: Value) -> Value:
        return self.op("Cast", a, to=onnx.TensorProto.FLOAT)

    def sum(self, a: Value) -> Value:
        return self.op("ReduceSum", a, keepdims=0)

    def mean(self, a: Value, axis: int, *, keepdims: bool) -> Value:
        return self.op("ReduceMean", a, np.array([axis]), keepdims=int(keepdims))

    def ones_like(self, a: Value) -> Value:
        return self._filled(self.op("Shape", a), 1.0)

    def gathered(self, reduction: str, rows: Value, ends: Value, like: Value, none: float) -> Value:
        start = self._filled(self.op("Shape", like), none)
        index = self.op("Cast", ends[:, None], to=onnx.TensorProto.INT64)
        return self.op("ScatterND", start, index, rows, reduction=reduction)

    def along_last(self, table: Value, index: Value) -> Value:
        lead = self.op("Shape", table, end=-1)
        shape = self.concatenate([lead, self.op("Shape", index, start=-1)], 0)
        return self.op("GatherElements", table, self.op("Expand", index, shape), axis=-1)

    def _filled(self, shape: Value, number: float) -> Value:
        fill = onnx.numpy_helper.from_array(np.array([number], np.float32))
        return self.op("ConstantOfShape", shape, value=fill)

    def _constant(self, number: Any) -> str:
        array = np.asarray(number, np.float32 if isinstance(number, float) else None)
        return self._added("Constant", [], {"value": onnx.numpy_helper.from_array(array)}).name

    def _added(self, kind: str, inputs: Sequence[str], attributes: Mapping[str, Any]) -> Value:
        node = onnx.helper.make_node(kind, inputs, [], **attributes)
        # The same of the same is computed once.
        name = self._names.setdefault(node.SerializeToString(), f"value_{len(self._names)}")
        if len(self._names) > len(self.nodes):
            node.output.append(name)
            self.nodes.append(node)
        return Value(self, name)


def onnx_model(
    formula: Callable[[Onnx, dict[str, Value]], dict[str, Value]],
    like: Mapping[str, npt.NDArray[Any]],
) -> onnx.ModelProto:
    """A formula as a model.

    Args:
        formula: makes outputs by name from operations and inputs by name; all are float32.
        like: arrays with the types and the numbers of axes of the inputs.
    """
    o = Onnx()
    outputs = formula(o, {name: Value(o, name) for name in like})
    helper = onnx.helper
    given = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), [None] * array.ndim
        )
        for name, array in like.items()
    ]
    ends = [helper.make_node("Identity", [value.name], [name]) for name, value in outputs.items()]
    made = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph([*o.nodes, *ends], "formula", given, made)
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def open_formula(model: onnx.ModelProto) -> Any:
    """A session on one thread, so that the same inputs give the same bytes."""
    ort = quiet_onnxruntime()
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    return ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
