"""Trip counts of loops by one run of the model with the user's data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto, helper

from mcm_compiler.execution.inputs import random_inputs
from mcm_compiler.execution.runner import open_session, run_session
from mcm_compiler.graph.constants import subgraphs
from mcm_compiler.graph.trip_counts import loops_of, trips_of
from mcm_compiler.ir.rewriting.writer import write_model
from mcm_compiler.processes.private_folders import private_folder

_Counter = tuple[str, str]
"""Values of one scope: how often a loop was entered there, and how often its body ran."""

_Counters = dict[int, _Counter]
"""By the place of a loop in `loops_of`."""


def counted_trips(model: ir.Model, given: Mapping[str, Any]) -> dict[str, int]:
    """Runs a model with counters in its loops.

    A loop that is entered several times counts with the mean of its trips, rounded up; one that is
    never entered with 0. Loops within the body of a `SequenceMap` are not counted.

    Args:
        model: as it was imported, its shapes known; left unchanged.
        given: runtime values by graph input; random ones where one is missing.

    Returns:
        Counts of the loops that the graph does not give, by the names of `loops_of`.

    Raises:
        CompileError: MCM-V001 or MCM-V002 where onnxruntime does not run the model with these
            inputs.
    """
    loops = loops_of(model.graph)
    if all(trips_of(node).known for _, node in loops):
        return {}
    with private_folder(None) as folder:
        path = folder / "model.onnx"
        write_model(model, path)
        proto = onnx.load(path, load_external_data=False)
        counters = _Instrument(model.graph, proto.graph, [node for _, node in loops]).counters
        flat = [name for counter in counters.values() for name in counter]
        for name in flat:
            proto.graph.output.append(_scalar(name))
        path.write_bytes(proto.SerializeToString())
        feeds = random_inputs(model, 0) | dict(given)
        results = run_session(open_session(path), feeds, flat)
    found: dict[str, int] = {}
    for index, (entered, ran) in counters.items():
        label, node = loops[index]
        times = int(results[entered])
        if not trips_of(node).known:
            found[label] = -(-int(results[ran]) // times) if times else 0
    return found


class _Instrument:
    """Adds counters to the loops of a graph, in the text of its file.

    Attributes:
        counters: values of the main graph.
    """

    def __init__(self, graph: ir.Graph, proto: onnx.GraphProto, loops: list[ir.Node]) -> None:
        self._index = {node: index for index, node in enumerate(loops)}
        self._prefix = _unused_prefix(proto)
        self._number = 0
        self.counters = self._of_graph(graph, proto)

    def _of_graph(self, graph: ir.Graph, proto: onnx.GraphProto) -> _Counters:
        found: _Counters = {}
        more: list[onnx.NodeProto] = []
        # The file has the nodes of the graph, in its order.
        for node, text in zip(graph, proto.node, strict=True):
            if node.op_type == "SequenceMap" and node in self._index:
                found[self._index[node]] = (
                    self._constant(more, 1),
                    self._op(more, "SequenceLength", [text.input[0]]),
                )
            elif node.op_type in ("Loop", "Scan"):
                found |= self._of_loop(node, text, more)
            elif node.op_type == "If":
                found |= self._of_branches(node, text)
        proto.node.extend(more)
        return found

    def _of_loop(
        self, node: ir.Node, text: onnx.NodeProto, more: list[onnx.NodeProto]
    ) -> _Counters:
        body, (proto,) = subgraphs(node)[0], _graphs(text)
        inner = self._of_graph(body, proto)

        def collected(name: str) -> str:
            """Name of one trip's value in all trips."""
            proto.output.append(_scalar(name))
            for attribute in text.attribute:
                if attribute.name in ("scan_output_axes", "scan_output_directions"):
                    attribute.ints.append(0)
            text.output.append(self._name())
            return text.output[-1]

        found = {
            index: self._pair(
                counter, lambda name: self._op(more, "ReduceSum", [collected(name)], keepdims=0)
            )
            for index, counter in inner.items()
        }
        if node in self._index:
            ones: list[onnx.NodeProto] = []
            one = self._constant(ones, 1)
            proto.node.extend(ones)
            found[self._index[node]] = (
                self._constant(more, 1),
                self._op(more, "Size", [collected(one)]),
            )
        return found

    def _of_branches(self, node: ir.Node, text: onnx.NodeProto) -> _Counters:
        protos = _graphs(text)
        inner = [self._of_graph(g, p) for g, p in zip(subgraphs(node), protos, strict=True)]
        found: _Counters = {}
        for branch, counters in enumerate(inner):

            def returned(name: str, branch: int = branch) -> str:
                """A value of one branch, and 0 where the other runs."""
                for other, proto in enumerate(protos):
                    nodes: list[onnx.NodeProto] = []
                    proto.output.append(
                        _scalar(name if other == branch else self._constant(nodes, 0))
                    )
                    proto.node.extend(nodes)
                text.output.append(self._name())
                return text.output[-1]

            found |= {index: self._pair(one, returned) for index, one in counters.items()}
        return found

    def _pair(self, counter: _Counter, lift: Callable[[str], str]) -> _Counter:
        return lift(counter[0]), lift(counter[1])

    def _op(self, nodes: list[onnx.NodeProto], op: str, inputs: list[str], **kw: Any) -> str:
        name = self._name()
        nodes.append(helper.make_node(op, inputs, [name], name, **kw))
        return name

    def _constant(self, nodes: list[onnx.NodeProto], number: int) -> str:
        value = onnx.numpy_helper.from_array(np.array(number, np.int64))
        return self._op(nodes, "Constant", [], value=value)

    def _name(self) -> str:
        self._number += 1
        return f"{self._prefix}{self._number}"


def _graphs(text: onnx.NodeProto) -> list[onnx.GraphProto]:
    return [a.g for a in text.attribute if a.type == onnx.AttributeProto.GRAPH]


def _scalar(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.INT64, [])


def _unused_prefix(graph: onnx.GraphProto) -> str:
    """Prefix that no name in the text of a graph contains."""
    text, prefix = graph.SerializeToString(), "trips"
    while prefix.encode() in text:
        prefix += "_"
    return prefix
