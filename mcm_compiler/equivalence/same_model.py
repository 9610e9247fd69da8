"""Whether a model is another form of the same one: functions inlined, nodes named and sorted.

An importer changes no op, but puts the branch that runs in the place of an `If` that sizes decide;
only for that something is computed. What runs in the end are the ops that outputs depend on, so
that these are compared, with their attributes, weights and wires.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from mcm_compiler.diagnostics import quote
from mcm_compiler.equivalence.values.own_identities import OwnIdentities
from mcm_compiler.equivalence.values.source_values import SourceValues, number_source
from mcm_compiler.equivalence.values.value_numbers import ValueNumbers
from mcm_compiler.equivalence.values.weight_contents import WeightContents
from mcm_compiler.graph.constants import graphs_of


@dataclass(frozen=True)
class ModelDifference:
    """Where two models differ.

    Attributes:
        place: an op, an input or an output.
        what: how.
    """

    place: str
    what: str


def model_differences(
    original: ir.Model,
    form: ir.Model,
    contents: WeightContents | None = None,
    facts: ir.Model | None = None,
) -> list[ModelDifference]:
    """Where `form` is another model than `original`; empty where it is the same.

    Args:
        original: the model as its file has it, or as it was built.
        form: what is said to be the same model.
        contents: of weights, where they were looked at before.
        facts: the model as it was imported, of which sizes and values are facts; None where no
            branch was decided.
    """
    numbers, identities = ValueNumbers(contents), OwnIdentities()
    decides = facts is not None and _has_branches(original)
    if facts is not None and decides:
        number_source(numbers, facts, identities, placeholders=False)

    def numbered(model: ir.Model, again: bool) -> SourceValues:
        return number_source(
            numbers, model, identities, placeholders=False, compute=decides, again=again,
            trusted=False,
        )  # fmt: skip

    first = numbered(original, again=decides)
    made = set(first.known.values()) if decides else range(len(numbers))
    second = numbered(form, again=True)
    faults = _ends(first, second)
    if not faults:
        wrong = [
            name
            for (name, left), (_, right) in zip(first.outputs, second.outputs, strict=True)
            if left != right
        ]
        if wrong:
            faults = [_first_op(second, made)]
            faults += [
                ModelDifference(f"output {quote(name)}", "is computed in another way")
                for name in dict.fromkeys(wrong)
            ]
    return faults


def _ends(first: SourceValues, second: SourceValues) -> list[ModelDifference]:
    faults: list[ModelDifference] = []
    for what, left, right in (
        ("inputs", first.model.graph.inputs, second.model.graph.inputs),
        ("outputs", first.model.graph.outputs, second.model.graph.outputs),
    ):
        names = [_names(first.model, left), _names(second.model, right)]
        if names[0] != names[1]:
            listed = [", ".join(map(quote, found)) or "none" for found in names]
            faults.append(
                ModelDifference(f"graph {what}", f"are {listed[1]}, the model has {listed[0]}")
            )
    return faults


def _names(model: ir.Model, values: Sequence[ir.Value]) -> list[str]:
    weights = model.graph.initializers
    inputs = set(model.graph.inputs)
    return [v.name or "" for v in values if v not in inputs or (v.name or "") not in weights]


def _has_branches(model: ir.Model) -> bool:
    bodies = (*graphs_of(model), *model.functions.values())
    return any(node.op_type == "If" for body in bodies for node in body)


def _first_op(values: SourceValues, made: Container[int]) -> ModelDifference:
    """The first op that makes a value that the original does not."""
    for node in values.model.graph:
        if any(values.known.get(v, -1) not in made for v in node.outputs if v.name):
            return ModelDifference(
                f"op {quote(node.name or '')} ({quote(node.op_type)[1:-1]})",
                "differs from every op of the model in its type, its attributes, its weights or "
                "what it reads",
            )
    return ModelDifference("graph", "its ops are connected in another way")
