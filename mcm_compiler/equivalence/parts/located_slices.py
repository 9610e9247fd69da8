"""Where in a constant of the model a constant of a chip is: found by content, proven by bytes.

No name or number of the folder is believed: lines of the part are looked up among lines of the
whole by a sample of their bytes, and every byte is compared in the end.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcm_compiler.equivalence.parts.cut_loops import cut_of
from mcm_compiler.equivalence.parts.part_laws import WholeOp
from mcm_compiler.equivalence.parts.value_views import MAX_INTERVALS, Cuts, chosen, length, merged
from mcm_compiler.equivalence.values.value_numbers import PlaceholderKey, ValueNumbers, WeightKey

SAMPLES = 32
"""Elements of a line that are looked at first."""

_CHUNK_BYTES = 1 << 24

_PLACE = re.compile(r"(\d{1,9})_(\d{1,12})_(\d{1,12})(?:_of_(\d{1,9})_runs)?")

Bytes = NDArray[np.unsignedinteger[Any]]


class LocatedSlices:
    """Finds slices of constants.

    Args:
        numbers: the table.
    """

    def __init__(self, numbers: ValueNumbers) -> None:
        self._numbers = numbers
        self._found: dict[Hashable, Cuts | None] = {}
        self._lines = numbers.contents.lines

    def locate(self, part: int, whole: int, expected: Cuts | None = None) -> Cuts | None:
        """The cuts by which `part` is a part of `whole`: empty for all of it, None for no part.

        Args:
            part: number of a constant.
            whole: likewise.
            expected: cuts that these have to be among, where they fit; they are not looked for.
        """
        if part == whole:
            return {}
        key = (part, whole, tuple(sorted((expected or {}).items())))
        if key not in self._found:
            self._found[key] = self._locate(part, whole, expected or {})
        return self._found[key]

    def _locate(self, part: int, whole: int, expected: Cuts) -> Cuts | None:
        own, given = constant_shape(self._numbers, part), constant_shape(self._numbers, whole)
        if own is None or given is None or len(own) != len(given) or not math.prod(own):
            return None
        differing = {k for k, n in enumerate(own) if n != given[k]}
        cuts = {k: at for k, at in expected.items() if k in differing and length(at) == own[k]}
        if not differing or any(own[k] > given[k] for k in differing):
            return None
        held, full = self._numbers.key(part), self._numbers.key(whole)
        if isinstance(held, WeightKey) and isinstance(full, WeightKey):
            pair = (held.content, full.content, tuple(sorted(cuts.items())))
            located = self._numbers.contents.located
            if pair not in located:
                located[pair] = self._by_content(held.content, full.content, cuts, differing)
            return located[pair]
        if isinstance(held, PlaceholderKey) and isinstance(full, PlaceholderKey):
            named = self._by_name(held, full) if held.fill == full.fill else None
            return named if named is not None and named.keys() == differing else None
        return self._computed(part, whole, cuts, differing)

    def _by_name(self, own: PlaceholderKey, given: PlaceholderKey) -> Cuts | None:
        """A placeholder's name says which part of which part it is."""
        shape = self._numbers.contents.array(given.extents).reshape(-1).tolist()
        cuts: Cuts = {}
        if not own.name.startswith(f"{given.name}/"):
            return None
        for text in own.name[len(given.name) + 1 :].split("/"):
            match = _PLACE.fullmatch(text)
            if match is None:
                return None
            axis, start, stop, runs = (int(number or 1) for number in match.groups())
            if axis >= len(shape) or not runs or shape[axis] % runs or runs > 1 << 14:
                return None
            run = shape[axis] // runs
            within = [(start + k * run, stop + k * run) for k in range(runs)]
            cuts[axis] = chosen(cuts.get(axis, ((0, shape[axis]),)), within)
            shape[axis] = length(cuts[axis])
        return cuts

    def _computed(self, part: int, whole: int, cuts: Cuts, differing: set[int]) -> Cuts | None:
        """Of what an op makes of a part of a constant, the cuts that follow from its law."""
        own, given = self._numbers.maker(part), self._numbers.maker(whole)
        if own is None or given is None or own.domain or own.outputs != given.outputs:
            return None
        if own.op_type == "ConstantOfShape" == given.op_type:
            same = own[:5] == given[:5]  # any part is like any other
            filled = {k: ((0, (constant_shape(self._numbers, part) or ())[k]),) for k in differing}
            return filled | cuts if same else None
        if (own.op_type, own.version) != (given.op_type, given.version):
            return None
        shapes = [None if n is None else constant_shape(self._numbers, n) for n in given.inputs]
        result = constant_shape(self._numbers, whole)
        facts = WholeOp(given, tuple(shapes), (result,), lambda _: None)
        order = [at for at, shape in enumerate(shapes) if shape is not None]
        order.sort(key=lambda at: -math.prod(shapes[at] or ()))
        behind = _before(facts, cuts)

        def relation(left: int, right: int, known: Cuts) -> Cuts | None:
            first = right == given.inputs[0]
            return self.locate(left, right, behind | known if first else known)

        cut = cut_of(facts, own, order, relation, _never, lambda _: None)
        found = None if cut is None or cut.summed is not None else cut.outputs[0]
        return found if found and found.keys() == differing else None

    def _elements(self, content: int) -> Bytes | None:
        """The shape of a constant with the bytes of an element as a last axis."""
        tensor = self._numbers.contents.tensor(content)
        if tensor.dtype.bitwidth < 8:
            return tensor.numpy().view(np.uint8).reshape(*tensor.shape.numpy(), 1)
        data = self._numbers.contents.stored(content)
        if data is None or not tensor.size or data.size % tensor.size:
            return None
        width = data.size // tensor.size
        wide = data.view(f"u{width}") if width in (2, 4, 8) else data
        return wide.reshape(*self._numbers.contents.shape(content), -1)

    def _by_content(self, part: int, whole: int, cuts: Cuts, differing: set[int]) -> Cuts | None:
        contents = self._numbers.contents
        if contents.tensor(part).dtype is not contents.tensor(whole).dtype:
            return None
        own, given = self._elements(part), self._elements(whole)
        if own is None or given is None:
            return None
        missing = sorted(differing - cuts.keys())
        if len(missing) > 1:
            return None
        for axis in missing:
            size, around = own.shape[axis], own.shape[:axis] + own.shape[axis + 1 :]
            key = (whole, around, axis, tuple(sorted(cuts.items())))
            if key not in self._lines:
                self._lines[key] = _sampled(given, own.shape, axis, cuts)
            lines = self._lines[key]
            # Mostly all lines are next to each other; whatever fits is as good as any.
            first = _sampled(own[(slice(None),) * axis + (slice(1),)], own.shape, axis, {})
            starts = np.flatnonzero((lines[: len(lines) - size + 1] == first).all(axis=1))[:64]
            own_lines = _sampled(own, own.shape, axis, {}) if len(starts) != 1 else first
            tried = [
                cuts | {axis: ((start, start + size),)}
                for start in starts.tolist()
                if np.array_equal(lines[start : start + len(own_lines)], own_lines)
            ]
            if (one := next((c for c in tried if _same_bytes(own, given, c)), None)) is not None:
                return one
            found = _found_lines(_sampled(own, own.shape, axis, {}), lines)
            at = None if found is None else _placed(found)
            if at is None:
                return None
            cuts = cuts | {axis: merged([(k, k + 1) for k in at])}
        return cuts if _same_bytes(own, given, cuts) else None


