"""A graph with the gradients of a loss in it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from mcm_compiler.ir.rewriting.functions import inline_functions
from mcm_compiler.ir.shapes.decided_branches import fold_decided_branches
from mcm_compiler.ir.shapes.inference import infer_shapes, open_values
from mcm_passes.differentiation.emission import Emitter
from mcm_passes.differentiation.opset_raising import raise_opset
from mcm_passes.differentiation.reverse_mode import Rules, gradients_of
from mcm_passes.differentiation.rule_table import installed_gradients


def made_ready(model: ir.Model) -> int:
    """Brings a model to the form that rules are written for, in place.

    Functions and branches that are surely taken are inlined, shapes that are open are inferred, and
    the opset is raised.

    Returns:
        The opset version of ONNX's own domain.

    Raises:
        CompileError: MCM-D036 for an op that cannot be raised, and as `infer_shapes`.
    """
    inline_functions(model)
    inlined = 0
    while found := fold_decided_branches(model):  # a branch may hold others
        inlined += found
    if inlined or open_values(model):
        infer_shapes(model)
    return raise_opset(model)


def emit_gradients(
    graph: ir.Graph,
    loss: ir.Value,
    sources: Sequence[ir.Value],
    ops: Emitter,
    rules: Rules | None = None,
) -> list[ir.Value | None]:
    """Emits the gradients of a loss by sources; see `gradients_of`.

    Args:
        graph: `made_ready`.
        loss: a value of the graph; of one with several elements the sum is differentiated.
        sources: inputs or weights of floating point.
        ops: of the graph.
        rules: by operator; None for those that are installed.
    """
    ops.enter(f"grad/{loss.name}")
    kind = ops.operand(loss)
    seed = ops.constant(np.ones(kind.shape, kind.dtype.numpy()))
    return gradients_of(list(graph), {loss: seed}, sources, ops, rules or installed_gradients())


def append_gradients(model: ir.Model, loss: str, sources: Sequence[str]) -> list[ir.Value | None]:
    """Makes gradients of an output by inputs outputs of a model, in place.

    Args:
        model: nodes have distinct names.
        loss: name of an output.
        sources: names of inputs of floating point.

    Returns:
        For each source the output that is its gradient, named `grad/<source>`, or None where the
        loss does not depend on it.

    Raises:
        CompileError: MCM-D030 to MCM-D036.
        KeyError: for a name that the model has not.
    """
    version = made_ready(model)
    graph = model.graph
    ops = Emitter(graph, version)
    outputs = {value.name: value for value in graph.outputs}
    inputs = {value.name: value for value in graph.inputs}
    found = emit_gradients(graph, outputs[loss], [inputs[name] for name in sources], ops)
    made: list[ir.Value | None] = []
    for name, gradient in zip(sources, found, strict=True):
        ops.enter(f"grad/{name}")
        made.append(None if gradient is None else ops.op("Identity", gradient))
        if gradient is not None:
            made[-1].name = ops.name(f"grad/{name}")  # pyright: ignore[reportOptionalMemberAccess]
    ops.finish()
    graph.outputs.extend(value for value in made if value is not None)
    return made
