"""Which shapes are the same for every input, as far as the ops themselves show.

Ops of which onnx's inference finds another shape than onnxruntime computes.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import onnx_ir as ir

from mcm_compiler.graph.constants import consumed_values, is_deterministic, subgraphs
from mcm_compiler.graph.op_classes import SHAPED_BY_VALUES
from mcm_compiler.graph.static_shapes import static_dims
from mcm_compiler.ir.shapes.decoder_rules import covers

_RANKED_BY_LENGTH = {
    "AffineGrid": 1, "Col2Im": 1, "ConstantOfShape": 0, "Expand": 1, "GatherND": 1, "Reshape": 1,
    "Unsqueeze": 1,
}  # fmt: skip
"""Input whose shape decides the number of dimensions of the output."""

_SHAPED_BY_DATA = frozenset(
    {
        "Compress", "ImageDecoder", "NonMaxSuppression", "NonZero", "StringNormalizer",
        "StringSplit", "Unique",
    }
)  # fmt: skip

_DOMAINS = frozenset({"", "ai.onnx"})

_OF_TENSORS = frozenset({ir.SequenceType, ir.OptionalType})
"""Looked up by identity: asking whether a value is one of a protocol takes ten times as long."""


def fixed_shapes(model: ir.Model) -> set[ir.Value]:
    """Values whose shape follows from static shapes and constants alone.

    What shape inference made static is fixed. Beyond it, a shape is fixed where all inputs of the
    op have fixed shapes and those that decide about the shape have fixed values, which come from
    constants and from `Shape` of fixed shapes. Control flow, sequences and ops of other domains
    than ONNX's are taken for data-dependent, but for those of decoders.
    """
    return _fixed(model)[0]


def shaped_by_sizes_alone(model: ir.Model, node: ir.Node) -> bool:
    """Return whether the shapes of an op's inputs and outputs are the same for every input."""
    shapes, values = _fixed(model)
    return (
        _regular(node)
        and shapes.issuperset(consumed_values(node))
        and values.issuperset(_shaping_inputs(node))
    )


def doubtful_values(model: ir.Model) -> list[ir.Value]:
    """Values with a static shape that the rules of their ops do not vouch for, in graph order.

    It may be declared and false: of ops of other domains, of ops whose output shape follows from
    data. It may be inferred and false: of ops that `may_be_misestimated`, and of what comes out of
    bodies, sequences and optionals, which inference follows loosely. Only values that something
    reads, or that are outputs.
    """
    shapes, values = _fixed(model)
    found: list[ir.Value] = []
    for node in model.graph:
        misestimated = may_be_misestimated(node)
        if not misestimated and values.issuperset(node.outputs):
            continue
        sure = (
            not misestimated
            and _regular(node)
            and values.issuperset(_shaping_inputs(node))
            and shapes.issuperset(consumed_values(node))
        )
        if not sure:
            found += [v for v in node.outputs if _claimed(v) and (v.is_graph_output() or v.uses())]
    return found


def _claimed(value: ir.Value) -> bool:
    """Return whether a tensor, or elements of a sequence or optional, declares a static shape."""
    return value.name is not None and static_dims(value.shape) is not None


def open_ranks(model: ir.Model) -> set[ir.Value]:
    """Values whose number of dimensions may differ from input to input.

    Of those whose rank inference leaves open they are the ones where an op takes axes, a condition
    or the length of a shape from data, and all that follows from them.
    """
    shapes, values = _fixed(model)
    found: set[ir.Value] = set()
    for node in model.graph:
        if _takes_rank_from_data(node, shapes, values) or any(
            v in found for v in consumed_values(node)
        ):
            found.update(v for v in node.outputs if v.shape is None and v not in shapes)
    return found


def _fixed(model: ir.Model) -> tuple[set[ir.Value], set[ir.Value]]:
    """Values of fixed shape, and those that are fixed themselves."""
    graph = model.graph
    shapes = {v for v in graph.inputs if _static(v)} | set(graph.initializers.data.values())
    values = set(graph.initializers.data.values())
    for node in graph:
        inputs = consumed_values(node)
        same_shapes = shapes.issuperset(inputs)
        measures = node.op_type in ("Shape", "Size") and node.domain in _DOMAINS
        if (measures and same_shapes) or (values.issuperset(inputs) and is_deterministic(node)):
            values.update(node.outputs)
            shapes.update(node.outputs)
        elif same_shapes and values.issuperset(_shaping_inputs(node)) and _regular(node):
            shapes.update(node.outputs)
        else:
            shapes.update(v for v in node.outputs if _static(v))
    return shapes, values


