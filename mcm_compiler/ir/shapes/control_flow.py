"""Branches that are decided before a run, and trip counts of loops by a run with data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto, helper

from mcm_compiler.equivalence.values.own_identities import OwnIdentities
from mcm_compiler.equivalence.values.source_values import number_source
from mcm_compiler.equivalence.values.value_numbers import ValueNumbers
from mcm_compiler.execution.inputs import random_inputs
from mcm_compiler.execution.runner import open_session, run_session
from mcm_compiler.graph.constants import consumed_values, subgraphs
from mcm_compiler.graph.trip_counts import loops_of, trips_of
from mcm_compiler.ir.rewriting.naming import UnusedNames, name_nodes
from mcm_compiler.ir.rewriting.node_copying import copy_node, remove_nodes
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


def fold_decided_branches(model: ir.Model) -> int:
    """Replaces each `If` of the main graph whose condition is the same in every run, in place.

    Conditions are computed as the proof by structure computes them, from constants and from the
    static shapes that are known so far, so that the proof takes the same branches. The branch that
    does not run may make no sense for the sizes given.

    Returns:
        The number of `If` ops that were replaced; those of a branch are left to another call.
    """
    ifs = [n for n in model.graph if n.op_type == "If" and n.domain in ("", "ai.onnx")]
    if not ifs:
        return 0
    numbers = ValueNumbers()
    known = number_source(numbers, model, OwnIdentities(), placeholders=False).known
    taken: dict[ir.Node, bool] = {}
    for node in ifs:
        condition = node.inputs[0] if node.inputs else None
        if condition is None or _may_be_overridden(condition, model.graph):
            continue
        content = numbers.known_content(known.get(condition))
        if content is not None and (array := numbers.contents.array(content)).size == 1:
            taken[node] = bool(array.reshape(-1)[0])
    if taken:
        inline_branches(model.graph, taken)
        name_nodes(model)
    return len(taken)


def _may_be_overridden(value: ir.Value, graph: ir.Graph) -> bool:
    """Return whether a value is, or is computed from, the default of a graph input."""
    defaults = {v for v in graph.inputs if (v.name or "") in graph.initializers}
    seen: set[ir.Value] = set()
    pending = [value] if defaults else []
    while pending:
        found = pending.pop()
        if found in defaults:
            return True
        maker = found.producer()
        if found not in seen and maker is not None:
            pending += consumed_values(maker)
        seen.add(found)
    return False


def inline_branches(graph: ir.Graph, taken: Mapping[ir.Node, bool]) -> None:
    """Puts the branch that runs in the place of each `If` whose condition is known.

    Ops and values of the branch get unused names; what the branch captures, the outer graph has.
    Outputs of the `If` are made by an `Identity` of the branch's results, which keeps the names
    of graph outputs and costs nothing once identities are removed.

    Args:
        graph: the main graph, changed in place.
        taken: the conditions of ops of the graph.
    """
    names = UnusedNames(graph)
    for node, condition in taken.items():
        branch = node.attributes["then_branch" if condition else "else_branch"].as_graph()
        _inline(graph, node, branch, names)


def _inline(graph: ir.Graph, node: ir.Node, branch: ir.Graph, names: UnusedNames) -> None:
    value_of: dict[ir.Value, ir.Value] = {}
    added: list[ir.Node] = []
    for name, old in branch.initializers.items():
        tensor = old.const_value
        if isinstance(tensor, ir.serde.TensorProtoTensor):
            # Writing a model names such a tensor as its value, in the message that it views.
            tensor = ir.serde.TensorProtoTensor(ir.serde.serialize_tensor(tensor))
        weight = ir.Value(name=names.take(name), type=old.type, shape=old.shape, const_value=tensor)
        graph.register_initializer(weight)
        value_of[old] = weight
    for inner in branch:
        copy = copy_node(inner, value_of, names.take(inner.name or inner.op_type))
        for old, new in zip(inner.outputs, copy.outputs, strict=True):
            if old.name:
                new.name = names.take(old.name)
            value_of[old] = new
        added.append(copy)
    for result, output in zip(branch.outputs, node.outputs, strict=True):
        if not output.name:
            continue
        identity = ir.Node(
            "", "Identity", [value_of.get(result, result)],
            name=names.take(f"{node.name}/result"),
        )  # fmt: skip
        made = identity.outputs[0]
        made.type, made.shape = output.type, output.shape
        output.replace_all_uses_with(made, replace_graph_outputs=True)
        made.name, output.name = output.name, None
        added.append(identity)
    graph.insert_before(node, added)
    remove_nodes(graph, [node])
