"""Where in a constant of the model a constant of a chip lies: found by content, proven by bytes.

No name or number of the folder is believed: lines of the part are looked up among lines of the
whole by a sample of their bytes, and every byte is compared in the end.
"""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
from numpy.typing import NDArray

from mcm_compiler.equivalence.parts.value_views import Intervals, length, merged
from mcm_compiler.equivalence.parts.weight_slices import constant_shape
from mcm_compiler.equivalence.values.value_numbers import (
    OpKey,
    OutputKey,
    PlaceholderKey,
    ValueNumbers,
    WeightKey,
)

SAMPLES = 32
"""Elements of a line that are looked at first."""

_CHUNK_BYTES = 1 << 24

_ELEMENTWISE = frozenset({"Cast"})

Bytes = NDArray[np.uint8]


class LocatedSlices:
    """Finds slices of constants.

    Args:
        numbers: the table.
    """

    def __init__(self, numbers: ValueNumbers) -> None:
        self._numbers = numbers
        self._found: dict[tuple[int, int], tuple[int, Intervals] | None] = {}
        self._lines: dict[tuple[int, int], dict[bytes, list[int]]] = {}
        self._holding: dict[tuple[int, int, int, Intervals], bool] = {}

    def locate(self, part: int, whole: int) -> tuple[int, Intervals] | None:
        """The axis and the indices along it that `part` has of `whole`, or None."""
        pair = (part, whole)
        if pair not in self._found:
            self._found[pair] = self._locate(part, whole)
        return self._found[pair]

    def holds(self, part: int, whole: int, axis: int, intervals: Intervals) -> bool:
        """Whether `part` has these indices of `whole` along an axis, and all of it else."""
        key = (part, whole, axis, intervals)
        if key not in self._holding:
            self._holding[key] = self._holds(part, whole, axis, intervals)
        return self._holding[key]

    def _axis(self, part: int, whole: int) -> int | None:
        own, given = constant_shape(self._numbers, part), constant_shape(self._numbers, whole)
        if own is None or given is None or len(own) != len(given):
            return None
        differing = [k for k, n in enumerate(own) if n != given[k]]
        fits = len(differing) == 1 and 0 < own[differing[0]] < given[differing[0]]
        return differing[0] if fits and math.prod(given) else None

    def _locate(self, part: int, whole: int) -> tuple[int, Intervals] | None:
        axis = self._axis(part, whole)
        if axis is None:
            return None
        own, given = self._numbers.key(part), self._numbers.key(whole)
        intervals = None
        if isinstance(own, WeightKey) and isinstance(given, WeightKey):
            intervals = self._by_content(own.content, given.content, axis)
        elif isinstance(own, PlaceholderKey) and isinstance(given, PlaceholderKey):
            intervals = self._by_name(own, given, axis)
        else:
            inner = self._computed(part, whole)
            found = None if inner is None else self.locate(inner[0], inner[1])
            if found is not None and inner is not None:
                axis, intervals = inner[2].index(found[0]), found[1]
        if intervals is None or not self.holds(part, whole, axis, intervals):
            return None
        return (axis, intervals)

    def _holds(self, part: int, whole: int, axis: int, intervals: Intervals) -> bool:
        own_shape = constant_shape(self._numbers, part)
        shape = constant_shape(self._numbers, whole)
        if own_shape is None or shape is None or not intervals or axis >= len(shape):
            return False
        if own_shape != (*shape[:axis], length(intervals), *shape[axis + 1 :]):
            return False
        own, given = self._numbers.key(part), self._numbers.key(whole)
        if isinstance(own, WeightKey) and isinstance(given, WeightKey):
            return self._same_bytes(own.content, given.content, axis, intervals)
        if isinstance(own, PlaceholderKey) and isinstance(given, PlaceholderKey):
            return own.fill == given.fill and self._by_name(own, given, axis) == intervals
        op = self._op(whole)
        if op is not None and op.op_type == "ConstantOfShape" and not op.domain:
            other = self._op(part)
            return other is not None and other[:5] == op[:5]
        inner = self._computed(part, whole)
        return inner is not None and self.holds(inner[0], inner[1], inner[2][axis], intervals)

    def _by_name(self, own: PlaceholderKey, given: PlaceholderKey, axis: int) -> Intervals | None:
        """A placeholder's name tells which part it stands for."""
        if not own.name.startswith(f"{given.name}/{axis}_"):
            return None
        text = own.name[len(given.name) + 1 :]
        match = re.fullmatch(r"(\d{1,9})_(\d{1,12})_(\d{1,12})(?:_of_(\d{1,9})_runs)?", text)
        if match is None:
            return None
        start, stop = int(match[2]), int(match[3])
        runs = int(match[4] or 1)
        extents = self._numbers.contents.array(given.extents).reshape(-1).tolist()
        if not runs or extents[axis] % runs or runs > 1 << 14:
            return None
        run = extents[axis] // runs
        return merged([(start + k * run, stop + k * run) for k in range(runs)])

    def _computed(self, part: int, whole: int) -> tuple[int, int, tuple[int, ...]] | None:
        """What both are computed from, and which axis of that each axis is."""
        own, given = self._op(part), self._op(whole)
        shape = constant_shape(self._numbers, whole)
        if own is None or given is None or shape is None or own.domain or not own.inputs:
            return None
        if own[:5] != given[:5] or own.inputs[1:] != given.inputs[1:]:
            return None
        if own.inputs[0] is None or given.inputs[0] is None:
            return None
        axes = tuple(range(len(shape)))
        if own.op_type == "Transpose":
            named = dict(own.attributes).get("perm")
            axes = named[1] if isinstance(named, tuple) else axes[::-1]
        elif own.op_type not in _ELEMENTWISE:
            return None
        return own.inputs[0], given.inputs[0], axes

    def _op(self, number: int) -> OpKey | None:
        key = self._numbers.key(number)
        if not isinstance(key, OutputKey) or key.position:
            return None
        op = self._numbers.key(key.op)
        return op if isinstance(op, OpKey) else None

    def _matrix(self, content: int, axis: int) -> Bytes | None:
        """`[before the axis, along it, bytes behind it]`."""
        tensor = self._numbers.contents.tensor(content)
        shape = self._numbers.contents.shape(content)
        data = self._numbers.contents.stored(content)
        if data is None or not tensor.size or data.size % tensor.size:
            return None
        return data.reshape(math.prod(shape[:axis]), shape[axis], -1)

    def _sampled(self, matrix: Bytes) -> list[bytes]:
        """A sample of each line along the axis."""
        before, _, behind = matrix.shape
        rng = np.random.default_rng(0)
        rows = rng.integers(0, before, SAMPLES * 4)
        columns = rng.integers(0, behind, SAMPLES * 4)
        taken = np.ascontiguousarray(matrix[rows, :, columns].T)
        return [line.tobytes() for line in taken]

    def _by_content(self, part: int, whole: int, axis: int) -> Intervals | None:
        contents = self._numbers.contents
        if contents.tensor(part).dtype is not contents.tensor(whole).dtype:
            return None
        own, given = self._matrix(part, axis), self._matrix(whole, axis)
        if own is None or given is None or own.shape[2] != given.shape[2]:
            return None
        if (whole, axis) not in self._lines:
            lines: dict[bytes, list[int]] = {}
            for index, line in enumerate(self._sampled(given)):
                lines.setdefault(line, []).append(index)
            self._lines[whole, axis] = lines
        lines = self._lines[whole, axis]
        found = [lines.get(line, ()) for line in self._sampled(own)]
        if not all(found):
            return None
        at = _placed([found_at[0] if len(found_at) == 1 else -1 for found_at in found])
        if at is not None:
            return merged([(k, k + 1) for k in at])
        # No line is like no other: whatever fits is as good as any.
        starts = sorted(set(found[0][:64]))
        size = own.shape[1]
        return next(
            (
                ((start, start + size),)
                for start in starts
                if start + size <= given.shape[1]
                and self._same_bytes(part, whole, axis, ((start, start + size),))
            ),
            None,
        )

    def _same_bytes(self, part: int, whole: int, axis: int, intervals: Intervals) -> bool:
        contents = self._numbers.contents
        if contents.tensor(part).dtype is not contents.tensor(whole).dtype:
            return False
        own, given = self._matrix(part, axis), self._matrix(whole, axis)
        if own is None or given is None:
            return False
        at = 0
        for start, stop in intervals:
            line = max(1, own.shape[0] * own.shape[2])
            step = max(1, _CHUNK_BYTES // line)
            for low in range(start, stop, step):
                high = min(stop, low + step)
                if not np.array_equal(own[:, at : at + high - low], given[:, low:high]):
                    return False
                at += high - low
        return at == own.shape[1]


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
