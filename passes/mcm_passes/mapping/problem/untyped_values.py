"""Values without a type: what makes and what reads one stays on the same chip.

A tensor between chips is an input of one chip's model and an output of another's, and ONNX wants
its type there. Nothing knows the type of what an op of a foreign domain makes, unless the model
says it. Such a value may still exist inside a chip's model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from mcm_compiler.arrays.dags import strong_components
from mcm_compiler.contracts.fusion import FusionPlan
from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.graph.constants import constants_and_placeable, consumed_values
from mcm_compiler.text.units import count_text
from mcm_passes.mapping.problem.measured_names import kernel_key


def untyped_reads(
    reads: Sequence[tuple[ir.Value, ...]], maker: Mapping[ir.Value, int]
) -> list[tuple[int, int]]:
    """`(maker, reader)` of values without a type that one unit makes and another reads.

    Args:
        reads: values that each unit reads and does not make.
        maker: the unit that makes a value.
    """
    return [
        (maker[value], unit)
        for unit, values in enumerate(reads)
        for value in values
        if value.type is None and value in maker
    ]


def joined_units(
    successors: Sequence[Sequence[int]], together: Sequence[tuple[int, int]]
) -> list[int]:
    """The component of each unit, so that pairs of `together` share one and no cycle arises.

    With an edge back from each reader to its maker, the strongly connected components are the
    smallest such sets: what is on a path between two members of one is a member as well.

    Args:
        successors: units that read from each unit; acyclic.
        together: pairs of units that may not be separated.

    Returns:
        A number for each unit, equal for units of the same component.
    """
    follow = [list(units) for units in successors]
    for made_by, reader in together:
        follow[reader].append(made_by)
    return strong_components(follow)


def untyped_note(graph: ir.Graph, plan: FusionPlan) -> Diagnostic | None:
    """MCM-P014 if values without a type keep ops of different kernels together."""
    constants, nodes = constants_and_placeable(graph)
    kernel: dict[ir.Value, str] = {}
    found: dict[ir.Value, None] = {}
    for node in nodes:
        own = kernel_key(node, plan)
        for value in consumed_values(node):
            if value.type is None and value not in constants and kernel.get(value, own) != own:
                found[value] = None
        kernel.update((value, own) for value in node.outputs)
    if not found:
        return None
    first = next(iter(found))
    producer = first.producer()
    assert producer is not None, "only values that an op makes are collected"
    return Diagnostic(
        "MCM-P014",
        f"{count_text(len(found), 'value')} without a type can't travel between chips, so that "
        f"the ops that make and read them share a chip; the first is {quote(first.name or '')}",
        at=f"node {quote(producer.name or '')} of type {quote(producer.op_type)}",
    )
