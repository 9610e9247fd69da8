"""Sizes that a model declares, compared with what a compile can handle.

A file of a hundred bytes can declare a tensor of 2^40 elements. Nothing of that size is ever
allocated: sizes are computed from shapes first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import onnx_ir as ir

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.constants import constants_and_placeable, consumed_values
from mcm_compiler.graph.dimensions import free_inputs
from mcm_compiler.graph.static_shapes import static_dims
from mcm_compiler.text.units import bytes_text

MAX_VALUE_BYTES = 1 << 30
"""The largest value that a graph may hold besides its weights."""

MAX_ARRAY_BYTES = 1 << 62
"""Size that NumPy refuses even of an array without elements, dimensions of 0 left aside."""

_MAX_ELEMENT_BYTES = 16

_NO_WIDTH = frozenset({ir.DataType.STRING, ir.DataType.UNDEFINED})
"""Types whose elements have no number of bits."""

MAX_RUN_BYTES = 2 << 30
"""Inputs and activations that a model may need at one time to be run."""

_VIEWS = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""Ops whose result onnxruntime keeps where their first input is."""


def check_value_sizes(model: ir.Model) -> list[Diagnostic]:
    """Finds values of the main graph that no chip and no run could hold.

    Returns:
        MCM-I034 for the first one.
    """
    graph = model.graph
    for value in (*graph.inputs, *(v for node in graph for v in node.outputs)):
        size = known_bytes(value)
        if size == 0 and _is_beyond_arrays(value):
            size = MAX_ARRAY_BYTES
        if size <= MAX_VALUE_BYTES or (value.name or "") in graph.initializers:
            continue
        producer = value.producer()
        where = "graph input" if producer is None else f"made by {quote(producer.name or '')}"
        shape = list(value.shape.numpy()) if value.shape is not None else []
        return [
            Diagnostic(
                "MCM-I034",
                f"the shape {shape} calls for {size} bytes, at most {MAX_VALUE_BYTES} are compiled"
                if size < MAX_ARRAY_BYTES
                else f"no array has the shape {shape}",
                at=f"value {quote(value.name or '')} ({where})",
            )
        ]
    return []


def check_run_size(model: ir.Model, batches: int) -> None:
    """Checks that `batches` inputs and the activations of one run fit into `MAX_RUN_BYTES`.

    Raises:
        CompileError: MCM-V004 if they do not.
    """
    needed = run_bytes(model, batches)
    if needed > MAX_RUN_BYTES:
        raise CompileError.of(
            "MCM-V004",
            f"running the model on {batches} inputs takes {bytes_text(needed)}, at most "
            f"{bytes_text(MAX_RUN_BYTES)} are spent on verification",
            at=f"graph {quote(model.graph.name or '')}",
        )


def run_bytes(model: ir.Model, batches: int) -> int:
    """Bytes that a run holds at most at one time, as far as shapes are known.

    Inputs count once for each batch; an activation counts from the op that makes it to its last
    reader, in graph order, and a constant from the first one that is none. What only views a value
    takes none: onnxruntime leaves the elements where they are, and the value viewed counts to the
    last reader of its views.
    """
    live = sum(known_bytes(value) for value in free_inputs(model)) * batches
    outputs = set(model.graph.outputs)
    viewed: dict[ir.Value, ir.Value] = {}
    for node in model.graph:
        source = node.inputs[0] if node.op_type in _VIEWS and node.inputs else None
        if source is not None and node.domain in ("", "ai.onnx") and node.outputs:
            viewed[node.outputs[0]] = viewed.get(source, source)
    # Ops inside subgraphs read as well, and are not met below: such a value counts to the end.
    readers: dict[ir.Value, int] = {}
    sizes: dict[ir.Value, int] = {}
    for value in (v for node in model.graph for v in node.outputs):
        owner = viewed.get(value, value)
        readers[owner] = readers.get(owner, 0) + len(value.consumers())
        sizes[value] = 0 if owner is not value else known_bytes(value)
        if value in outputs:
            readers[owner] += 1  # never read in the graph: it stays to the end
    peak = live
    for node in _run_order(model.graph):
        live += sum([sizes[value] for value in node.outputs])
        peak = max(peak, live)
        for value in set(node.inputs):
            owner = viewed.get(value, value) if value is not None else None
            if owner is None or owner not in readers:
                continue
            readers[owner] -= 1
            if readers[owner] == 0:
                live -= sizes.get(owner, 0)
    return peak


def _run_order(graph: ir.Graph) -> Iterator[ir.Node]:
    """Ops in graph order, those on constants just before what reads them, as in onnxruntime."""
    constants, _ = constants_and_placeable(graph)
    waiting = {node for node in graph if node.outputs and node.outputs[0] in constants}
    if not waiting:
        yield from graph
        return
    position = {node: at for at, node in enumerate(graph)}
    for node in graph:
        if node in waiting:
            continue
        needed: set[ir.Node] = set()
        pending = [node]
        while pending:
            for value in consumed_values(pending.pop()):
                maker = value.producer()
                if maker is not None and maker in waiting:
                    waiting.discard(maker)
                    needed.add(maker)
                    pending.append(maker)
        yield from sorted(needed, key=position.__getitem__)
        yield node
    yield from sorted(waiting, key=position.__getitem__)


def _is_beyond_arrays(value: ir.Value) -> bool:
    if type(value.type) is not ir.TensorType or value.shape is None:
        return False
    sizes = [dim for dim in value.shape if isinstance(dim, int) and dim > 0]
    return math.prod(sizes) * _MAX_ELEMENT_BYTES >= MAX_ARRAY_BYTES


def known_bytes(value: ir.Value) -> int:
    """Bytes that a tensor of static shape takes in a run; 0 for everything else.

    NumPy gives elements of less than a byte a whole one; strings count as one byte each.
    """
    kind = value.type
    # By identity: asking whether None is one of a protocol takes ten times as long.
    if type(kind) is not ir.TensorType or (dims := static_dims(value.shape)) is None:
        return 0
    elements = math.prod(dims)
    if kind.dtype in _NO_WIDTH:
        return elements
    return elements * max(1, kind.dtype.bitwidth // 8)
