"""Text of a model, for `--print-after`, `mcmc opt` and golden tests.

One line a node, in an order and form that depend on the graph alone; large weights show type
and shape, facts that were computed follow behind `//`.
"""

from __future__ import annotations

import onnx_ir as ir

from mcm_compiler.contracts.cost import NODE_COST
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.partition import CHIP

MAX_SHOWN_ELEMENTS = 8


def print_model(model: ir.Model) -> str:
    """The main graph of `model` as text that ends in a newline."""
    graph = model.graph
    lines = [f"graph {graph.name or ''} (ir {model.ir_version}, opset {_opsets(model)})"]
    lines += [f"  input  {_typed(value)}" for value in graph.inputs]
    lines += [f"  weight {_typed(v)}{_literal(v)}" for v in graph.initializers.values()]
    plan = FUSION_PLAN.find(model)
    groups = plan.group_of if plan is not None else {}
    for node in graph:
        outputs = ", ".join(_typed(value) for value in node.outputs if value.name)
        inputs = ", ".join(value.name or "" if value is not None else "-" for value in node.inputs)
        domain = f"{node.domain}." if node.domain else ""
        facts: list[str] = []
        if (group := groups.get(node.name or "")) is not None:
            facts.append(f"group={group.name} ({group.kind})")
        if (cost := NODE_COST.find(node)) is not None:
            facts.append(f"{cost.flops:.0f} flop, {cost.seconds * 1e6:.3f} us, {cost.bound_by}")
        if (chip := CHIP.find(node)) is not None:
            facts.append(f"chip={chip}")
        tail = f"  // {'; '.join(facts)}" if facts else ""
        head = f"  {outputs} = {domain}{node.op_type}{_attributes(node)}({inputs})"
        lines.append(f"{head} @{node.name}{tail}")
    lines += [f"  output {_typed(value)}" for value in graph.outputs]
    return "\n".join(lines) + "\n"


def _opsets(model: ir.Model) -> str:
    return ", ".join(f"{d or 'ai.onnx'}={v}" for d, v in sorted(model.opset_imports.items()))


def _typed(value: ir.Value) -> str:
    if isinstance(value.type, ir.TensorType):
        shape = ",".join(map(_dim, value.shape)) if value.shape is not None else "?"
        return f"{value.name}: {value.type.dtype.name.lower()}[{shape}]"
    return f"{value.name}: {value.type if value.type is not None else '?'}"


def _dim(dim: int | ir.SymbolicDim) -> str:
    return str(dim) if isinstance(dim, int) else (dim.value or "?")


def _literal(value: ir.Value) -> str:
    tensor = value.const_value
    if tensor is None or tensor.size > MAX_SHOWN_ELEMENTS:
        return ""
    return f" = {tensor.numpy().tolist()}"


def _attributes(node: ir.Node) -> str:
    shown: list[str] = []
    for name, attribute in sorted(node.attributes.items()):
        if attribute.is_ref():
            shown.append(f"{name}=@{attribute.ref_attr_name}")
        elif attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
            shown.append(f"{name}=graph")
        elif attribute.type is ir.AttributeType.TENSOR:
            tensor = attribute.as_tensor()
            small = tensor.size <= MAX_SHOWN_ELEMENTS
            shown.append(f"{name}={tensor.numpy().tolist() if small else list(tensor.shape)}")
        else:
            value = attribute.value
            shown.append(f"{name}={list(value) if isinstance(value, (list, tuple)) else value}")
    return f"{{{', '.join(shown)}}}" if shown else ""
