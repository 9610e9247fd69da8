"""Which windows of a convolution or pool another one of its type has, axis by axis.

Window `j` of an axis reads the elements `j stride - before + t dilation` of it, for each `t` of the
kernel; elements outside of the image are padding. An op on a part of the image has windows of the
whole if all that they read is in the part, or is padding of both.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from mcm_compiler.equivalence.parts.part_laws import CONVOLUTIONS, WholeOp
from mcm_compiler.equivalence.parts.value_views import Cuts
from mcm_compiler.equivalence.values.value_numbers import OpKey

_POOLS = frozenset({"AveragePool", "LpPool", "MaxPool"})

_ATTRIBUTES = frozenset({"auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides"})


def has_windows(op: WholeOp, position: int, axis: int) -> bool:
    """True if windows run along an axis of an operand."""
    known = not op.key.domain and op.key.op_type in _POOLS | CONVOLUTIONS.keys()
    return known and not position and axis > 1 and len(op.results) == 1


def without_windows(attributes: Mapping[str, Hashable]) -> dict[str, Hashable]:
    """Attributes of an op that `window_cuts` does not compare."""
    return {name: key for name, key in attributes.items() if name not in _ATTRIBUTES}


def window_cuts(op: WholeOp, part: OpKey, cuts: Cuts) -> Cuts | None:
    """Which windows of an op of the model a part of it has.

    Args:
        op: of the model.
        part: an op of its type.
        cuts: of the image that the part reads.

    Returns:
        The cuts of the result along the axes of windows, or None where the part computes others.
    """
    image, result = op.shapes[0], op.results[0]
    kernel = op.key.numbers("kernel_shape")
    if (of_channels := CONVOLUTIONS.get(op.key.op_type)) is not None:
        kernel = (op.shapes[of_channels[0]] or ())[2:]
    elif part.numbers("kernel_shape") != kernel:
        return None
    if image is None or result is None or kernel is None or len(kernel) != len(image) - 2:
        return None
    found: Cuts = {}
    for k, reach in enumerate(kernel):
        extent = image[k + 2]
        intervals = cuts.get(k + 2, ((0, extent),))
        if len(intervals) != 1:
            return None
        start, stop = intervals[0]
        whole = _windows(op.key, k, extent, reach, len(kernel))
        own = _windows(part, k, stop - start, reach, len(kernel))
        if whole is None or own is None or whole.count != result[k + 2]:
            return None
        first = whole.first_of(own, start, stop, extent)
        if first is None:
            return None
        if (first, own.count) != (0, whole.count):
            found[k + 2] = ((first, first + own.count),)
    return found


@dataclass(frozen=True)
class _Windows:
    stride: int
    dilation: int
    reach: int
    before: int
    after: int
    count: int
    counts_padding: bool

    def first_of(self, own: _Windows, start: int, stop: int, extent: int) -> int | None:
        """The window with which those of a part `[start, stop)` begin, or None."""
        moved = start - own.before + self.before
        if (own.stride, own.dilation) != (self.stride, self.dilation) or moved % self.stride:
            return None
        first, end = moved // self.stride, start - own.before + own.span
        if first < 0 or first + own.count > self.count:
            return None
        if (own.before and start) or (end > stop and stop != extent):
            return None
        if self.counts_padding and min(end, extent + self.after) != min(end, stop + own.after):
            return None
        return first

    @property
    def span(self) -> int:
        """Elements from the first that is read to the last."""
        return (self.count - 1) * self.stride + self.reach


def _windows(key: OpKey, axis: int, extent: int, kernel: int, axes: int) -> _Windows | None:
    given = [key.numbers(name) or (1,) * axes for name in ("strides", "dilations")]
    if any(len(own) != axes or own[axis] < 1 for own in given):
        return None
    stride, dilation = (own[axis] for own in given)
    reach, up = (kernel - 1) * dilation + 1, key.number("ceil_mode", 0)
    pads = _pads(key, axis, extent, stride, reach, axes)
    if pads is None or extent + sum(pads) < reach:
        return None
    left = extent + sum(pads) - reach
    count = (-(-left // stride) if up else left // stride) + 1
    if up and (count - 1) * stride >= extent + pads[0]:
        return None  # versions of ONNX differ on a window of padding alone
    counted = bool(key.number("count_include_pad", 0))
    return _Windows(stride, dilation, reach, *pads, count, counted)


def _pads(
    key: OpKey, axis: int, extent: int, stride: int, reach: int, axes: int
) -> tuple[int, int] | None:
    automatic, pads = key.attribute("auto_pad"), key.numbers("pads")
    if automatic is None:
        pads = pads or (0,) * (2 * axes)
        return (pads[axis], pads[axis + axes]) if len(pads) == 2 * axes and min(pads) >= 0 else None
    if automatic == ("s", b"VALID"):
        return (0, 0)
    if automatic not in (("s", b"SAME_UPPER"), ("s", b"SAME_LOWER")) or key.number("ceil_mode", 0):
        return None
    missing = max(0, (-(-extent // stride) - 1) * stride + reach - extent)
    few, many = missing // 2, missing - missing // 2
    return (few, many) if automatic == ("s", b"SAME_UPPER") else (many, few)
