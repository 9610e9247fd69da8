"""Large ops of the backward pass wait for the gradient that they are made for.

Gradients of convolutions and normalisations begin with ops that read the forward pass alone, such
as the transposed image or the mask of a ReLU. A runtime that starts whatever it can would make
them in the forward pass, and hold a second copy of all activations until the backward pass. Here
such an op reads its operand through a view, `Reshape`, to whose shape the empty `Shape` of the
arriving gradient is joined: the same numbers, but not before the gradient is there. ONNX has no
other control dependencies.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from mcm_compiler.ir.rewriting.naming import UnusedNames

LEAST_BYTES = 1 << 20
"""Results below this size may be early: to hold them costs less than to wait."""

_BACKWARD = "grad/"


def delay_early_ops(graph: ir.Graph, least_bytes: int = LEAST_BYTES) -> int:
    """Makes early ops wait, in place.

    Args:
        graph: of a training step, with static shapes and gradient ops named by `reverse_mode`.
        least_bytes: of the results of an op that is made to wait.

    Returns:
        The number of ops that wait.
    """
    backward = [node for node in graph if (node.name or "").startswith(_BACKWARD)]
    arriving = _arriving(backward)
    views = _Views(graph)
    late: set[ir.Value] = set()
    waiting = 0
    for node in backward:
        gradient = arriving.get(_scope(node))
        if gradient is None or any(value in late for value in node.inputs):
            late.update(node.outputs)
        elif max(map(_bytes, node.outputs)) >= least_bytes and views.put(node, gradient):
            late.update(node.outputs)
            waiting += 1
    return waiting


def _arriving(backward: list[ir.Node]) -> dict[str, ir.Value]:
    """By scope a gradient from outside it; where the backward pass begins there is none."""
    first = _scope(backward[0]) if backward else ""
    late: dict[ir.Value, str] = {}
    found: dict[str, ir.Value] = {}
    for node in backward:
        scope = _scope(node)
        reads = [value for value in node.inputs if value is not None and value in late]
        if reads or scope == first:
            late.update(dict.fromkeys(node.outputs, scope))
        outside = [value for value in reads if late[value] != scope]
        if outside:
            found.setdefault(scope, outside[0])
    return found


def _scope(node: ir.Node) -> str:
    return (node.name or "").rpartition("/")[0]


def _bytes(value: ir.Value) -> int:
    """0 where the type or shape is unknown."""
    if value.dtype is None or value.shape is None or not value.shape.is_static():
        return 0
    return math.ceil(math.prod(value.shape.numpy()) * value.dtype.itemsize)


class _Views:
    """Views that wait, each made once."""

    def __init__(self, graph: ir.Graph) -> None:
        self._graph = graph
        self._names = UnusedNames(graph)
        self._views: dict[tuple[ir.Value, ir.Value], ir.Value] = {}

    def put(self, node: ir.Node, gradient: ir.Value) -> bool:
        """Puts a view between an op and its first operand that is computed, if there is one."""
        for index, value in enumerate(node.inputs):
            if value is None or value.is_initializer() or not _bytes(value):
                continue
            key = (value, gradient)
            if key not in self._views:
                self._views[key] = self._made(node, value, gradient)
            node.replace_input_with(index, self._views[key])
            return True
        return False

    def _made(self, before: ir.Node, value: ir.Value, gradient: ir.Value) -> ir.Value:
        assert value.shape is not None
        dims = np.array(value.shape.numpy(), np.int64)
        scope = f"{_scope(before)}/wait"
        constant = ir.Value(
            name=self._names.take(f"{scope}/shape"),
            type=ir.TensorType(ir.DataType.INT64),
            shape=ir.Shape(dims.shape),
        )
        constant.const_value = ir.tensor(dims, name=constant.name)
        self._graph.register_initializer(constant)
        empty = ir.node("Shape", [gradient], {"start": 0, "end": 0})
        joined = ir.node("Concat", [constant, *empty.outputs], {"axis": 0})
        view = ir.node("Reshape", [value, *joined.outputs])
        made = (
            (empty, ir.DataType.INT64, [0]),
            (joined, ir.DataType.INT64, [len(dims)]),
            (view, value.dtype, list(dims)),
        )
        for node, dtype, extents in made:
            assert dtype is not None
            node.name = self._names.take(f"{scope}/{node.op_type}")
            (result,) = node.outputs
            result.name, result.type = node.name, ir.TensorType(dtype)
            result.shape = ir.Shape([int(extent) for extent in extents])
            self._graph.insert_before(before, node)
        return view.outputs[0]