def _never(_number: int) -> bool:
    return False


def _before(facts: WholeOp, cuts: Cuts) -> Cuts:
    """The cuts of the first operand of an op on constants that are those of its result."""
    if facts.key.op_type != "Transpose" or facts.shapes[0] is None:
        return cuts
    order = facts.key.numbers("perm") or tuple(range(len(facts.shapes[0])))[::-1]
    return {order[axis]: at for axis, at in cuts.items()}


def _found_lines(own: Bytes, lines: Bytes) -> list[int] | None:
    """Where samples of lines are among others; -1 for several places, None where one is not."""
    places: dict[bytes, int] = {}
    for index, line in enumerate(lines):
        sample = line.tobytes()
        places[sample] = -1 if sample in places else index
    found = [places.get(line.tobytes()) for line in own]
    return None if None in found else [at for at in found if at is not None]


def _sampled(elements: Bytes, shape: tuple[int, ...], axis: int, cuts: Cuts) -> Bytes:
    """A sample of each line along an axis, at the same places of a part of this shape."""
    rng = np.random.default_rng(0)
    places: list[NDArray[np.int64]] = []
    for k, extent in enumerate(shape[:-1]):
        if k == axis:
            continue
        at = rng.integers(0, extent, SAMPLES)
        held = [np.arange(a, b) for a, b in cuts.get(k, ((0, extent),))]
        places.append(np.concatenate(held)[at])
    lines = np.moveaxis(elements, axis, 0)
    taken = lines[(slice(None), *places)] if places else lines
    return np.ascontiguousarray(taken).reshape(len(taken), -1)


