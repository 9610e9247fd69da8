"""`If` ops that sizes and constants decide: the branch that runs takes their place."""

from __future__ import annotations

import onnx_ir as ir

from mcm_compiler.equivalence.values.own_identities import OwnIdentities
from mcm_compiler.equivalence.values.source_values import number_source
from mcm_compiler.equivalence.values.value_numbers import ValueNumbers
from mcm_compiler.graph.constants import consumed_values
from mcm_compiler.ir.rewriting.control_flow import inline_branches
from mcm_compiler.ir.rewriting.naming import name_nodes


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
    """Whether a value is, or is computed from, the default of a graph input."""
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
