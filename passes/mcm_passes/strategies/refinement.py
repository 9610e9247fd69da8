"""Refining a partition of one problem with moves that cost as much as what they change."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mcm_compiler.partition import Ints, Longs, PartitionProblem
from mcm_compiler.ring_routes import CLONED, EVERYWHERE, FROM_HOST
from mcm_compiler.ring_rules import dependency_edges
from mcm_passes.mapping.loads.demand_table import DemandTable, demand_table
from mcm_passes.mapping.loads.ring_kernels import LIVE, tensor_columns
from mcm_passes.partitioning.fast_model import evaluate
from mcm_passes.strategies.delta_kernels import (
    BUSY,
    HOST_IN,
    HOST_OUT,
    LINK,
    MEMORY,
    Loads,
    MoveGraph,
    Ring,
    Travels,
    place,
    refine,
    score_between,
)
from mcm_passes.strategies.unit_items import unit_items

Words = npt.NDArray[np.uint64]

MOST_MOVED = 64
"""Most units that one step moves."""


class Refiner:
    """A problem prepared for refinement.

    Args:
        problem: the problem.
        heat: temperature at the first step of a walk, as a share of the mean score of a chip.
        squarings: scores are sums of the `2 ** squarings`th powers of all loads.
    """

    def __init__(self, problem: PartitionProblem, heat: float, squarings: int = 3) -> None:
        limits = problem.limits
        self._problem = problem
        table = demand_table(problem, own_buffers=True)
        self._items = unit_items(problem, table)
        self._travels = _travels(problem, table)
        self._fixed = ~problem.clonable
        self._edges = dependency_edges(problem)
        source, target = (ends.astype(np.int64) for ends in self._edges)
        n = problem.num_units
        self._graph = MoveGraph(*_rows(source, target, n), *_rows(target, source, n))
        self._work_s = np.where(problem.clonable, 0.0, problem.compute_s)
        self._rate = np.stack(
            [
                problem.chip_speed,
                np.full(problem.num_chips, limits.link_bytes_per_s),
                np.full(problem.num_chips, limits.host_bytes_per_s),
                np.full(problem.num_chips, limits.host_bytes_per_s),
            ]
        ).astype(np.float64)
        self._heat = heat
        self._squarings = squarings

    def can_refine(self, chip_of: Ints) -> bool:
        """Whether its moves keep the rules: not beside two-chip dependencies that none relays."""
        source, target = self._edges
        near = self._problem.relays or not source.size
        return near or int((chip_of[target] - chip_of[source]).max()) <= 1

    def at(self, chip_of: Ints) -> Loads | None:
        """The loads of a partition `chip_of[N]`, counted anew; None where it is not valid."""
        problem = self._problem
        result = evaluate(problem, chip_of)
        if not result.valid:
            return None
        limits, chips = problem.limits, problem.num_chips
        now = np.zeros((5, chips))
        now[BUSY] = result.chip_busy_s * problem.chip_speed
        now[LINK, : chips - 1] = result.link_busy_s * limits.link_bytes_per_s
        now[HOST_OUT] = result.host_out_busy_s * limits.host_bytes_per_s
        now[HOST_IN] = result.host_in_busy_s * limits.host_bytes_per_s
        now[MEMORY] = result.memory_bytes
        tensors = self._travels.kind.size
        loads = Loads(
            chip_of=np.array(chip_of, np.int32),
            source=np.zeros(tensors, np.int32),
            last=np.zeros(tensors, np.int32),
            at_last=np.zeros(tensors, np.int32),
            held=np.zeros((self._items.seconds.size, chips), np.int32),
            units_on=np.zeros(chips, np.int32),
            now=now,
        )
        place(self._items, self._travels, loads, self._fixed)
        return loads

    def score(self, loads: Loads, reference_s: float) -> float:
        """What steps bring down, for a period of `reference_s` as measure."""
        last = self._problem.num_chips - 1
        ring = self._ring(loads.chip_of)
        return float(score_between(ring, loads, reference_s, self._squarings, 0, last))

    def walk(self, loads: Loads, reference_s: float, steps: int, stream: Words) -> None:
        """Makes `steps` annealed moves; `loads` change with them.

        The end may be worse than the start, and need not be valid where memory is tight.
        """
        candidates = self._candidates(loads.chip_of)
        if candidates.size:
            refine(
                self._items,
                self._travels,
                self._ring(loads.chip_of),
                self._graph,
                loads,
                self._work_s,
                self._problem.pinned_chip,
                candidates,
                reference_s,
                self._squarings,
                self._heat,
                steps,
                MOST_MOVED,
                stream,
            )

    def _ring(self, chip_of: Ints) -> Ring:
        problem = self._problem
        return Ring(
            rate=self._rate,
            sram=np.array(problem.limits.sram_bytes, np.float64),
            relay=problem.relays,
            ends=problem.limits.host_io == "ends",
            last_used=int(chip_of[self._fixed].max(initial=0)),
        )

    def _candidates(self, chip_of: Ints) -> Ints:
        """Units with a neighbour on another chip, or without any before or behind them."""
        source, target = self._edges
        apart = chip_of[source] != chip_of[target]
        at_border = np.zeros(chip_of.size, np.bool_)
        at_border[source[apart]] = True
        at_border[target[apart]] = True
        leads, follows = np.zeros_like(at_border), np.zeros_like(at_border)
        leads[source], follows[target] = True, True
        movable = (at_border | ~leads | ~follows) & self._fixed & (self._problem.pinned_chip < 0)
        return np.flatnonzero(movable).astype(np.int32)


def _travels(problem: PartitionProblem, table: DemandTable) -> Travels:
    """The tensors that a unit with a place makes, and the host's where they take the ring."""
    columns = tensor_columns(table)
    travels = table.kinds & (CLONED | EVERYWHERE) == 0
    read_by = problem.placed_readers
    own = travels[read_by.owners]
    tensor, reader = read_by.owners[own], read_by.entries[own]
    makers = np.flatnonzero(travels & (table.kinds & FROM_HOST == 0))
    made = problem.tensor_producer[makers].astype(np.int64)
    reader_ptr, readers = _rows(tensor, reader, travels.size)
    maker_ptr, makes = _rows(made, makers, problem.num_units)
    read_ptr, reads = _rows(reader, tensor, problem.num_units)
    return Travels(
        kind=columns.kind,
        amount=columns.amount,
        passed_s=columns.passed_s,
        live=np.ceil(columns.amount[:, LIVE] * problem.limits.activation_packing),
        maker_ptr=maker_ptr,
        makes=makes,
        reader_ptr=reader_ptr,
        readers=readers,
        read_ptr=read_ptr,
        reads=reads,
    )


def _rows(owner: Longs, entry: Longs, size: int) -> tuple[Longs, Ints]:
    """CSR of the entries of each owner."""
    order = np.lexsort((entry, owner))
    ptr = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=size))]).astype(np.int64)
    return ptr, entry[order].astype(np.int32)
