"""Windows that slide over the spatial dimensions of convolutions and pools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mcm_compiler.contracts.sharding.rules import Dim, OpFacts
from mcm_passes.parallelism.rules.operators.composing import HALO, OpRule, Shape

_NAMES = {1: "x", 2: "yx", 3: "zyx"}


@dataclass(frozen=True)
class Window:
    """How a window slides along one dimension, all sizes known.

    Attributes:
        extent: elements that it spans, holes of a dilation included.
        stride: elements between two places.
        before: padding in front.
        size: extent of the operand.
        places: extent of the result.
    """

    extent: int
    stride: int
    before: int
    size: int
    places: int

    def reads(self, start: int, stop: int) -> tuple[int, int]:
        """Elements that the places `start` to `stop` read; outside 0 to `size` is padding."""
        first = start * self.stride - self.before
        return first, (stop - 1) * self.stride - self.before + self.extent

    def after(self) -> int:
        """Padding behind that the last place reads."""
        return max(0, self.reads(0, self.places)[1] - self.size)


def windows(
    facts: OpFacts, image: Shape, kernel: Shape, out: Shape
) -> list[Window | tuple[int | None, int | None]]:
    """One per spatial dimension, from the attributes that convolutions and pools share.

    Returns:
        Of a dimension with a size that is unknown, or whose windows cannot be cut apart, the
        extents of operand and result instead.
    """
    rank = len(image)
    strides = facts.attributes.get("strides") or (1,) * rank
    dilations = facts.attributes.get("dilations") or (1,) * rank
    pads: Sequence[int] = facts.attributes.get("pads") or (0,) * (2 * rank)
    auto = facts.attributes.get("auto_pad", "NOTSET")
    auto = auto.decode() if isinstance(auto, bytes) else auto
    found: list[Window | tuple[int | None, int | None]] = []
    for axis in range(rank):
        size, places, taps = image[axis], out[axis], kernel[axis]
        found.append((size, places))
        if size is None or places is None or taps is None:
            continue
        extent, stride = (taps - 1) * int(dilations[axis]) + 1, int(strides[axis])
        before, after = int(pads[axis]), int(pads[axis + rank])
        if auto != "NOTSET":
            padding = 0 if auto == "VALID" else max((places - 1) * stride + extent - size, 0)
            before = padding // 2 if auto != "SAME_LOWER" else (padding + 1) // 2
            after = padding - before
        window = Window(extent, stride, before, size, places)
        # A window of padding alone has nothing to read, and one that hangs over the padding
        # (`ceil_mode`) is counted in another way.
        real = before < extent and window.reads(places - 1, places)[0] < size
        if real and window.after() <= after:
            found[-1] = window
    return found


def window_dims(
    op: OpRule, places: Sequence[Window | tuple[int | None, int | None]]
) -> tuple[list[Dim], list[Dim]]:
    """Spatial dimensions of operand and result.

    Windows that do not overlap are a minor factor that is needed whole, if they fill the operand
    with what they skip; others have a halo. Where there is one place only,
    there is nothing to divide.
    """
    names = _NAMES.get(len(places), "")
    before: list[Dim] = []
    after: list[Dim] = []
    for axis, window in enumerate(places):
        name = names[axis] if names else f"s{axis}"
        if not isinstance(window, Window) or window.places == 1:
            size, made = (window.size, 1) if isinstance(window, Window) else window
            before.append(op.needed(size, name))
            after.append(op.needed(made))
        elif (
            window.before == 0
            and window.extent <= window.stride
            and window.size == window.places * window.stride
        ):
            major = op.dim(window.places, name=name)
            before.append(major + op.needed(window.stride))
            after.append(major)
        else:
            slid = op.dim(window.places, HALO, name)
            before.append(slid if window.size != 1 else ())
            after.append(slid)
    return before, after
