"""Runs an op part by part, as its sharding rule says, and puts the results together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from mcm_compiler.contracts.sharding.rules import Dims, FactorKind, OpFacts, ShardingRule
from mcm_passes.parallelism.rules.graph_rules import RuleTable
from mcm_passes.parallelism.rules.shard_forms import ShardForm, shard_form
from sharding_examples.example import Array, Example

DIVISIBLE = (FactorKind.PASS, FactorKind.REDUCE, FactorKind.HALO)

CUTS = ("two", "three", "uneven")

Part = tuple[int, int]
"""First unit of a factor, and one past the last."""


def bounds(size: int, cut: str) -> list[Part]:
    """The parts of a factor; none for one that is too small."""
    if cut == "uneven":
        return [(0, 1), (1, size)] if size > 2 else []
    parts = 2 if cut == "two" else 3
    edges = [size * i // parts for i in range(parts + 1)]
    return list(pairwise(edges)) if size >= parts else []


@dataclass(frozen=True)
class Difference:
    """A result that the parts do not make up.

    Attributes:
        what: the example, its rule, and what was divided how.
        found: result of the parts.
        expected: result of the whole op.
    """

    what: str
    found: Array
    expected: Array


class DividedOp:
    """An op with its operands, its results and its rule.

    Args:
        example: the op; its attributes and opset count.
        arrays: values of its operands.
        whole: its results.
        facts: what its rule depends on.
        rule: its rule.
    """

    def __init__(
        self,
        example: Example,
        arrays: Sequence[Array | None],
        whole: Sequence[Array],
        facts: OpFacts,
        rule: ShardingRule,
    ) -> None:
        self.example = example
        self.arrays = arrays
        self.whole = whole
        self.facts = facts
        self.rule = rule
        self.cuts_tried: set[str] = set()

    @classmethod
    def of(cls, example: Example, table: RuleTable) -> DividedOp:
        """The op of an example with the rule of a table."""
        arrays = example.arrays()
        whole = [np.asarray(r) for r in example.run(arrays)]
        facts, rule = example.facts_and_rule(table, arrays, whole)
        return cls(example, arrays, whole, facts, rule)

    def differences(self) -> list[Difference]:
        """Of every factor that can be divided, in every way."""
        found: list[Difference] = []
        for index, factor in enumerate(self.rule.factors):
            if factor.kind not in DIVISIBLE:
                continue
            assert factor.size is not None
            for cut in CUTS:
                parts = bounds(factor.size, cut)
                if parts:
                    self.cuts_tried.add(cut)
                    what = f"{self.example}: {self.rule}, {factor} in {cut}"
                    found += self._differences(index, parts, what)
        return found

    def _differences(self, index: int, parts: list[Part], what: str) -> list[Difference]:
        results = [self.part(index, *part) for part in parts]
        found: list[Difference] = []
        for number, expected in enumerate(self.whole):
            own = [result[number] for result in results]
            joined = self._joined(index, number, own, parts)
            found += [
                Difference(f"{what}, result {number}", one, expected)
                for one in joined
                if not _same(one, expected)
            ]
        return found

    def part(self, index: int, start: int, stop: int) -> list[Array]:
        """Results of one device."""
        form = shard_form(self.facts, self.rule, index, start, stop)
        operands = [self._operand(at, form, index, start, stop) for at in range(len(self.arrays))]
        added = sorted(at for at in form.constants if at >= len(operands))
        operands += [np.array(form.constants[at], np.int64) for at in added]
        attributes = {**self.example.attributes, **form.attributes}
        if form.index_offset is not None:
            return [self._looked_up(operands, form.index_offset)]
        return [np.asarray(r) for r in self.example.run(operands, attributes)]

    def _operand(self, at: int, form: ShardForm, index: int, start: int, stop: int) -> Array | None:
        array, dims = self.arrays[at], self.rule.inputs[at]
        if at in form.constants:
            return np.array(form.constants[at], np.int64)
        if array is None or dims is None:
            return array
        if at in form.first_only and start:
            return np.zeros_like(array)
        if at == 0 and form.reads is not None:
            axis, first, last = form.reads
            return array.take(range(first, last), axis)
        return self._part_of(array, dims, index, start, stop)

    def _looked_up(self, operands: Sequence[Array | None], offset: int) -> Array:
        """A lookup in part of a table: zeros for what other parts have."""
        table, indices = operands
        assert table is not None
        assert indices is not None
        axis = int(self.example.attributes.get("axis", 0)) % table.ndim
        rows = (self.facts.input_shapes[0] or ())[axis] or 0
        local = np.where(indices < 0, indices + rows, indices) - offset
        inside = (local >= 0) & (local < table.shape[axis])
        (found,) = self.example.run([table, np.where(inside, local, 0)])
        shown = inside.reshape(inside.shape + (1,) * (table.ndim - axis - 1))
        return np.where(shown, found, 0).astype(found.dtype)

    def _spread(
        self, shape: tuple[int, ...], dims: Dims, sizes: dict[int, int]
    ) -> tuple[list[int], list[int]]:
        """Sizes with a dimension for each factor, and the factors in that order."""
        order: list[int] = []
        spread: list[int] = []
        for dim, size in zip(dims, shape, strict=True):
            order += dim or [-1]
            spread += [sizes[f] for f in dim] if len(dim) > 1 else [size]
        return spread, order

    def _sizes(self) -> dict[int, int]:
        return {i: f.size or 0 for i, f in enumerate(self.rule.factors)}

    def _part_of(self, array: Array, dims: Dims, index: int, start: int, stop: int) -> Array:
        sizes = self._sizes()
        spread, order = self._spread(array.shape, dims, sizes)
        if index not in order:
            return array
        local = [
            size // sizes[index] * (stop - start) if index in dim else size
            for dim, size in zip(dims, array.shape, strict=True)
        ]
        return array.reshape(spread).take(range(start, stop), order.index(index)).reshape(local)

    def _joined(self, index: int, number: int, own: list[Array], parts: list[Part]) -> list[Array]:
        """The whole result; of one that the factor is not in, every device's."""
        factor, dims = self.rule.factors[index], self.rule.outputs[number]
        assert dims is not None
        shape, sizes = self.whole[number].shape, self._sizes()
        order = self._spread(shape, dims, sizes)[1]
        if index in order:
            pieces = [
                part.reshape(self._spread(part.shape, dims, {**sizes, index: stop - start})[0])
                for part, (start, stop) in zip(own, parts, strict=True)
            ]
            return [np.concatenate(pieces, order.index(index)).reshape(shape)]
        if factor.kind is FactorKind.REDUCE:
            return [_reduced(factor.reduction, own, [stop - start for start, stop in parts])]
        return own


_ERRORS = {2: 4e-3, 4: 2e-5, 8: 1e-9}
"""How far floats of so many bytes may be off, relative to the largest of the result."""


def _reduced(reduction: str, parts: list[Array], sizes: list[int]) -> Array:
    if reduction == "mean":
        shares = np.array(sizes) / sum(sizes)
        total: Any = sum(p * share for p, share in zip(parts, shares, strict=True))
        return np.asarray(total, parts[0].dtype)
    how = {"sum": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply}[reduction]
    return np.asarray(how.reduce(parts), parts[0].dtype)


def _same(found: Array, expected: Array) -> bool:
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return False
    if expected.dtype.kind == "f":
        error = _ERRORS[expected.dtype.itemsize]
        finite = np.abs(expected[np.isfinite(expected)].astype(np.float64))
        atol = error * max(1.0, float(finite.max(initial=0.0)))
        wide = found.astype(np.float64), expected.astype(np.float64)
        return bool(np.allclose(*wide, rtol=error, atol=atol, equal_nan=True))
    return bool((found == expected).all())
