"""Inlining model-local functions, so that their ops can be placed one by one."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import InlinePass, RemoveUnusedFunctionsPass


def inline_functions(model: ir.Model) -> int:
    """Replaces calls of functions by their bodies, in place; unused functions go.

    Onnxruntime does the same when it loads a model, so that no bit changes. A function stays as
    it is, and each call of it one op, if its opsets are not those of the model, or if it takes or
    is given a graph as attribute. The same holds if an output of it is one of its inputs or given
    twice. The version of a *private* domain, of which the model's functions are all ops that it
    uses, means nothing: calls find a function by domain, name and overload. How far calls expand
    has to be checked before.

    Returns:
        The number of functions that were inlined.
    """
    if not model.functions:
        return 0
    RemoveUnusedFunctionsPass()(model)
    _agree_on_private_domains(model)
    opsets = dict(model.opset_imports)
    given_graphs = _called_with_graphs(model)
    wanted = {
        key
        for key, function in model.functions.items()
        if key not in given_graphs and _fits(function, opsets)
    }
    InlinePass(criteria=lambda function: function.identifier() in wanted)(model)
    return len(wanted)


def _agree_on_private_domains(model: ir.Model) -> None:
    """Gives every function the model's version of each private domain, in place."""
    defined = set(model.functions)
    bodies = (model.graph, *model.functions.values())
    used = {node.op_identifier() for body in bodies for node in body.all_nodes()}
    foreign = {domain for domain, _, _ in used - defined}
    private = {domain for domain, _, _ in defined} - foreign - _STANDARD
    agreed = {d: version for d, version in model.opset_imports.items() if d in private}
    for function in model.functions.values():
        for domain, version in function.opset_imports.items():
            if domain in private:
                function.opset_imports[domain] = agreed.setdefault(domain, version)


_STANDARD = {"", "ai.onnx", "ai.onnx.ml"}
_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def _called_with_graphs(model: ir.Model) -> set[ir.OperatorIdentifier]:
    """Ops of which some node has a graph as attribute."""
    return {
        node.op_identifier()
        for body in (model.graph, *model.functions.values())
        for node in body.all_nodes()
        if any(attribute.type in _GRAPHS for attribute in node.attributes.values())
    }


def _fits(function: ir.Function, opsets: dict[str, int]) -> bool:
    """Return whether `function` can be inlined; adds the opsets that it brings to `opsets`."""
    if any(opsets.get(domain, version) != version
           for domain, version in function.opset_imports.items()):  # fmt: skip
        return False
    if any(a.type in _GRAPHS for a in function.attributes.values()):
        return False
    outputs = list(function.outputs)
    if len(set(outputs)) < len(outputs) or set(outputs) & set(function.inputs):
        return False
    opsets.update(function.opset_imports)
    return True
