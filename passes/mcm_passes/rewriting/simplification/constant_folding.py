"""Replaces constant ops by their results, where that loses nothing.

They are computed with onnxruntime itself, so that their bits are those of the runtime.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution.runner import run_model
from mcm_compiler.graph.constants import add_initializer, is_deterministic, subgraphs
from mcm_compiler.ir.rewriting.node_copying import copy_node
from mcm_passes.rewriting.simplification.redundancy import is_overwritten

MAX_SESSIONS = 64
"""Sessions that one evaluation may open while it looks for the ops that onnxruntime refuses."""

_MAX_IR_VERSION = 10


class ConstantEvaluator:
    """Evaluates constant ops of one graph, all in one session where onnxruntime accepts them.

    Args:
        model: the model that the ops belong to; left unchanged.
    """

    def __init__(self, model: ir.Model) -> None:
        self._opset_imports = dict(model.opset_imports)
        self._ir_version = min(model.ir_version, _MAX_IR_VERSION)
        self._sessions_left = MAX_SESSIONS
        self.known: dict[ir.Value, np.ndarray] = {}

    def evaluate(self, nodes: Sequence[ir.Node], wanted: set[ir.Value]) -> None:
        """Puts the values of `wanted` into `known`, as far as onnxruntime computes them.

        Where it refuses, the nodes are halved until the refused ones stand alone, and all results
        are kept.

        Args:
            nodes: in topological order; their inputs come from initializers or from each other.
            wanted: outputs of `nodes`.
        """
        if not nodes or self._sessions_left == 0:
            return
        self._sessions_left -= 1
        try:
            self.known.update(self._run(nodes, wanted))
        except CompileError:
            if len(nodes) == 1:
                return
            middle = len(nodes) // 2
            head, tail = nodes[:middle], nodes[middle:]
            # All results, since any of them may be read by an op that is refused.
            self.evaluate(head, _results(head))
            available = set(self.known)
            computable: list[ir.Node] = []
            for node in tail:
                if all(v is None or v.is_initializer() or v in available for v in node.inputs):
                    computable.append(node)
                    available.update(node.outputs)
            self.evaluate(computable, _results(computable))

    def _run(self, nodes: Sequence[ir.Node], wanted: set[ir.Value]) -> dict[ir.Value, np.ndarray]:
        copies: dict[ir.Value, ir.Value] = {}
        initializers: list[ir.Value] = []
        outputs: list[ir.Value] = []
        copied_nodes: list[ir.Node] = []
        for node in nodes:
            for value in node.inputs:
                if value is not None and value not in copies:
                    copies[value] = self._constant(value)
                    initializers.append(copies[value])
            copied_nodes.append(copy_node(node, copies, node.name or ""))
            copies.update(zip(node.outputs, copied_nodes[-1].outputs, strict=True))
            outputs += [value for value in node.outputs if value in wanted]
        if not outputs:
            return {}
        graph = ir.Graph(
            [],
            [copies[v] for v in outputs],
            nodes=copied_nodes,
            initializers=initializers,
            opset_imports=self._opset_imports,
            name="constants",
        )
        proto = ir.to_proto(ir.Model(graph, ir_version=self._ir_version))
        results = run_model(proto, {})
        return {v: results[v.name or ""] for v in outputs}

    def _constant(self, value: ir.Value) -> ir.Value:
        array = self.known.get(value)
        if array is None:
            assert value.const_value is not None
            # A copy in memory: the sub-model has no folder that external data could lie in.
            array = np.array(value.const_value.numpy())
        return ir.val(value.name, const_value=ir.Tensor(array, name=value.name))


def _results(nodes: Sequence[ir.Node]) -> set[ir.Value]:
    return {value for node in nodes for value in node.outputs if value.name}


FREE_GROWTH_BYTES = 1 << 16
"""A result up to this size may be larger than what it is computed from, unless it is dequantised:
chips store what that is computed from."""

MAX_ROUND_BYTES = 1 << 28
"""Weights that one evaluation reads; what is beyond waits for the next round."""

_FOLDED_TYPES = frozenset(
    {
        ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.BOOL,
        ir.DataType.INT8, ir.DataType.INT16, ir.DataType.INT32, ir.DataType.INT64,
        ir.DataType.UINT8, ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64,
    }
)  # fmt: skip
"""16-bit floats are missing: see `redundancy.rounds_at_boundaries`."""

_PREPACKING_OPS = frozenset(
    {"Conv", "ConvTranspose", "Gemm", "GRU", "LSTM", "MatMul", "MatMulInteger", "RNN"}
)
"""Ops that onnxruntime computes in another order where their weight is an initializer."""


def fold_static_shapes(graph: ir.Graph) -> int:
    """Replaces `Shape` and `Size` of statically shaped values by initializers.

    Returns:
        The number of ops that were replaced.
    """
    folded: list[ir.Node] = []
    for node in graph:
        if node.op_type not in ("Shape", "Size") or node.domain not in ("", "ai.onnx"):
            continue
        source, result = node.inputs[0], node.outputs[0]
        if source is None or source.shape is None or not source.shape.is_static():
            continue
        if result.is_graph_output() or not isinstance(source.type, ir.TensorType):
            continue
        extents = np.array(source.shape.numpy(), dtype=np.int64)
        if node.op_type == "Size":
            extents = np.array(extents.prod(), dtype=np.int64)
        else:
            start = node.attributes.get_int("start", 0)
            end = node.attributes.get_int("end", len(extents))
            extents = extents[start:end]
        _replace(graph, result, extents)
        folded.append(node)
    graph.remove(folded, safe=True)
    return len(folded)


def fold_constants(model: ir.Model, max_bytes: int, keep_placeholders: bool) -> int:
    """Computes the constant ops of the main graph in one onnxruntime session.

    An op stays if it is not deterministic or holds a subgraph. It stays if a weight that it reads
    or its result is over `max_bytes`, of unknown shape, or of a 16-bit float type. It stays if its
    result is a graph output, a dequantised weight or much larger than what it replaces. And it
    stays if a kernel reads it that reorders its sums for initializers or writes over it.

    Args:
        model: changed in place.
        max_bytes: limit for each operand and for each result.
        keep_placeholders: leave `ConstantOfShape` alone, because its results stand for weights.

    Returns:
        The number of ops that were replaced.
    """
    graph = model.graph
    nodes = _foldable(graph, max_bytes, keep_placeholders)
    if not nodes:
        return 0
    folded = set(nodes)
    wanted = {
        value
        for node in nodes
        for value in node.outputs
        if any(user not in folded for user in value.consumers())
    }
    evaluator = ConstantEvaluator(model)
    evaluator.evaluate(nodes, wanted)
    known = evaluator.known
    # Backwards: an op goes if its results are known, or read by none but ops that go.
    gone: set[ir.Node] = set()
    for node in reversed(nodes):
        if all(v in known or all(u in gone for u in v.consumers()) for v in node.outputs):
            gone.add(node)
    for node in nodes:
        for value in node.outputs if node in gone else ():
            if value in known and any(user not in gone for user in value.consumers()):
                _replace(graph, value, known[value])
    graph.remove(gone, safe=True)
    return len(gone)


def _foldable(graph: ir.Graph, max_bytes: int, keep_placeholders: bool) -> list[ir.Node]:
    size_of: dict[ir.Value, int] = {
        value: value.const_value.nbytes
        for value in graph.initializers.data.values()
        if value.const_value is not None
        and value.const_value.dtype in _FOLDED_TYPES
        and value.const_value.nbytes <= max_bytes
        and not value.is_graph_input()
    }
    nodes: list[ir.Node] = []
    read: set[ir.Value] = set()
    read_bytes = 0
    for node in graph:
        operands = {value for value in node.inputs if value is not None}
        if not operands or any(value not in size_of for value in operands):
            continue
        if keep_placeholders and node.op_type == "ConstantOfShape":
            continue
        if not is_deterministic(node) or subgraphs(node):
            continue
        sizes = {value: _result_bytes(value) for value in node.outputs if value.name}
        results = [size for size in sizes.values() if size is not None]
        if not results or len(results) < len(sizes) or max(results) > max_bytes:
            continue
        small = sum(results) <= FREE_GROWTH_BYTES
        replaced = sum(size_of[v] for v in operands if small or len(v.consumers()) == 1)
        grows = sum(results) > replaced
        if grows and (not small or node.op_type == "DequantizeLinear"):
            continue
        if any(_feeds_prepacking(value) or is_overwritten(value) for value in sizes):
            continue
        new = {v for v in operands if v.is_initializer()} - read
        new_bytes = sum(size_of[v] for v in new)
        if read_bytes + new_bytes > MAX_ROUND_BYTES:
            continue
        read |= new
        read_bytes += new_bytes
        nodes.append(node)
        size_of |= {v: size for v, size in sizes.items() if size is not None}
    return nodes


def _result_bytes(value: ir.Value) -> int | None:
    """Size of a result, or None where it cannot be an initializer."""
    if value.is_graph_output() or not isinstance(value.type, ir.TensorType):
        return None
    if value.shape is None or not value.shape.is_static() or value.type.dtype not in _FOLDED_TYPES:
        return None
    return int(math.prod(value.shape.numpy()) * value.type.dtype.itemsize)


def _feeds_prepacking(value: ir.Value) -> bool:
    return any(user.op_type in _PREPACKING_OPS for user in value.consumers())


def _replace(graph: ir.Graph, value: ir.Value, array: np.ndarray) -> None:
    tensor = ir.Tensor(np.ascontiguousarray(array).reshape(array.shape), name=value.name)
    value.replace_all_uses_with(add_initializer(graph, tensor))
