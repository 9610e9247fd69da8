"""Along which loops of an op of the model another op is cut, when laws are composed.

A part may be cut along several loops at once: a shard of a shard, rows of columns, a slice of a
partial sum. Each cut operand names loops by the law of its axis. What all these laws say of every
operand has to be what the operand holds, no more and no less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from mcm_compiler.equivalence.parts.part_laws import Law, WholeOp, law_of
from mcm_compiler.equivalence.parts.value_views import Cuts, Intervals, length, scaled
from mcm_compiler.equivalence.parts.window_laws import (
    has_windows,
    window_cuts,
    without_windows,
)
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
    summed: Law | None = None
    units: Intervals = ()
    extent: int = 0
    counted: bool = True


class _Loops:
    def __init__(self, facts: WholeOp) -> None:
        self.facts = facts
        self.cuts: list[Cuts] = [{} for _ in facts.shapes]
        self.outputs: list[Cuts] = [{} for _ in facts.results]
        self.summed: tuple[Law, Intervals, int] | None = None
        self.units: dict[str, int] = {}

    def cut(self, position: int, axis: int, intervals: Intervals) -> bool:
        """Cuts the loop that an axis of an operand runs along."""
        if axis in self.cuts[position]:
            return self.cuts[position][axis] == intervals
        if has_windows(self.facts, position, axis):
            self.cuts[position][axis] = intervals
            return True
        law, shape = law_of(self.facts, position, axis), self.facts.shapes[position]
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
    facts: WholeOp,
    op: OpKey,
    order: Sequence[int],
    relation: Relation,
    is_nothing: Callable[[int], bool],
) -> CutOp | None:
    """How `op` is a part of an op of the model, or None.

    Args:
        facts: the op of the model.
        op: an op of its type.
        order: positions of operands by which loops are found, the surest first.
        relation: of operands.
        is_nothing: whether an operand adds nothing to a sum.
    """
    given = facts.key.inputs
    if len(op.inputs) > len(given):
        return None
    own = [*op.inputs, *[None] * (len(given) - len(op.inputs))]
    loops = _Loops(facts)
    found: dict[int, Cuts | None] = {}
    for at in order:
        left, right = own[at], given[at]
        if left is None or right is None:
            continue
        found[at] = relation(left, right, loops.cuts[at])
        if not all(loops.cut(at, *cut) for cut in (found[at] or {}).items()):
            return None
    once = loops.summed[0].counted_once if loops.summed is not None else -1
    counted = once < 0
    for at, (left, right) in enumerate(zip(own, given, strict=True)):
        held = right is None if left is None else found.get(at) == loops.cuts[at]
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


def reorders(facts: WholeOp, cut: CutOp) -> bool:
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
