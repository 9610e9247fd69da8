"""Along which loops of an op of the model another op is cut, when laws are composed.

A part may be cut along several loops at once: a shard of a shard, rows of columns, a slice of a
partial sum. Each cut operand names loops by the law of its axis. What all these laws say of every
operand has to be what the operand holds, no more and no less.

Which windows of a convolution or pool another one of its type has, axis by axis.

Window `j` of an axis reads the elements `j stride - before + t dilation` of it, for each `t` of the
kernel; elements outside of the image are padding. An op on a part of the image has windows of the
whole if all that they read is in the part, or is padding of both.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from mcm_compiler.equivalence.parts import part_laws
from mcm_compiler.equivalence.parts.value_views import Cuts, Intervals, length, scaled
from mcm_compiler.equivalence.values.value_numbers import OpKey

FEW_ROWS, FEW_COLUMNS = 64, 192
"""Up to here onnxruntime divides a product otherwise, with the two threads that models run on to be
compared; see `reorders`."""

_EXACT = frozenset({"ConvInteger", "MatMulInteger", "ReduceMax", "ReduceMin"})

Relation = Callable[[int, int, Cuts], Cuts | None]
"""The cuts by which one number is a part of another; empty where it is all of it, None where it is
no part. Cuts that are expected by now decide where several would fit."""


@dataclass(frozen=True)
class CutOp:
    """Which part of an op of the model another op computes.

    Attributes:
        outputs: the cuts of each output.
        summed: the law of a divided sum, or None.
        units: of the sum.
        extent: all units of it.
        counted: whether what is to be added once is in.
    """

    outputs: tuple[Cuts, ...]
    summed: part_laws.Law | None = None
    units: Intervals = ()
    extent: int = 0
    counted: bool = True


class _Loops:
    def __init__(self, facts: part_laws.WholeOp) -> None:
        self.facts = facts
        self.cuts: list[Cuts] = [{} for _ in facts.shapes]
        self.outputs: list[Cuts] = [{} for _ in facts.results]
        self.summed: tuple[part_laws.Law, Intervals, int] | None = None
        self.units: dict[str, int] = {}

    def cut(self, position: int, axis: int, intervals: Intervals) -> bool:
        """Cuts the loop that an axis of an operand runs along."""
        if axis in self.cuts[position]:
            return self.cuts[position][axis] == intervals
        if has_windows(self.facts, position, axis):
            self.cuts[position][axis] = intervals
            return True
        law, shape = part_laws.law_of(self.facts, position, axis), self.facts.shapes[position]
        if law is None or shape is None or law.operands.get(position, (-1, 0))[0] != axis:
            return False
        unit = law.operands[position][1]
        units = scaled(intervals, unit)
        if units is None or (law.combined and self.summed is not None):
            return False
        places = [*((self.cuts[at], *place) for at, place in law.operands.items())]
        if law.combined:
            self.summed = (law, units, shape[axis] // unit)
        elif len(law.outputs) != len(self.outputs):
            return False
        else:
            places += [(own, *place) for own, place in zip(self.outputs, law.outputs, strict=True)]
        for own, along, each in places:
            if along in own:
                return False
            own[along] = tuple((a * each, b * each) for a, b in units)
        if law.units_attribute:
            self.units[law.units_attribute] = length(units)
        self.units |= {name: each * length(units) for name, each in law.units_each.items()}
        return True

    def is_expanded(self, sizes: Sequence[int] | None) -> bool:
        """Return whether a part that is expanded to `sizes` is the part of the result."""
        shape, result = self.facts.shapes[0], self.facts.results[0]
        if sizes is None or shape is None or result is None:
            return False
        own, made = (
            tuple(length(cuts[axis]) if axis in cuts else n for axis, n in enumerate(dims))
            for cuts, dims in ((self.cuts[0], shape), (self.outputs[0], result))
        )
        if len(sizes) > len(made):
            return False
        aligned = ([1] * (len(made) - len(dims)) + [*dims] for dims in (own, sizes))
        return all(
            {a, b} <= {1, n} and max(a, b) == n for a, b, n in zip(*aligned, made, strict=True)
        )

    def attributes_fit(self, op: OpKey) -> bool:
        own, given = dict(op.attributes), dict(self.facts.key.attributes)
        for name, count in self.units.items():
            given.pop(name, None)
            if own.pop(name, ("i", 1)) != ("i", count):
                return False
        if not has_windows(self.facts, 0, 2) or (
            own == given and not any(self.cuts[0].keys() - {0, 1})
        ):
            return own == given
        windows = window_cuts(self.facts, op, self.cuts[0])
        self.outputs[0] |= windows or {}
        return windows is not None and without_windows(own) == without_windows(given)


def cut_of(
    facts: part_laws.WholeOp,
    op: OpKey,
    order: Sequence[int],
    relation: Relation,
    is_nothing: Callable[[int], bool],
    ints: Callable[[int], Sequence[int] | None],
) -> CutOp | None:
    """How `op` is a part of an op of the model, or None.

    Args:
        facts: the op of the model.
        op: an op of its type.
        order: positions of operands by which loops are found, the surest first.
        relation: of operands.
        is_nothing: whether an operand adds nothing to a sum.
        ints: elements of a constant operand of `op`, or None.
    """
    given = facts.key.inputs
    if len(op.inputs) > len(given):
        return None
    own = [*op.inputs, *[None] * (len(given) - len(op.inputs))]
    loops = _Loops(facts)
    found: dict[int, Cuts | None] = {}
    sizes = part_laws.sizes_operand(facts.key)
    for at in order:
        left, right = own[at], given[at]
        if left is None or right is None or at == sizes:
            continue
        found[at] = relation(left, right, loops.cuts[at])
        if not all(loops.cut(at, *cut) for cut in (found[at] or {}).items()):
            return None
    once = loops.summed[0].counted_once if loops.summed is not None else -1
    counted = once < 0
    for at, (left, right) in enumerate(zip(own, given, strict=True)):
        held = right is None if left is None else found.get(at) == loops.cuts[at]
        if at == sizes:
            held = loops.is_expanded(ints(at))
        if at != once:
            if not held or (right is None and left is not None):
                return None
        elif left is not None:
            counted = held
            if not held and not is_nothing(left):
                return None
    if not loops.attributes_fit(op):
        return None
    if loops.summed is None:
        return CutOp(tuple(loops.outputs))
    law, units, extent = loops.summed
    return CutOp(tuple(loops.outputs), law, units, extent, counted)


def reorders(facts: part_laws.WholeOp, cut: CutOp) -> bool:
    """True if onnxruntime may add a part's products in another order than those of the whole.

    It chooses the blocks of a product by the sizes of the result, and divides the longer side of
    the result between threads. A part with many rows and columns has the blocks of the whole. Of a
    convolution, pixels are columns. With two threads, parts of fewer than about 160 pixels were
    measured to differ where more than 128 products are added; no limit is taken for granted.
    """
    if cut.summed is not None:
        return facts.key.op_type not in _EXACT
    (cuts, *_), (shape, *_) = cut.outputs, facts.results
    if facts.key.op_type in ("Conv", "ConvTranspose"):
        return bool(cuts.keys() - {1})
    if facts.key.op_type == "MatMulNBits" and shape is not None:
        # Blocks of columns begin at multiples of 64, a lone row is summed otherwise.
        columns = cuts.get(len(shape) - 1, ())
        few = columns and length(columns) < min(shape[-1], FEW_COLUMNS)
        return bool(few or cuts.keys() - {len(shape) - 1} or any(a % 64 for a, _ in columns))
    if facts.key.op_type not in ("Gemm", "MatMul") or shape is None or len(shape) < 2:
        return False
    own = [length(cuts[axis]) if axis in cuts else extent for axis, extent in enumerate(shape)]
    # Every axis before the columns counts as rows where the right operand is one matrix.
    first = 0 if len(facts.shapes[1] or ()) == 2 else len(shape) - 2
    rows, columns = prod(own[first:-1]), own[-1]
    if rows < prod(shape[first:-1]) and (rows < FEW_ROWS or rows < columns < FEW_COLUMNS):
        return True
    return columns < min(shape[-1], FEW_COLUMNS)


_POOLS = frozenset({"AveragePool", "LpPool", "MaxPool"})

_ATTRIBUTES = frozenset({"auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides"})


def has_windows(op: part_laws.WholeOp, position: int, axis: int) -> bool:
    """True if windows run along an axis of an operand."""
    known = not op.key.domain and op.key.op_type in _POOLS | part_laws.CONVOLUTIONS.keys()
    return known and not position and axis > 1 and len(op.results) == 1


def without_windows(attributes: Mapping[str, Hashable]) -> dict[str, Hashable]:
    """Attributes of an op that `window_cuts` does not compare."""
    return {name: key for name, key in attributes.items() if name not in _ATTRIBUTES}


def window_cuts(op: part_laws.WholeOp, part: OpKey, cuts: Cuts) -> Cuts | None:
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
    if (of_channels := part_laws.CONVOLUTIONS.get(op.key.op_type)) is not None:
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
