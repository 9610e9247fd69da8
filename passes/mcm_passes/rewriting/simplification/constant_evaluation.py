"""Computes constants with onnxruntime itself, so that their bits are those of the runtime."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.execution.runner import run_model

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
            for value in node.outputs:
                copies[value] = ir.Value(name=value.name, type=value.type, shape=value.shape)
                if value in wanted:
                    outputs.append(value)
            copied_nodes.append(
                ir.Node(
                    node.domain,
                    node.op_type,
                    [copies[v] if v is not None else None for v in node.inputs],
                    node.attributes.values(),
                    overload=node.overload,
                    outputs=[copies[v] for v in node.outputs],
                    name=node.name,
                )
            )
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
