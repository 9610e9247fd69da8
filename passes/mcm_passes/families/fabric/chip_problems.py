"""The units and streams of chips, also of those with nothing to do."""

from __future__ import annotations

import onnx_ir as ir

from mcm_compiler.contracts.fabrics.fabric import MappingProblem
from mcm_compiler.contracts.fabrics.target import MapsChips, UnitChoice
from mcm_compiler.diagnostics import CompileError

NOTHING = "MCM-M004"
"""Code of subgraphs of which nothing depends on their inputs."""


def chip_problem(target: MapsChips, model: ir.Model) -> MappingProblem:
    """The units and streams of a chip of a package.

    A chip may have been given only ops whose results are known before the first inference, or of
    which nothing comes. It takes part in each inference by passing one element on.

    Args:
        target: the package.
        model: of the chip.

    Raises:
        CompileError: as `MapsChips.mapping_problem`, but for MCM-M004.
    """
    try:
        return target.mapping_problem(model, UnitChoice())
    except CompileError as error:
        if not is_nothing(error):
            raise
    return target.mapping_problem(_passing_on(model.graph.name), UnitChoice())


def is_nothing(error: CompileError) -> bool:
    """True if all that is wrong with a chip is that there is nothing to lay out."""
    return [fault.code for fault in error.diagnostics] == [NOTHING]


def _passing_on(name: str | None) -> ir.Model:
    element, shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([1])
    taken = ir.Value(name="in", type=element, shape=shape)
    passed = ir.Node("", "Identity", [taken], name="pass on")
    made = passed.outputs[0]
    made.name, made.type, made.shape = "out", element, shape
    graph = ir.Graph([taken], [made], nodes=[passed], name=name, opset_imports={"": 18})
    return ir.Model(graph, ir_version=10)
