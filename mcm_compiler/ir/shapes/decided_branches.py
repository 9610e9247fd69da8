"""`If` ops that sizes and constants decide: the branch that runs takes their place.

`If` whose condition is known: only one branch can run.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from mcm_compiler.equivalence.values.own_identities import OwnIdentities
from mcm_compiler.equivalence.values.source_values import number_source
from mcm_compiler.equivalence.values.value_numbers import ValueNumbers
from mcm_compiler.graph.constants import consumed_values
from mcm_compiler.ir.rewriting.naming import UnusedNames, name_nodes
from mcm_compiler.ir.rewriting.node_copying import copy_node, remove_nodes


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
