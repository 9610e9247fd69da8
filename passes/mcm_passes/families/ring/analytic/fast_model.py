"""The fast model: what a partition costs, in microseconds instead of a simulation.

Chips, links and host channels are separate resources that overlap; the busiest sets the period
(MCM, section 5.1, counts chips only; links and host are our addition). Everything that
legalisation will add is charged here: clones on every chip that reads them, relays on the chips
between, and their memory; and the copies of views that lowering makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mcm_compiler.arrays.kernels import entry_njit, lean_inner_njit
from mcm_compiler.contracts.mapping import Violation
from mcm_compiler.contracts.partition import Bools, Floats, Ints, Longs, PartitionProblem
from mcm_compiler.machines.machine import HOST as OUTSIDE
from mcm_compiler.machines.machine import Machine
from mcm_compiler.placements.compiled_rules import last_reader
from mcm_compiler.placements.ring_rules import (
    CLONED,
    FROM_HOST,
    HOST,
    TO_HOST,
    find_partition_violations,
)
from mcm_passes.families.ring.loads.ring_kernels import (
    HELD,
    HOST_IN,
    HOST_OUT,
    LINK,
    Loads,
    Marks,
    Way,
    count_received,
    count_tensor,
)
from mcm_passes.mapping.loads.evaluation import PlacementCost, PlacementModel
from mcm_passes.mapping.loads.problem_arrays import (
    Measured,
    ProblemArrays,
    count_copies,
    count_view_copies,
    live_bytes,
    own_loads,
)


@lean_inner_njit
def _count_tensors(
    p: ProblemArrays, chip_of: Ints, copies: Bools, stamp: Longs, loads: Loads, leaves: Bools
) -> None:
    """Counts all tensors, and marks those that leave the chip that makes them.

    `stamp[C]` holds -1.
    """
    columns, readers = p.columns, p.readers
    for t in range(columns.kind.size):
        kind = columns.kind[t]
        if kind & CLONED:
            count_copies(p, t, copies, loads.totals[HELD])
            continue
        source, last, arrives = HOST, -1, True
        if not kind & FROM_HOST:
            source = int(chip_of[p.tensor_producer[t]])
            last = last_reader(readers.ptr, readers.entries, t, chip_of)
            leaves[t] = (kind & TO_HOST) > 0 or last > source
        way = Way(source, last, p.last_chip)
        if source != HOST:
            arrives = count_tensor(columns, t, way, 1, loads)
        if arrives:
            marks = Marks(stamp, t)
            count_received(columns, t, readers, chip_of, way, 1, loads.totals, marks)


@entry_njit
def measure(p: ProblemArrays, chip_of: Ints) -> Measured:
    """Loads of all resources for the placement `chip_of[N]`, whose entries are in range."""
    own = own_loads(p, chip_of)
    loads = Loads(own.busy_s, np.zeros((4, p.num_chips), np.int64))
    leaves = np.zeros(p.live.size, np.bool_)
    stamp = np.full(p.num_chips, -1, np.int64)
    _count_tensors(p, chip_of, own.copies, stamp, loads, leaves)
    count_view_copies(p, chip_of, leaves, own.busy_s)
    peak = live_bytes(p, chip_of, leaves)
    held = loads.totals[HELD]
    return Measured(own.copies, own.busy_s, loads.totals, held, own.weights, peak, own.largest, 0)


@dataclass(frozen=True, eq=False)
class RingEvaluation(PlacementCost):
    """What one partition costs per inference, on links and channels as well.

    Attributes:
        link_busy_s: `[C]`, link c carries once each tensor that must get from chips up to c to
            chips after c, or to the end of the package. The last stands for all links behind.
        host_in_busy_s: `[C]`, what arrives from the host.
        host_out_busy_s: `[C]`, what goes to the host.
        stream_busy_s: `[C]`, weights that come from off-package memory for every inference.
        root_busy_s: `[3]`, what all chips share: all that arrives from the host, all that goes to
            it, and all weights that are streamed; 0 where they have no channel in common.
    """

    link_busy_s: Floats
    host_in_busy_s: Floats
    host_out_busy_s: Floats
    stream_busy_s: Floats
    root_busy_s: Floats


def refuse_machines(problem: PartitionProblem) -> None:
    """Raises ValueError for problems on machines that are no rings."""
    if not problem.on_ring:
        raise ValueError(f"the problem is placed on a machine of family {problem.family}")


class FastModel(PlacementModel):
    """A problem on a ring prepared for many evaluations.

    Raises:
        ValueError: if the problem is for another machine, which links between neighbours say
            nothing of.
    """

    kind = RingEvaluation

    def __init__(self, problem: PartitionProblem) -> None:
        refuse_machines(problem)
        super().__init__(problem)

    def loads(self, chip_of: Ints) -> Measured:
        """As `measure`."""
        return measure(self.arrays, chip_of)

    def channels(self, found: Measured, streamed: Longs) -> dict[str, Floats]:
        """As `PlacementModel.channels`."""
        limits, totals = self._problem.limits, found.crossed
        root = limits.host_root_bytes_per_s
        shared = (
            totals[HOST_IN].sum() / root,
            totals[HOST_OUT].sum() / root,
            streamed.sum() / limits.stream_root_bytes_per_s,
        )
        return {
            "link_busy_s": totals[LINK] / limits.link_bytes_per_s,
            "host_in_busy_s": totals[HOST_IN] / limits.host_bytes_per_s,
            "host_out_busy_s": totals[HOST_OUT] / limits.host_bytes_per_s,
            "stream_busy_s": streamed / (limits.stream_bytes_per_s or np.inf),
            "root_busy_s": np.array(shared),
        }

    def broken(self, chip_of: Ints, memory: Longs) -> Sequence[Violation]:
        """As `find_partition_violations`."""
        return find_partition_violations(self._problem, chip_of, memory)

    def channel_bytes(self, chip_of: Ints, machine: Machine) -> Longs:
        """`[L]`, bytes of one inference on each channel, but for streamed weights.

        Args:
            chip_of: `[N]`, in range.
            machine: a ring of these chips, and of others behind them.
        """
        totals = measure(self.arrays, np.asarray(chip_of, np.int32)).crossed
        chips, devices = totals.shape[1], machine.num_devices
        found = np.zeros(machine.num_channels, np.int64)
        # The link behind these chips stands for all that follow, and their last channel to the host
        # for that of the last device, where outputs leave at the ends.
        found[: devices - 1] = totals[LINK, np.minimum(np.arange(devices - 1), chips - 1)]
        places = [(OUTSIDE, c, HOST_IN, c) for c in range(chips)]
        places += [(c, OUTSIDE, HOST_OUT, c) for c in range(chips)]
        if machine.places(chips - 1, OUTSIDE)[-1:] != (chips - 1,):
            places[-1] = (devices - 1, OUTSIDE, HOST_OUT, chips - 1)
        for source, destination, row, chip in places:
            route = machine.route(source, destination)
            ports = route if len(machine.places(source, destination)) == 1 else ()
            found[list(ports)] += totals[row, chip]
        return found


def evaluate(problem: PartitionProblem, chip_of: Ints) -> RingEvaluation:
    """What a partition costs; see `RingEvaluation`.

    Args:
        problem: arrays derived from it are kept as long as it lives.
        chip_of: `[N]`; entries of clonable units are not looked at.
    """
    return FastModel.of(problem).evaluate(chip_of)


def period(problem: PartitionProblem, chip_of: Ints) -> float:
    """The period in seconds; infinite where the partition breaks a rule."""
    evaluation = evaluate(problem, chip_of)
    return evaluation.period_s if evaluation.valid else float("inf")
