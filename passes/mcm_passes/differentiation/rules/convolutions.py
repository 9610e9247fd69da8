"""Gradients of convolutions (Dumoulin and Visin 2016, *A guide to convolution arithmetic*, 4)."""

from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir

from mcm_compiler.contracts.gradients import GradientOps, GradientRequest, GradientRule
from mcm_passes.differentiation.composition import Windows, numbers, text, windows_of
from mcm_passes.differentiation.rules import operands
from mcm_passes.differentiation.rules.pooling import cut_or_padded


def _conv(request: GradientRequest) -> operands.Gradients:
    """Data by the transposed convolution, weights by one over the batch, bias by a sum."""
    x, w, gradient = (
        operands.given(request, 0),
        operands.given(request, 1),
        operands.arriving(request),
    )
    windows = windows_of(
        request,
        request.shape(w)[2:],
        request.shape(x)[2:],
        request.shape(request.node.outputs[0])[2:],
    )
    group = int(request.attribute("group", 1))
    to_x = to_w = None
    if request.wanted[0]:
        to_x = request.ops.op("ConvTranspose", gradient, w, group=group, **windows.spreading())
    if request.wanted[1]:
        to_w = _weight_gradient(request, x, gradient, windows, group)
    return [to_x, to_w, _bias_gradient(request)][: len(request.node.inputs)]


def _conv_transpose(request: GradientRequest) -> operands.Gradients:
    """The convolution that it is the transpose of, with operand and gradient in turn."""
    ops = request.ops
    x, w, gradient = (
        operands.given(request, 0),
        operands.given(request, 1),
        operands.arriving(request),
    )
    windows = _transposed_windows(request, x, w)
    group = int(request.attribute("group", 1))
    to_x = to_w = None
    if request.wanted[0]:
        to_x = ops.op(
            "Conv", gradient, w, group=group, strides=list(windows.strides),
            dilations=list(windows.dilations), pads=[*windows.before, *windows.behind],
        )  # fmt: skip
        to_x = _first(ops, to_x, windows.count)
    if request.wanted[1]:
        to_w = _weight_gradient(request, gradient, x, windows, group)
    return [to_x, to_w, _bias_gradient(request)][: len(request.node.inputs)]


def _transposed_windows(request: GradientRequest, x: ir.Value, w: ir.Value) -> Windows:
    """Those of the convolution that takes the result back to the operand.

    Padding behind is what the result is short of; it is negative where `output_padding` or
    `output_shape` made space behind the last window, which the gradient has to be cut by.
    """
    size = request.shape(request.node.outputs[0])[2:]
    windows = windows_of(request, request.shape(w)[2:], size, request.shape(x)[2:])
    before = windows.before
    if request.attribute("output_shape", None) is not None:
        upper = text(request, "auto_pad", "NOTSET") == "SAME_UPPER"
        short = [c - s for c, s in zip(windows.covered, size, strict=True)]
        extra = numbers(request, "output_padding", (0,) * len(size))
        total = [max(0, a + b) for a, b in zip(short, extra, strict=True)]
        before = tuple(t // 2 if upper else t - t // 2 for t in total)
    behind = tuple(
        max(0, covered - s - b) for covered, s, b in zip(windows.covered, size, before, strict=True)
    )
    return replace(windows, before=before, behind=behind)


def _weight_gradient(
    request: GradientRequest, x: ir.Value, gradient: ir.Value, windows: Windows, group: int
) -> ir.Value:
    """`Σ over batch and windows of gradient · operand`, `[out, in / group, kernel]`.

    A convolution whose channels are the batch: filters are the gradients, strides and dilations
    change places, and each group convolves its own block of `group · N` channels (our derivation).

    Args:
        request: of the op.
        x: what windows slide over, `[N, in, size]`.
        gradient: what arrives at each window, `[N, out, count]`.
        windows: where they lie.
        group: number of groups.
    """
    ops = request.ops
    batch, channels, *size = operands.dims(x)
    out = operands.dims(gradient)[1]
    spatial = [*range(3, 3 + len(size))]
    blocks = operands.reshaped(ops, x, (batch, group, channels // group, *size))
    blocks = ops.op("Transpose", blocks, perm=[2, 1, 0, *spatial])
    blocks = operands.reshaped(ops, blocks, (channels // group, group * batch, *size))
    swap = [1, 0, *(place - 1 for place in spatial)]
    filters = ops.op("Transpose", gradient, perm=swap)
    spare = windows.spreading()["pads"][len(size) :]
    found = ops.op(
        "Conv", blocks, filters, group=group, strides=list(windows.dilations),
        dilations=list(windows.strides), pads=[*windows.before, *spare],
    )  # fmt: skip
    assert operands.dims(found)[1] == out
    return ops.op("Transpose", _first(ops, found, windows.kernel), perm=swap)


def _bias_gradient(request: GradientRequest) -> ir.Value | None:
    if operands.operand(request, 2) is None or not request.wanted[2]:
        return None
    rank = len(request.shape(operands.given(request, 0)))
    axes = [axis for axis in range(rank) if axis != 1]
    return request.ops.op(
        "ReduceSum", operands.arriving(request), operands.ints(request.ops, axes), keepdims=0
    )


def _first(ops: GradientOps, value: ir.Value, extents: tuple[int, ...]) -> ir.Value:
    """The first places of each spatial dimension."""
    more = [e - have for have, e in zip(operands.dims(value)[2:], extents, strict=True)]
    return cut_or_padded(ops, value, [*([0] * (4 + len(more))), *more])


RULES: dict[str, GradientRule] = {"Conv": _conv, "ConvTranspose": _conv_transpose}
