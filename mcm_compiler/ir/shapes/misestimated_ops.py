"""Ops of which onnx's inference finds another shape than onnxruntime computes."""

from __future__ import annotations

import math
from collections.abc import Callable

import onnx_ir as ir

from mcm_compiler.graph.static_shapes import static_dims

_ROUNDING = 1e-5
"""Relative error within which a scaled size may fall on either side of a whole number."""


def may_be_misestimated(node: ir.Node) -> bool:
    """Whether the shape that inference finds for an op of ONNX may be another in onnxruntime.

    It is, wherever the two differ, and only there as far as attributes, constants and the static
    shapes at hand tell: pools that round up, padding to the same size with dilations or more
    padding behind, and sizes that are scaled.
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
    """Whether it depends on rounding which whole number a size is cut off to."""
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
