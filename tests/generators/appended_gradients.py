"""Gradients as outputs of a model."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from mcm_passes.differentiation.differentiate import emit_gradients, made_ready
from mcm_passes.differentiation.emission import Emitter


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