def _takes_rank_from_data(node: ir.Node, shapes: set[ir.Value], values: set[ir.Value]) -> bool:
    if node.domain not in _DOMAINS:
        return False
    inputs = [*node.inputs, None, None]
    if node.op_type == "If":
        return inputs[0] not in values
    if node.op_type == "Squeeze" and inputs[1] is None:
        return "axes" not in node.attributes and inputs[0] not in shapes
    if node.op_type == "Squeeze" or node.op_type.startswith("Reduce"):
        # An axis that is named twice counts once.
        kept = node.op_type != "Squeeze" and node.attributes.get_int("keepdims", 1) == 1
        return not kept and inputs[1] is not None and inputs[1] not in values
    position = _RANKED_BY_LENGTH.get(node.op_type)
    return position is not None and inputs[position] not in shapes


def _shaping_inputs(node: ir.Node) -> list[ir.Value]:
    """Inputs of a node whose values decide the shape of its output."""
    inputs = node.inputs
    found = [inputs[p] for p in SHAPED_BY_VALUES.get(node.op_type, ()) if p < len(inputs)]
    return [value for value in found if value is not None]


def _regular(node: ir.Node) -> bool:
    if node.domain not in _DOMAINS:
        return covers(node)
    if node.op_type in _SHAPED_BY_DATA:
        return False
    if subgraphs(node):
        return False
    kinds = [type(value.type) for value in (*node.inputs, *node.outputs) if value is not None]
    return _OF_TENSORS.isdisjoint(kinds)


def _static(value: ir.Value) -> bool:
    return type(value.type) is ir.TensorType and static_dims(value.shape) is not None


_ROUNDING = 1e-5
"""Relative error within which a scaled size may fall on either side of a whole number."""


def may_be_misestimated(node: ir.Node) -> bool:
    """Return whether inference may find another shape for an op of ONNX than onnxruntime makes.

    It is, wherever the two differ, and only there as far as attributes, constants and the static
    shapes at hand show. These are pools that round up, padding to the same size with dilations or
    more padding behind, and sizes that are scaled.
    """
    rule = _RULES.get(node.op_type)
    return rule is not None and node.domain in ("", "ai.onnx") and rule(node)


def _pool(node: ir.Node) -> bool:
    rounds_up = node.attributes.get_int("ceil_mode", 0) != 0
    if _pads_to_same(node):
        return rounds_up or any(n != 1 for n in node.attributes.get_ints("dilations", ()) or ())
    if not rounds_up:
        return False
    given, made = _dims(node.inputs[0]), _dims(node.outputs[0])
    if given is None or made is None or len(given) != len(made):
        return True
    # A last window that would begin in the padding behind is left out by onnxruntime alone.
    spatial = len(made) - 2
    strides = node.attributes.get_ints("strides", ()) or (1,) * spatial
    begins = (node.attributes.get_ints("pads", ()) or (0,) * spatial)[:spatial]
    return any(
        (size - 1) * stride >= extent + begin
        for size, stride, extent, begin in zip(made[2:], strides, given[2:], begins, strict=False)
    )


def _transposed_convolution(node: ir.Node) -> bool:
    attributes = node.attributes
    if not _pads_to_same(node) or "output_shape" in attributes:
        return False
    return any(attributes.get_ints("output_padding", ()) or ())


def _scaled(node: ir.Node) -> bool:
    if _given(node, 3) is not None:
        return node.attributes.get_string("keep_aspect_ratio_policy", "stretch") != "stretch"
    extents = _dims(node.inputs[0])
    if "scales" in node.attributes:
        scales = list(node.attributes.get_floats("scales", ()) or ())
    else:
        # In opset 10 and in Upsample they are the second input.
        given = _given(node, 2) or _given(node, 1)
        tensor = ir.convenience.get_const_tensor(given) if given is not None else None
        if tensor is None or (given is not None and given.is_graph_input()):
            return True
        scales = [float(scale) for scale in tensor.numpy().reshape(-1)]
    if extents is None:
        return True
    axes = node.attributes.get_ints("axes", ()) or range(len(extents))
    return any(
        _is_ambiguous(extents[axis] * scale)
        for axis, scale in zip(axes, scales, strict=False)
        if -len(extents) <= axis < len(extents)
    )


def _is_ambiguous(size: float) -> bool:
    """Return whether it depends on rounding which whole number a size is cut off to."""
    if not math.isfinite(size) or size == round(size):
        return False
    return math.floor(size * (1 - _ROUNDING)) != math.floor(size * (1 + _ROUNDING))


def _dims(value: ir.Value | None) -> tuple[int, ...] | None:
    return static_dims(value.shape) if value is not None else None


def _given(node: ir.Node, position: int) -> ir.Value | None:
    return node.inputs[position] if position < len(node.inputs) else None


def _pads_to_same(node: ir.Node) -> bool:
    return node.attributes.get_string("auto_pad", "NOTSET") in ("SAME_UPPER", "SAME_LOWER")


_RULES: dict[str, Callable[[ir.Node], bool]] = {
    "AveragePool": _pool,
    "ConvTranspose": _transposed_convolution,
    "LpPool": _pool,
    "MaxPool": _pool,
    "Resize": _scaled,
    "Upsample": _scaled,
}
