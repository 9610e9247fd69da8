"""The values of the model that chips are compared with."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from mcm_compiler.equivalence.values.constant_values import evaluate_pending
from mcm_compiler.equivalence.values.graph_walk import GraphWalk, Numbers
from mcm_compiler.equivalence.values.own_identities import OwnIdentities
from mcm_compiler.equivalence.values.value_numbers import InputKey, ValueNumbers, static_shape
from mcm_compiler.graph.dimensions import free_inputs

MAX_ROUNDS = 20
"""Each computes what the one before it made constant; an If within an If within an If takes one."""


@dataclass(eq=False)
class SourceValues:
    """All values of a model.

    Attributes:
        model: the model.
        names: the first name of each number.
        by_name: number of each value of the main graph by its name.
        known: number of each value of the main graph.
        nodes: nodes of the main graph by name.
        outputs: `(name, number)` of the graph outputs.
    """

    model: ir.Model
    names: dict[int, str]
    by_name: dict[str, int]
    known: Numbers
    nodes: dict[str, ir.Node]
    outputs: list[tuple[str, int]]


def input_numbers(model: ir.Model, numbers: ValueNumbers) -> dict[str, int]:
    """Numbers of what the host gives, by name."""
    return {
        value.name or "": numbers.of(InputKey(value.name or "", str(value.type)))
        for value in free_inputs(model)
    }


def number_source(
    numbers: ValueNumbers,
    model: ir.Model,
    identities: OwnIdentities,
    *,
    placeholders: bool,
    compute: bool = True,
    again: bool = False,
    trusted: bool = True,
) -> SourceValues:
    """Numbers a model until no more constants can be computed.

    Args:
        numbers: the table.
        model: the model.
        identities: of ops that are like no other.
        placeholders: whether `ConstantOfShape` stands for weights.
        compute: whether constants are computed.
        again: whether ops like no other are those of the model that was numbered before.
        trusted: whether the shapes of the model are facts; otherwise those that the table has are.
    """

    def walked() -> tuple[GraphWalk, Numbers]:
        if again:
            identities.begin_chips()
        else:
            identities.begin_source()
        known = {v: given[v.name or ""] for v in free_inputs(model)}
        walk = GraphWalk(
            numbers,
            model,
            identities,
            placeholders=placeholders,
            trusted_shapes=compute and trusted,
            compute=compute,
        )
        walk.run(known)
        return walk, known

    given = input_numbers(model, numbers)
    if compute and trusted:
        for value in free_inputs(model):
            if (shape := static_shape(value)) is not None:
                numbers.shapes[given[value.name or ""]] = shape
    walk, known = walked()
    for _ in range(MAX_ROUNDS):
        if not numbers.pending or not evaluate_pending(numbers):
            break
        walk, known = walked()
    names = dict(walk.names)
    for value, number in known.items():
        names.setdefault(number, value.name or "")
    return SourceValues(
        model,
        names,
        {v.name: known[v] for node in model.graph for v in node.outputs if v.name and v in known},
        known,
        {node.name or "": node for node in model.graph},
        [(v.name or "", known.get(v, -1)) for v in model.graph.outputs],
    )
