"""From shares to units and streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from mcm_compiler.contracts.fabrics.fabric import (
    COMPUTE,
    IO,
    MEMORY,
    OP_KINDS,
    Fabric,
    MappingProblem,
)
from mcm_hardware.families.fabric.layout.rules import LayoutRules
from mcm_hardware.families.fabric.layout.shares import Shares, StageShare
from mcm_hardware.families.fabric.layout.stages import (
    ALL,
    INPUTS,
    LEFT,
    OUTSIDE,
    RIGHT,
    SHARE,
    Demand,
)


def overlaps(flits: int, parts: int, others: int) -> Iterator[tuple[int, int, int]]:
    """Part i of some units goes where it overlaps part j of others, both in the same order.

    Yields:
        i, j and the flits that go from the one to the other, at least 1.
    """
    i = j = 0
    while i < parts and j < others:
        begin = max(i * others, j * parts)
        end = min((i + 1) * others, (j + 1) * parts)
        yield i, j, max(-(-flits * (end - begin) // (parts * others)), 1)
        here, there = (i + 1) * others, (j + 1) * parts
        i, j = i + (here <= there), j + (there <= here)


def crossings(flits: int, parts: int, others: int) -> Iterator[tuple[int, int, int]]:
    """A bit of each part goes to each of the others, as where rows are cut and columns held.

    Yields:
        i, j and the flits that go from the one to the other, at least 1.
    """
    each = max(-(-flits // (parts * others)), 1)
    for i in range(parts):
        for j in range(others):
            yield i, j, each


_MOST_CROSSINGS = 256
"""Streams between two stages, above which buffers are taken to put what they hold in order."""

_WEIGHTS, _BUFFER, _INPUT, _OUTPUT = (
    OP_KINDS.index(name) for name in ("weights", "buffer", "input", "output")
)


@dataclass
class _Lists:
    """The fields of a problem while they grow: units with what they are, and streams."""

    kind: list[int] = field(default_factory=list[int])
    op: list[int] = field(default_factory=list[int])
    stage: list[int] = field(default_factory=list[int])
    depth: list[int] = field(default_factory=list[int])
    memory: list[int] = field(default_factory=list[int])
    source: list[int] = field(default_factory=list[int])
    leaves: list[list[int]] = field(default_factory=list[list[int]])
    flits: list[int] = field(default_factory=list[int])
    taken: list[int] = field(default_factory=list[int])
    made: list[int] = field(default_factory=list[int])

    def unit(self, kind: int, op: int, stage: int, depth: int = 0, memory: int = 0) -> int:
        self.kind.append(kind)
        self.op.append(op)
        self.stage.append(stage)
        self.depth.append(depth)
        self.memory.append(memory)
        self.taken.append(1)
        self.made.append(1)
        return len(self.kind) - 1

    def stream(self, source: int, leaves: list[int], flits: int) -> None:
        self.source.append(source)
        self.leaves.append(leaves)
        self.flits.append(flits)
        self.made[source] = max(self.made[source], flits)
        for leaf in leaves:
            self.taken[leaf] = max(self.taken[leaf], flits)


class _Sites:
    """I/O units; what comes next goes through the one that carries the least."""

    def __init__(self, units: list[int]) -> None:
        self._units = units
        self._load = dict.fromkeys(units, 0)

    def next(self, flits: int) -> int:
        unit = min(self._units, key=lambda u: self._load[u])
        self._load[unit] += flits
        return unit

    @property
    def used(self) -> list[int]:
        return [unit for unit in self._units if self._load[unit] > 0]


class Emitter:
    """Makes the problem of one subgraph.

    Args:
        name: of the problem.
        demands: of the stages, the inputs first.
        shares: what they get.
        fabric: what they are laid out on.
        rules: of the lowering.
    """

    def __init__(
        self,
        name: str,
        demands: Sequence[Demand],
        shares: Shares,
        fabric: Fabric,
        rules: LayoutRules,
    ) -> None:
        self._name = name
        self._demands = demands
        self._shares = shares
        self._fabric = fabric
        self._rules = rules
        self._lists = _Lists()
        self._compute: list[list[int]] = []
        self._buffers: list[list[int]] = []
        self._weights: dict[int, int] = {}
        self._held: set[int] = set()

    def problem(self) -> MappingProblem:
        """The whole problem."""
        lists, shares = self._lists, self._shares
        inputs = [lists.unit(IO, _INPUT, INPUTS) for _ in range(shares.inputs)]
        into = _Sites(inputs)
        for k in range(len(self._demands)):
            self._add_units(k)
        last = len(self._demands) - 1
        outputs = [lists.unit(IO, _OUTPUT, last) for _ in range(shares.outputs)]
        out = _Sites(outputs)
        for k, (demand, share) in enumerate(zip(self._demands, shares.stages, strict=True)):
            if k == INPUTS:
                self._bring_in(demand, into)
            else:
                self._read_all(k, demand, share, into)
                self._read_weights(k, demand, share, into)
                self._write(k, demand, out)
            if demand.kept and demand.leaves:
                each = max(-(-self._flits(demand.leaves) // share.buffers), 1)
                for buffer in self._buffers[k]:
                    lists.stream(buffer, [out.next(each)], each)
        return self._arrays({*inputs, *outputs} - {*into.used, *out.used})

    def _flits(self, elements: int) -> int:
        return max(-(-elements // self._fabric.flit_elements), 1)

    def _add_units(self, k: int) -> None:
        demand, share, lists = self._demands[k], self._shares.stages[k], self._lists
        compute = range(share.units) if k != INPUTS else ()
        self._compute.append([lists.unit(COMPUTE, demand.kind, k) for _ in compute])
        held = demand.weights + demand.tables
        for number in share.weight_units:
            if number not in self._weights:
                self._weights[number] = lists.unit(MEMORY, _WEIGHTS, k)
            if demand.weight_set not in self._held:
                size = -(-held // len(share.weight_units)) * self._fabric.element_bytes
                lists.memory[self._weights[number]] += size
        self._held.add(demand.weight_set)
        each = -(-self._flits(demand.makes) // max(share.buffers, 1))
        size = each * self._fabric.flit_elements * self._fabric.element_bytes * demand.depth
        self._buffers.append(
            [lists.unit(MEMORY, _BUFFER, k, demand.depth, size) for _ in range(share.buffers)]
        )

    def _bring_in(self, demand: Demand, into: _Sites) -> None:
        buffers = self._buffers[INPUTS]
        if buffers:
            each = max(-(-self._flits(demand.makes) // len(buffers)), 1)
            for buffer in buffers:
                self._lists.stream(into.next(each), [buffer], each)

    def _read_all(self, k: int, demand: Demand, share: StageShare, into: _Sites) -> None:
        for read in demand.reads:
            again = {LEFT: share.left_times, RIGHT: share.right_times, SHARE: 1, ALL: 1}[read.mode]
            flits = self._flits(read.elements * again)
            groups = self._groups(k, share, read.mode)
            if read.source == OUTSIDE:
                sources = [into.next(flits)]
                lined_up = True
            else:
                sources = self._buffers[read.source]
                lined_up = self._by_rows(read.source) == (
                    read.mode == LEFT or (read.mode == SHARE and self._by_rows(k))
                )
            for source, group, part in self._shared_out(flits, len(sources), len(groups), lined_up):
                self._lists.stream(sources[source], groups[group], part)
        if not any(read.mode != RIGHT or read.source != OUTSIDE for read in demand.reads):
            # Without operands nothing would tell one sample from the next.
            self._lists.stream(into.next(1), list(self._compute[k]), 1)

    def _read_weights(self, k: int, demand: Demand, share: StageShare, into: _Sites) -> None:
        parts = ((demand.weight_reads * share.right_times, RIGHT), (demand.table_reads, SHARE))
        for elements, mode in parts:
            if elements == 0:
                continue
            flits, groups = self._flits(elements), self._groups(k, share, mode)
            units = [self._weights[number] for number in share.weight_units]
            count = len(units) if units else len(groups)
            for source, group, part in overlaps(flits, count, len(groups)):
                unit = units[source] if units else into.next(part)
                self._lists.stream(unit, groups[group], part)

    def _write(self, k: int, demand: Demand, out: _Sites) -> None:
        flits, compute = self._flits(demand.makes), self._compute[k]
        if demand.kept:
            buffers = self._buffers[k]
            for unit, buffer, part in overlaps(flits, len(compute), len(buffers)):
                self._lists.stream(compute[unit], [buffers[buffer]], part)
            return
        each = max(-(-flits // len(compute)), 1)
        for unit in compute:
            self._lists.stream(unit, [out.next(each)], each)

    def _by_rows(self, k: int) -> bool:
        """Return whether a stage's units make rows rather than columns; also the order of units."""
        share = self._shares.stages[k]
        return share.row_parts >= share.col_parts

    def _groups(self, k: int, share: StageShare, mode: int) -> list[list[int]]:
        """Units that read the same, in the order of what they read."""
        units = self._compute[k]
        if mode == ALL:
            return [list(units)]
        if mode == SHARE:
            return [[unit] for unit in units]
        rows, cols = share.row_parts, share.col_parts
        grid = (
            np.array(units).reshape(rows, cols)
            if self._by_rows(k)
            else (np.array(units).reshape(cols, rows).T)
        )
        return (grid if mode == LEFT else grid.T).tolist()

    def _shared_out(
        self, flits: int, parts: int, groups: int, lined_up: bool
    ) -> Iterator[tuple[int, int, int]]:
        if lined_up or parts * groups > _MOST_CROSSINGS:
            return overlaps(flits, parts, groups)
        return crossings(flits, parts, groups)

    def _arrays(self, unused: set[int]) -> MappingProblem:
        lists = self._lists
        kept = [unit for unit in range(len(lists.kind)) if unit not in unused]
        new = np.full(len(lists.kind), -1, np.int32)
        new[kept] = np.arange(len(kept))
        kind = np.array(lists.kind, np.int32)[kept]
        firings, cycles, burst = self._firings()
        return MappingProblem(
            name=self._name,
            stages=tuple(demand.name for demand in self._demands),
            kind=kind,
            op=np.array(lists.op, np.int32)[kept],
            stage=np.array(lists.stage, np.int32)[kept],
            firings=firings[kept],
            cycles=cycles[kept],
            burst=burst[kept],
            depth=np.array(lists.depth, np.int32)[kept],
            memory_bytes=np.array(lists.memory, np.int64)[kept],
            source=new[np.array(lists.source, np.int32)],
            leaf_ptr=np.cumsum([0, *map(len, lists.leaves)]).astype(np.int32),
            leaf=new[np.array([u for leaves in lists.leaves for u in leaves], np.int32)],
            flits=np.array(lists.flits, np.int64),
        )

    def _firings(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Firings, cycles and bursts of all units.

        A firing takes a whole number of cycles, and all of them together as many as the work has,
        but for less than one firing.
        """
        count = len(self._lists.kind)
        firings, cycles, burst = np.zeros((3, count), np.int64)
        grain = min(self._rules.grain_flits, self._fabric.window_flits)
        for k, (demand, share) in enumerate(zip(self._demands, self._shares.stages, strict=True)):
            if k == INPUTS:
                continue
            work = self._work(demand, share)
            for unit in self._compute[k]:
                taken, made = self._lists.taken[unit], self._lists.made[unit]
                least = max(-(-max(taken, made) // grain), 1)
                each = max(work // least, 1)
                often = max(-(-work // each), least)
                firings[unit], cycles[unit] = often, each
                together = often * self._rules.burst_flits // made if demand.macs else 1
                burst[unit] = max(together, 1)
        return firings, cycles, burst

    def _work(self, demand: Demand, share: StageShare) -> int:
        """Cycles of a unit per sample."""
        macs = -(-demand.rows // share.row_parts) * -(-demand.cols // share.col_parts)
        products = demand.macs * macs // max(demand.rows * demand.cols, 1)
        lanes = -(-demand.lane_ops // share.units)
        cycles = -(-products // self._fabric.macs_per_cycle) if demand.macs else 0
        return max(cycles + -(-lanes // self._fabric.lanes), 1)
