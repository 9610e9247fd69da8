"""Convolutions in double for onnx's reference evaluator, whose own go element by element.

They take what the gradient checks meet, explicit paddings, and leave all else to the reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from onnx.reference.ops.op_conv import Conv as ReferenceConv
from onnx.reference.ops.op_conv_transpose import ConvTranspose as ReferenceConvTranspose

Array = np.ndarray[Any, Any]


class Conv(ReferenceConv):
    """By one product of matrices for each group."""

    op_domain = ""

    def _run(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, x: Array, w: Array, b: Array | None = None, **attributes: Any
    ) -> tuple[Array, ...]:
        if not _explicit(attributes):
            return super()._run(x, w, b, **attributes)
        rank = x.ndim - 2
        pads = attributes.get("pads") or [0] * (2 * rank)
        padding = list(zip(pads[:rank], pads[rank:], strict=True))
        strides = attributes.get("strides") or [1] * rank
        dilations = attributes.get("dilations") or [1] * rank
        made = _correlation(x, w, padding, strides, dilations, attributes.get("group") or 1)
        return (made if b is None else made + b.reshape(1, -1, *[1] * rank),)


class ConvTranspose(ReferenceConvTranspose):
    """As a convolution of the operand with zeros put between its elements."""

    op_domain = ""

    def _run(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, x: Array, w: Array, b: Array | None = None, **attributes: Any
    ) -> tuple[Array, ...]:
        rank = x.ndim - 2
        pads = attributes.get("pads") or [0] * (2 * rank)
        strides = attributes.get("strides") or [1] * rank
        dilations = attributes.get("dilations") or [1] * rank
        extents = [d * (k - 1) for d, k in zip(dilations, w.shape[2:], strict=True)]
        more = attributes.get("output_padding") or [0] * rank
        padding = [
            (extent - pads[axis], extent - pads[rank + axis] + more[axis])
            for axis, extent in enumerate(extents)
        ]
        if not _explicit(attributes) or min(map(min, padding)) < 0:
            return super()._run(x, w, b, **attributes)
        groups = attributes.get("group") or 1
        spread = np.zeros(
            (*x.shape[:2], *((n - 1) * s + 1 for n, s in zip(x.shape[2:], strides, strict=True))),
            x.dtype,
        )
        spread[(slice(None), slice(None), *(slice(None, None, s) for s in strides))] = x
        turned = np.flip(w, axis=tuple(range(2, w.ndim)))
        turned = turned.reshape(groups, w.shape[0] // groups, *w.shape[1:]).swapaxes(1, 2)
        turned = turned.reshape(groups * w.shape[1], w.shape[0] // groups, *w.shape[2:])
        made = _correlation(spread, turned, padding, [1] * rank, dilations, groups)
        return (made if b is None else made + b.reshape(1, -1, *[1] * rank),)


def _explicit(attributes: Mapping[str, Any]) -> bool:
    """Whether paddings are told in numbers."""
    return attributes.get("auto_pad") in (None, "", "NOTSET") and not attributes.get("output_shape")


def _correlation(
    x: Array,
    w: Array,
    padding: Sequence[tuple[int, int]],
    strides: Sequence[int],
    dilations: Sequence[int],
    groups: int,
) -> Array:
    """`[N, C, ...]` with `[M, C / groups, ...]` to `[N, M, ...]`."""
    rank = x.ndim - 2
    padded = np.pad(x, [(0, 0), (0, 0), *padding])
    extents = [d * (k - 1) + 1 for d, k in zip(dilations, w.shape[2:], strict=True)]
    windows = sliding_window_view(padded, extents, axis=tuple(range(2, x.ndim)))
    windows = windows[
        (
            slice(None),
            slice(None),
            *(slice(None, None, s) for s in strides),
            *(slice(None, None, d) for d in dilations),
        )
    ]
    channels, outputs = x.shape[1] // groups, w.shape[0] // groups
    inner = (1, *range(2 + rank, 2 + 2 * rank))
    parts = [
        np.tensordot(
            windows[:, g * channels : (g + 1) * channels],
            w[g * outputs : (g + 1) * outputs],
            axes=(inner, tuple(range(1, w.ndim))),
        )
        for g in range(groups)
    ]
    return np.moveaxis(np.concatenate(parts, axis=-1), -1, 1)
