"""Windows that slide over the spatial dimensions of convolutions and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mcm_compiler.contracts.gradients import GradientRequest


@dataclass(frozen=True)
class Windows:
    """Where the windows of an op lie, one entry for each spatial dimension.

    Window `o` covers places `o stride + k dilation - before` of the operand, `k < kernel`.

    Attributes:
        kernel: places of a window.
        strides: from window to window.
        dilations: from place to place of a window.
        before: padding in front.
        behind: padding behind, as the op has it.
        size: of what the windows slide over, without padding.
        count: number of windows.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    behind: tuple[int, ...]
    size: tuple[int, ...]
    count: tuple[int, ...]

    @property
    def covered(self) -> tuple[int, ...]:
        """From the first place of the first window to the last of the last one."""
        return tuple(
            (o - 1) * s + (k - 1) * d + 1
            for o, s, k, d in zip(
                self.count, self.strides, self.kernel, self.dilations, strict=True
            )
        )

    def spreading(self) -> dict[str, Any]:
        """Attributes of the `ConvTranspose` that takes what windows hold back to their places.

        Padding behind is what windows reach, which with `ceil_mode` is more than the op has, and
        without can be less; places behind the last window are output padding.
        """
        spare = [
            size + before - covered
            for size, before, covered in zip(self.size, self.before, self.covered, strict=True)
        ]
        return {
            "strides": list(self.strides),
            "dilations": list(self.dilations),
            "pads": [*self.before, *(max(0, -places) for places in spare)],
            "output_padding": [max(0, places) for places in spare],
        }


def numbers(request: GradientRequest, name: str, default: Sequence[int]) -> tuple[int, ...]:
    """A list of integers among the attributes."""
    return tuple(int(number) for number in request.attribute(name, default))


def text(request: GradientRequest, name: str, default: str) -> str:
    """A text among the attributes."""
    found = request.attribute(name, default)
    return found.decode() if isinstance(found, bytes) else str(found)


def padding(
    request: GradientRequest, needed: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Padding in front and behind.

    Args:
        request: of an op with `auto_pad` and `pads`.
        needed: padding in all that makes the result as large as `SAME_*` wants it.
    """
    mode = text(request, "auto_pad", "NOTSET")
    zeros = (0,) * len(needed)
    if mode == "VALID":
        return zeros, zeros
    if mode == "NOTSET":
        pads = numbers(request, "pads", (0,) * (2 * len(needed)))
        return pads[: len(needed)], pads[len(needed) :]
    less = tuple(max(0, total) // 2 for total in needed)
    more = tuple(max(0, total) - half for total, half in zip(needed, less, strict=True))
    return (less, more) if mode == "SAME_UPPER" else (more, less)


def windows_of(
    request: GradientRequest,
    kernel: tuple[int, ...],
    size: tuple[int, ...],
    count: tuple[int, ...],
) -> Windows:
    """The windows of a convolution or of pooling.

    Args:
        request: of the op.
        kernel: places of a window.
        size: spatial dimensions of the operand.
        count: of the result.
    """
    ones = (1,) * len(kernel)
    strides, dilations = (numbers(request, name, ones) for name in ("strides", "dilations"))
    needed = [
        (o - 1) * s + (k - 1) * d + 1 - i
        for o, s, k, d, i in zip(count, strides, kernel, dilations, size, strict=True)
    ]
    before, behind = padding(request, needed)
    return Windows(kernel, strides, dilations, before, behind, size, count)
