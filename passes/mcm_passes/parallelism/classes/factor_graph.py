"""Dimensions and the factors of ops that join them, as a graph to search for reasons in."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from mcm_compiler.diagnostics import quote
from mcm_passes.parallelism.classes.dimension_classes import DimensionClasses
from mcm_passes.parallelism.rules.rule_templates import Block

REASONS = {
    Block.WHOLE: "needs the dimension whole",
    Block.HALO: "slides a window along it",
    Block.SCATTERED: "would have to divide it in pieces that are not contiguous",
    Block.MINOR: "merges it below another dimension",
    Block.UNKNOWN: "has no rule that would divide it",
    Block.NORMALISED: "normalises along it",
    Block.ITSELF: "would have to divide two of its loops at once",
    Block.RUNS: "would have to divide it in runs of another length than the ops before",
    Block.KEPT: "keeps it whole, so that what it merges below can be divided",
}


@dataclass(frozen=True)
class PropagationStep:
    """One step on the way from a dimension to what forces or forbids its division.

    Attributes:
        tensor: name of the tensor that the step is about.
        dim: its dimension.
        node: name of the op that makes the step; None for the dimension the way starts from.
        rule: the op's rule in its notation; empty where it has none.
        text: what the op does, in words.
    """

    tensor: str
    dim: int
    node: str | None
    rule: str
    text: str

    def __str__(self) -> str:
        place = f"{quote(self.tensor)} dim {self.dim}"
        if self.node is None:
            return place
        rule = f" [{self.rule}]" if self.rule else ""
        return f"{place}: {quote(self.node)} {self.text}{rule}"


class FactorGraph:
    """Dimensions, and the factors of ops through which they are joined.

    Args:
        classes: not changed while this lives.
    """

    def __init__(self, classes: DimensionClasses) -> None:
        self._classes = classes
        self._ruled = classes.ruled
        self._members: dict[int, dict[tuple[int, int], list[int]]] = {}
        self._uses: dict[int, list[int]] = {}
        for node in range(len(self._ruled.nodes)):
            for slot in range(self._ruled.slot_ptr[node], self._ruled.slot_ptr[node + 1]):
                value = int(self._ruled.slot_value[slot])
                if value >= 0:
                    uses = self._uses.setdefault(value, [])
                    if not uses or uses[-1] != node:
                        uses.append(node)
        self._stuck = {
            int(dim): at for at, dim in reversed(list(enumerate(self._ruled.stuck_dims)))
        }

    def why(self, tensor: str, dim: int) -> list[PropagationStep]:
        """The shortest way from a dimension to the op because of which it cannot be divided.

        Returns:
            The steps; empty if no op forbids it.

        Raises:
            KeyError: if no tensor has that name.
            IndexError: if it has no such dimension; `dim` may be negative.
        """
        start = self._start(tensor, dim)
        index = self._class(start)
        if index < 0:
            return [self._step(start), self._of_size_one(start)]
        block = Block(int(self._classes.block[index]))
        if block is Block.NONE:
            return []
        if block is Block.ITSELF:
            return self._to_itself(start, int(self._classes.met_at[index]))
        if block is Block.RUNS:
            return self._to_other_runs(start, int(self._classes.met_at[index]))
        return self._way(start, self._is_stuck, self._stuck_step)

    def why_small(self, tensor: str, dim: int, degree: int) -> list[PropagationStep]:
        """The shortest way from a dimension to one that has fewer units than there are devices.

        Returns:
            The steps; empty if there are enough of them.

        Raises:
            KeyError, IndexError: as `why`.
        """
        start = self._start(tensor, dim)
        if (index := self._class(start)) < 0 or self._classes.size[index] >= degree:
            return []
        steps = self._way(start, lambda d: self._units(d) < degree, None)
        # Where no member is too small by itself, units of several do not fall together.
        return steps or [self._step(start)]

    def why_linked(self, one: tuple[str, int], other: tuple[str, int]) -> list[PropagationStep]:
        """The shortest way from one dimension to another that is divided with it.

        Returns:
            The steps; empty if they are of different classes.

        Raises:
            KeyError, IndexError: as `why`.
        """
        start, end = self._start(*one), self._start(*other)
        if self._class(start) != self._class(end) or self._class(start) < 0:
            return []
        return self._way(start, lambda dim: dim == end, None)

    def why_conflict(self, one: tuple[str, int], other: tuple[str, int]) -> list[PropagationStep]:
        """The way from one dimension to an op where it meets another, and on to that one.

        Returns:
            The steps; empty if both can be divided.

        Raises:
            KeyError, IndexError: as `why`.
        """
        start, end = self._start(*one), self._start(*other)
        first, second = self._class(start), self._class(end)
        if first < 0 or second < 0:
            return []
        if first == second:
            return self._way(start, lambda dim: dim == end, None)
        meeting = {
            dim: (node, partner)
            for node, dims, partners in self._meetings(first, second)
            for partner in partners[:1]
            for dim in dims
        }
        if not meeting:
            return []
        there = self._way(start, lambda dim: dim in meeting, None)
        if not there:
            return []
        last = self._start(there[-1].tensor, there[-1].dim)
        node, partner = meeting[last]
        there.append(self._step(partner, node, "cannot divide both of these dimensions"))
        back = self._way(partner, lambda dim: dim == end, None)
        return there + back[1:]

    def _start(self, tensor: str, dim: int) -> int:
        """Number of a dimension by the name of its tensor.

        Raises:
            KeyError: if no tensor has that name.
            IndexError: if it has no such dimension.
        """
        value = self._classes.value_by_name[tensor]
        rank = self._ruled.rank(self._ruled.value_index[value])
        if not -rank <= dim < rank:
            raise IndexError(f"{quote(tensor)} has {rank} dimensions")
        return self._ruled.dim_of(value, dim % rank)

    def _step(self, dim: int, node: int | None = None, text: str = "") -> PropagationStep:
        """The step of an op about a dimension, by number; without one, where a way starts."""
        value, place = self._ruled.place(dim)
        if node is None:
            return PropagationStep(value.name or "", place, None, "", "")
        op, rule = self._ruled.nodes[node], str(self._ruled.rule_of(node).rule)
        return PropagationStep(value.name or "", place, op.name or op.op_type, rule, text)

    def _units(self, dim: int) -> int:
        """In how many units the ops around a dimension can divide it."""
        value = self._value_of(dim)
        place = dim - int(self._ruled.dim_ptr[value])
        runs = int(self._classes.runs[dim])
        least = int(self._ruled.extents[dim]) // runs
        for node in self._uses.get(value, ()):
            slots = self._slots(node)
            for slot, at, _, units, above in self._ruled.rule_of(node).members.tolist():
                if slots[slot] == value and at == place:
                    least = math.gcd(least, units // max(runs // above, 1))
        return least

    def _of_size_one(self, dim: int) -> PropagationStep:
        """That nothing can divide a dimension of size 1."""
        value, place = self._ruled.place(dim)
        return PropagationStep(value.name or "", place, value.name or "", "", "has size 1 there")

    def _way(
        self,
        start: int,
        is_end: Callable[[int], bool],
        last_step: Callable[[int], PropagationStep] | None,
    ) -> list[PropagationStep]:
        """The shortest way to a dimension that `is_end` accepts; empty if there is none."""
        came_from: dict[int, tuple[int, int]] = {start: (-1, -1)}
        pending = deque([start])
        while pending:
            dim = pending.popleft()
            if is_end(dim):
                steps = self._steps(dim, came_from)
                return [*steps, last_step(dim)] if last_step is not None else steps
            for node, other in self._neighbours(dim):
                if other not in came_from:
                    came_from[other] = (dim, node)
                    pending.append(other)
        return []

    def _is_stuck(self, dim: int) -> bool:
        """Return whether an op that touches a dimension forbids that it is divided.

        One that only keeps it whole for the sake of others counts if none has a reason of its own.
        """
        if dim in self._stuck:
            return True
        found = self._stuck_node(dim)
        if found is None or found[1] is not Block.KEPT:
            return found is not None
        return int(self._classes.block[self._class(dim)]) == Block.KEPT

    def _stuck_step(self, dim: int) -> PropagationStep:
        """Step of the op that does not propagate."""
        if dim in self._stuck:
            value, place = self._ruled.place(dim)
            at = self._stuck[dim]
            node, what = self._ruled.stuck_by[at]
            block = Block(int(self._ruled.stuck_why[at]))
            text = REASONS[block]
            if block is Block.NORMALISED:
                text = f"and the ops after it normalise along it ({what})"
            return PropagationStep(value.name or "", place, node.name or node.op_type, "", text)
        found = self._stuck_node(dim)
        assert found is not None
        return self._step(dim, found[0], REASONS[found[1]])

    def _to_itself(self, start: int, node: int) -> list[PropagationStep]:
        """The way to an op two of whose factors are of one class, and why they are."""
        index = self._class(start)
        factors = [dims for dims in self._factors(node).values() if self._class(dims[0]) == index]
        here = {dim for dims in factors for dim in dims}
        there = self._way(start, lambda dim: dim in here, None)
        reached = self._start(there[-1].tensor, there[-1].dim)
        other = next(dims[0] for dims in factors if reached not in dims)
        text = "cannot divide both of these dimensions, which are divided together:"
        there.append(self._step(other, node, text))
        return there + self._way(other, lambda dim: dim == reached, None)[1:]

    def _to_other_runs(self, start: int, node: int) -> list[PropagationStep]:
        """The way to an op that asks for other runs than those before it."""
        index = self._class(start)
        here = {
            dim
            for dims in self._factors(node).values()
            for dim in dims
            if self._class(dim) == index
        }
        text = REASONS[Block.RUNS]
        return self._way(start, here.__contains__, lambda dim: self._step(dim, node, text))

    def _meetings(self, first: int, second: int) -> Iterator[tuple[int, list[int], list[int]]]:
        """Ops in which two classes meet, with the dimensions of both."""
        pointer, of_factor = self._classes.factor_ptr, self._classes.factor_class
        for node in range(len(self._ruled.nodes)):
            found = of_factor[pointer[node] : pointer[node + 1]]
            if first in found and second in found:
                dims: dict[int, list[int]] = {first: [], second: []}
                for joined in self._factors(node).values():
                    index = self._class(joined[0])
                    if index in dims:
                        dims[index] += joined
                yield node, dims[first], dims[second]

    def _steps(self, dim: int, came_from: dict[int, tuple[int, int]]) -> list[PropagationStep]:
        steps: list[PropagationStep] = []
        while dim >= 0:
            before, node = came_from[dim]
            text = "divides it with the one before"
            steps.append(self._step(dim) if before < 0 else self._step(dim, node, text))
            dim = before
        return steps[::-1]

    def _neighbours(self, dim: int) -> Iterator[tuple[int, int]]:
        for node in self._uses.get(self._value_of(dim), ()):
            for dims in self._factors(node).values():
                if dim in dims:
                    for other in dims:
                        yield node, other

    def _stuck_node(self, dim: int) -> tuple[int, Block] | None:
        value = self._value_of(dim)
        place = dim - int(self._ruled.dim_ptr[value])
        keeping: tuple[int, Block] | None = None
        for node in self._uses.get(value, ()):
            template = self._ruled.rule_of(node)
            slots = self._slots(node)
            for slot, at, block in template.stuck.tolist():
                if slots[slot] == value and at in (place, -1):
                    return node, Block(block)
            for used, rank in zip(slots, template.ranks.tolist(), strict=True):
                if used >= 0 and rank not in (-1, self._ruled.rank(used)):
                    return node, Block.UNKNOWN
            for slot, at, factor, *_ in template.members.tolist():
                if slots[slot] == value and at == place and template.factor_block[factor]:
                    block = Block(int(template.factor_block[factor]))
                    if block is not Block.KEPT:
                        return node, block
                    keeping = keeping or (node, block)
        return keeping

    def _factors(self, node: int) -> dict[tuple[int, int], list[int]]:
        """The dimensions of every factor of an op."""
        known = self._members.get(node)
        if known is not None:
            return known
        found: dict[tuple[int, int], list[int]] = {}
        first = int(self._ruled.slot_ptr[node])
        for slot, place, factor, *_ in self._ruled.rule_of(node).members.tolist():
            value = int(self._ruled.slot_value[first + slot])
            if value < 0 or place >= self._ruled.rank(value):
                continue
            dim = int(self._ruled.dim_ptr[value]) + place
            if self._ruled.extents[dim] != 1:
                found.setdefault((node, factor), []).append(dim)
        self._members[node] = found
        return found

    def _slots(self, node: int) -> list[int]:
        first, end = self._ruled.slot_ptr[node : node + 2]
        return self._ruled.slot_value[first:end].tolist()

    def _value_of(self, dim: int) -> int:
        return int(np.searchsorted(self._ruled.dim_ptr, dim, side="right")) - 1

    def _class(self, dim: int) -> int:
        return int(self._classes.class_of[dim])
