"""Whether a model is another form of the same one: functions inlined, nodes named and sorted.

Nothing is computed here: an importer changes no op. What runs in the end are the ops that outputs
depend on, so that these are compared, with their attributes, weights and wires.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from mcm_compiler.diagnostics import quote
from mcm_compiler.equivalence.values.own_identities import OwnIdentities
from mcm_compiler.equivalence.values.source_values import SourceValues, number_source
from mcm_compiler.equivalence.values.value_numbers import ValueNumbers
from mcm_compiler.equivalence.values.weight_contents import WeightContents


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
    original: ir.Model, form: ir.Model, contents: WeightContents | None = None
) -> list[ModelDifference]:
    """Where `form` is another model than `original`; empty where it is the same.

    Args:
        original: the model as its file has it, or as it was built.
        form: what is said to be the same model.
        contents: of weights, where they were looked at before.
    """
    numbers, identities = ValueNumbers(contents), OwnIdentities()
    first = number_source(numbers, original, identities, placeholders=False, compute=False)
    known_before = len(numbers)
    second = number_source(numbers, form, identities, placeholders=False, compute=False, again=True)
    faults = _ends(first, second)
    if not faults:
        wrong = [
            name
            for (name, left), (_, right) in zip(first.outputs, second.outputs, strict=True)
            if left != right
        ]
        if wrong:
            faults = [_first_op(second, known_before)]
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


def _first_op(values: SourceValues, known_before: int) -> ModelDifference:
    """The first op that the original does not have."""
    for node in values.model.graph:
        if any(values.known.get(v, -1) >= known_before for v in node.outputs if v.name):
            return ModelDifference(
                f"op {quote(node.name or '')} ({quote(node.op_type)[1:-1]})",
                "differs from every op of the model in its type, its attributes, its weights or "
                "what it reads",
            )
    return ModelDifference("graph", "its ops are connected in another way")