def _same_bytes(own: Bytes, given: Bytes, cuts: Cuts) -> bool:
    """Compares a part with the bytes at certain places, a few rows at a time."""
    blocks: list[list[tuple[int, int, int]]] = []
    for axis, extent in enumerate(given.shape[:-1]):
        at, places = 0, []
        for start, stop in cuts.get(axis, ((0, extent),)):
            places.append((at, start, stop - start))
            at += stop - start
        if at != own.shape[axis] or places[-1][1] + places[-1][2] > extent:
            return False
        blocks.append(places)
    if math.prod(map(len, blocks)) > MAX_INTERVALS:
        return False
    for block in itertools.product(*blocks):
        left = own[tuple(slice(at, at + size) for at, _, size in block)]
        right = given[tuple(slice(start, start + size) for _, start, size in block)]
        if not left.ndim > 1:
            return bool(np.array_equal(left, right))
        rows = max(1, _CHUNK_BYTES // max(1, left[:1].size))
        if not all(
            np.array_equal(left[k : k + rows], right[k : k + rows])
            for k in range(0, len(left), rows)
        ):
            return False
    return True


def _placed(unique: list[int]) -> list[int] | None:
    """Places of all lines, from those that are like no other; others follow their neighbours."""
    known = [k for k, at in enumerate(unique) if at >= 0]
    if not known:
        return None
    found = list(unique)
    for k in range(known[0] - 1, -1, -1):
        found[k] = found[k + 1] - 1
    for k in range(known[0] + 1, len(found)):
        if found[k] < 0:
            found[k] = found[k - 1] + 1
    rising = all(a < b for a, b in itertools.pairwise(found))
    return found if rising and found[0] >= 0 else None


_ELEMENTWISE = frozenset({"Cast", "DequantizeLinear", "QuantizeLinear"})
"""Ops that give the elements of their first operand other values."""


def constant_shape(numbers: ValueNumbers, number: int) -> tuple[int, ...] | None:
    """The shape of a constant, where it is known."""
    key = numbers.key(number)
    if isinstance(key, WeightKey):
        return numbers.contents.shape(key.content)
    if isinstance(key, PlaceholderKey):
        return _listed(numbers, key.extents)
    op = numbers.maker(number)
    if op is None or not op.inputs or op.inputs[0] is None or op.domain:
        return None
    if op.op_type == "ConstantOfShape":
        content = numbers.known_content(op.inputs[0])
        return None if content is None else _listed(numbers, content)
    shape = constant_shape(numbers, op.inputs[0])
    if shape is None:
        return None
    if op.op_type == "Transpose":
        order = op.numbers("perm") or tuple(range(len(shape)))[::-1]
        return tuple(shape[axis] for axis in order)
    return shape if op.op_type in _ELEMENTWISE else None


def _listed(numbers: ValueNumbers, content: int) -> tuple[int, ...]:
    return tuple(numbers.contents.array(content).reshape(-1).tolist())
