"""How many units each stage gets: the shortest period for which there are enough of all kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mcm_compiler.arrays.types import Floats
from mcm_compiler.contracts.fabrics.fabric import IO, MEMORY, Fabric
from mcm_hardware.families.fabric.layout.rules import LayoutRules
from mcm_hardware.families.fabric.layout.stages import (
    ALL,
    INPUTS,
    LEFT,
    OUTSIDE,
    RIGHT,
    SHARE,
    Demand,
    UnitTimes,
    tiles,
)

_STEPS = 48
"""Halvings of the range of periods, on a logarithmic scale."""

_PACKED = 0.5
"""Weights that need less of a memory unit than this share one with those of other stages."""


@dataclass(frozen=True)
class StageShare:
    """Share of one stage.

    Attributes:
        row_parts: parts of its rows.
        col_parts: parts of its columns; times `row_parts` it has this many compute units.
        left_times: how often a unit reads its left operand.
        right_times: how often a unit reads its right operand.
        buffers: memory units for what it makes; 0 where that leaves for outside at once.
        weight_units: numbers of the memory units that hold its weights; empty where it has none,
            or where they are streamed.
        streamed: whether its weights come from memory channels for each sample.
    """

    row_parts: int
    col_parts: int
    left_times: int
    right_times: int
    buffers: int
    weight_units: tuple[int, ...]
    streamed: bool

    @property
    def units(self) -> int:
        """Compute units."""
        return self.row_parts * self.col_parts


@dataclass(frozen=True)
class Shares:
    """Shares of all stages.

    Attributes:
        stages: in their order; the first one has buffers alone.
        weight_units: memory units with weights.
        inputs: I/O units that bring something in.
        outputs: I/O units that take something out.
        period: cycles, if nothing waits.
    """

    stages: tuple[StageShare, ...]
    weight_units: int
    inputs: int
    outputs: int
    period: float

    @property
    def memory_units(self) -> int:
        """Memory units of all sorts."""
        return self.weight_units + sum(stage.buffers for stage in self.stages)

    @property
    def compute_units(self) -> int:
        """Compute units of all stages."""
        return sum(stage.units for stage in self.stages[1:])


@dataclass(frozen=True, eq=False)
class Balance:
    """Finds shares for one subgraph.

    Attributes:
        demands: of the stages, the inputs first.
        times: of the stages but the inputs.
        fabric: what they are laid out on.
        rules: of the lowering.
    """

    demands: Sequence[Demand]
    times: Sequence[UnitTimes]
    fabric: Fabric
    rules: LayoutRules

    def shares(self, periods: Floats, streamed: frozenset[int]) -> Shares:
        """Return the shares of stages that take this many cycles each.

        Args:
            periods: `[stages]`.
            streamed: stages whose weights come from memory channels.
        """
        grids = [(1, 1)]
        for k, times in enumerate(self.times, start=1):
            at = int(np.searchsorted(-times.cycles, -periods[k]))
            at = min(at, len(times.cycles) - 1)
            grids.append((int(times.row_parts[at]), int(times.col_parts[at])))
        repeats: list[tuple[int, int]] = []
        for demand, (rows, cols) in zip(self.demands, grids, strict=True):
            left, right = tiles(demand, self.rules, np.array(rows), np.array(cols))
            repeats.append((int(left), int(right)))
        reads = self._flits_read(repeats)
        loads = self._weight_flits(repeats)
        weights = _Packing(self.fabric)
        holders: dict[int, tuple[int, ...]] = {-1: ()}
        found: list[StageShare] = []
        for k, (demand, (rows, cols)) in enumerate(zip(self.demands, grids, strict=True)):
            target = max(self.rules.memory_load * float(periods[k]), 1.0)
            streams = k in streamed
            if not streams and demand.weight_set not in holders:
                held = (demand.weights + demand.tables) * self.fabric.element_bytes
                flits = loads[demand.weight_set]
                holders[demand.weight_set] = weights.hold(held, flits, target)
            units = () if streams else holders[demand.weight_set]
            buffers = self._buffers(demand, reads[k], target) if demand.kept else 0
            left, right = repeats[k]
            found.append(StageShare(rows, cols, left, right, buffers, units, streams))
        period = float(np.max(periods))
        inputs, outputs = self._io_units(found, period)
        return Shares(tuple(found), weights.count, inputs, outputs, period)

    def fits(self, shares: Shares, compute_units: int) -> bool:
        """Return whether there are enough units of all kinds."""
        return shares.compute_units <= compute_units and shares.memory_units <= len(
            self.fabric.of_kind(MEMORY)
        )

    def shortest(self, compute_units: int, streamed: frozenset[int]) -> float | None:
        """The shortest period for which there are enough units; None where none is long enough."""
        count = len(self.demands)
        low, high = self._range(streamed)
        if not self.fits(self.shares(np.full(count, high), streamed), compute_units):
            return None
        for _ in range(_STEPS):
            middle = float(np.sqrt(low * high))
            if self.fits(self.shares(np.full(count, middle), streamed), compute_units):
                high = middle
            else:
                low = middle
            if high <= low * 1.001:
                break
        return high

    def drawn(
        self, period: float, streamed: frozenset[int], compute_units: int, seed: int
    ) -> Shares:
        """Shares around those for a period; the draw is tamed until there are enough units."""
        count = len(self.demands)
        rng = np.random.default_rng(seed)
        draw = rng.normal(0.0, self.rules.spread, count)
        longer = float(np.exp(abs(rng.normal(0.0, 2 * self.rules.spread))))
        loads = [
            float(rng.uniform(least, max(least, self.rules.drawn_load)))
            for least in (self.rules.memory_load, self.rules.io_load)
        ]
        rules = replace(self.rules, memory_load=loads[0], io_load=loads[1])
        loaded = replace(self, rules=rules)
        for tamed in (1.0, 0.7, 0.4, 0.2):
            shares = loaded.shares(period * longer * np.exp(tamed * draw), streamed)
            if self.fits(shares, compute_units):
                return replace(shares, period=period)
        return self.shares(np.full(count, period), streamed)

    def _range(self, streamed: frozenset[int]) -> tuple[float, float]:
        """Periods that are certainly too short, or just so, and long enough."""
        low = max((float(times.cycles[-1]) for times in self.times), default=1.0)
        flits = sum(self._outside_flits(streamed)) + 1.0
        low = max(low, flits / self.fabric.num_channels, 1.0)
        high = max((float(times.cycles[0]) for times in self.times), default=1.0)
        moved = sum(
            d.makes + d.weight_reads + d.table_reads + sum(r.elements for r in d.reads)
            for d in self.demands
        )
        most_tiles = max(-(-max(d.rows, d.cols) // self.rules.tile) for d in self.demands)
        high = max(high, low) + moved * most_tiles / self.fabric.flit_elements
        return low, 4 * high / self.rules.memory_load

    def _flits_read(self, repeats: Sequence[tuple[int, int]]) -> list[float]:
        """Flits that leave the buffers of each stage per sample."""
        read = [0.0] * len(self.demands)
        for demand, times in zip(self.demands, repeats, strict=True):
            for item in demand.reads:
                if item.source != OUTSIDE:
                    again = {LEFT: times[0], RIGHT: times[1], SHARE: 1, ALL: 1}[item.mode]
                    read[item.source] += item.elements * again / self.fabric.flit_elements
        for k, demand in enumerate(self.demands):
            read[k] += demand.leaves / self.fabric.flit_elements
        return read

    def _weight_flits(self, repeats: Sequence[tuple[int, int]]) -> dict[int, float]:
        """Flits that are read of each set of weights per sample, by all stages that have it."""
        flits: dict[int, float] = {}
        for demand, (_, again) in zip(self.demands, repeats, strict=True):
            read = demand.weight_reads * again + demand.table_reads
            flits[demand.weight_set] = (
                flits.get(demand.weight_set, 0.0) + read / self.fabric.flit_elements
            )
        return flits

    def _buffers(self, demand: Demand, flits_read: float, target: float) -> int:
        flits = -(-demand.makes // self.fabric.flit_elements)
        flit_bytes = self.fabric.flit_elements * self.fabric.element_bytes
        room = max(self.fabric.memory_bytes // (flit_bytes * demand.depth), 1)
        return max(-(-flits // room), min(int(np.ceil(max(flits, flits_read) / target)), flits), 1)

    def _outside_flits(self, streamed: frozenset[int]) -> tuple[float, float]:
        """Flits per sample that come in, with weights read once, and that go out."""
        first = self.demands[INPUTS]
        into = float(first.makes if first.kept else 0)
        for k, demand in enumerate(self.demands):
            into += sum(read.elements for read in demand.reads if read.source == OUTSIDE)
            if k in streamed:
                into += demand.weight_reads + demand.table_reads
        out = sum(demand.leaves for demand in self.demands)
        return into / self.fabric.flit_elements, out / self.fabric.flit_elements

    def _io_units(self, stages: Sequence[StageShare], period: float) -> tuple[int, int]:
        """I/O units that bring in and that take out, within the sites there are."""
        sites = len(self.fabric.of_kind(IO))
        streamed = frozenset(k for k, stage in enumerate(stages) if stage.streamed)
        into, out = self._outside_flits(streamed)
        target = max(self.rules.io_load * period, 1.0)
        outputs = min(max(int(np.ceil(out / target)), 1), max(sites // 2, 1))
        return min(max(int(np.ceil(into / target)), 1), sites - outputs), outputs


class _Packing:
    """Memory units for weights: small ones share, in the order of the stages."""

    def __init__(self, fabric: Fabric) -> None:
        self._room = fabric.memory_bytes
        self._bytes = 0.0
        self._load = 0.0
        self._open = -1
        self.count = 0

    def hold(self, held: int, flits: float, target: float) -> tuple[int, ...]:
        """Numbers of the units for weights of this many bytes, which are read at such a rate."""
        units = max(-(-held // self._room), int(np.ceil(flits / target)))
        size, load = held / self._room, flits / target
        if units > 1 or max(size, load) > _PACKED:
            self.count += units
            return tuple(range(self.count - units, self.count))
        if self._open < 0 or self._bytes + size > 1 or self._load + load > 1:
            self._open, self._bytes, self._load = self.count, 0.0, 0.0
            self.count += 1
        self._bytes += size
        self._load += load
        return (self._open,)
