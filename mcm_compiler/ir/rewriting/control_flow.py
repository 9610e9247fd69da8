"""`If` whose condition is known: only one branch can run."""

from __future__ import annotations

import onnx_ir as ir

from mcm_compiler.contracts.chips import ORIGIN_PROPERTY
from mcm_compiler.ir.rewriting.naming import UnusedNames
from mcm_compiler.ir.rewriting.node_copying import copy_node, remove_nodes


def inline_constant_ifs(graph: ir.Graph) -> int:
    """Puts the branch that runs in the place of each `If` whose condition is an initializer.

    Ops and values of the branch get unused names; what the branch captures, the outer graph has.
    Outputs of the `If` are made by an `Identity` of the branch's results, which keeps the names
    of graph outputs and costs nothing once identities are removed.

    Args:
        graph: the main graph, changed in place.

    Returns:
        The number of `If` ops that were replaced.
    """
    found = [(node, branch) for node in graph if (branch := _known_branch(node)) is not None]
    if not found:
        return 0
    names = UnusedNames(graph)
    for node, branch in found:
        _inline(graph, node, branch, names)
    return len(found)


def _known_branch(node: ir.Node) -> ir.Graph | None:
    if node.op_type != "If" or node.domain not in ("", "ai.onnx") or not node.inputs:
        return None
    condition = node.inputs[0]
    if condition is None or condition.const_value is None or condition.is_graph_input():
        return None
    if condition.const_value.size != 1:
        return None
    taken = bool(condition.const_value.numpy().reshape(-1)[0])
    return node.attributes["then_branch" if taken else "else_branch"].as_graph()


def _inline(graph: ir.Graph, node: ir.Node, branch: ir.Graph, names: UnusedNames) -> None:
    origin = node.metadata_props.get(ORIGIN_PROPERTY)
    value_of: dict[ir.Value, ir.Value] = {}
    added: list[ir.Node] = []

    def add(new: ir.Node) -> None:
        if origin is not None:
            new.metadata_props[ORIGIN_PROPERTY] = origin
        added.append(new)

    for name, old in branch.initializers.items():
        weight = ir.Value(
            name=names.take(name), type=old.type, shape=old.shape, const_value=old.const_value
        )
        graph.register_initializer(weight)
        value_of[old] = weight
    for inner in branch:
        copy = copy_node(inner, value_of, names.take(inner.name or inner.op_type))
        for old, new in zip(inner.outputs, copy.outputs, strict=True):
            if old.name:
                new.name = names.take(old.name)
            value_of[old] = new
        add(copy)
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
        add(identity)
    graph.insert_before(node, added)
    remove_nodes(graph, [node])
