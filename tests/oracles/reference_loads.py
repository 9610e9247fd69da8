"""What a placement loads, by the word of the table: plain, slow, and what faster forms must match.

Each subject of each demand has chips on which the demand counts. No number of a resource stands
here, only what the triggers mean.
"""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.partition import Floats, Ints, Longs, PartitionProblem
from mcm_compiler.placements.ring_rules import CLONED, FROM_HOST, HOST
from mcm_passes.mapping.loads.demand_table import SHARED, DemandTable, Resource, Subject, Trigger
from mcm_passes.mapping.problem.resident_sizes import needed_sizes
from tests.oracles.plain_routes import Route, route


def reference_loads(problem: PartitionProblem, table: DemandTable, chip_of: Ints) -> Floats:
    """`[resources, C]`, the load of every resource; of `LIVE` the peak, of `SHARED` ones at 0.

    Args:
        problem: the problem.
        table: its demands.
        chip_of: `[N]`, chips in range of a placement whose dependencies point forwards; entries
            of clonable units are not looked at.
    """
    chips = [int(c) for c in chip_of]
    where = {
        Subject.UNIT: [_chips(problem.clone_closure.row(u), chips) for u in range(len(chips))],
        Subject.WEIGHT: [
            _chips(problem.placed_weight_users.row(w), chips)
            for w in range(problem.weight_bytes.size)
        ],
        Subject.TENSOR: [
            _chips(problem.placed_readers.row(t), chips) for t in range(problem.tensor_bytes.size)
        ],
    }
    made = [
        where[Subject.UNIT][u] if u >= 0 else ([HOST] if where[Subject.TENSOR][t] else [])
        for t, u in enumerate(problem.tensor_producer.tolist())
    ]
    routes = [
        Route()
        if kind & CLONED or not made[t]
        else route(
            kind, made[t][0], where[Subject.TENSOR][t], problem.limits.last_chip, problem.num_chips
        )
        for t, kind in enumerate(table.kinds.tolist())
    ]
    copies = problem.copies
    writers = (
        {}
        if copies is None
        else dict(
            zip(
                copies.tensor.tolist(),
                [chips[u] if u >= 0 else HOST for u in copies.writer.tolist()],
                strict=True,
            )
        )
    )
    loads = np.zeros((len(Resource), problem.num_chips))
    for demand in table.demands:
        if demand.resource is Resource.LIVE:
            stays = [r.stays for r in routes]
            loads[Resource.LIVE] = _peaks(problem, demand.amount.tolist(), stays, chips)
            continue
        for index, amount in enumerate(demand.amount.tolist()):
            if demand.trigger is Trigger.MADE and demand.subject is Subject.TENSOR:
                on = [] if table.kinds[index] & FROM_HOST else made[index]
            elif demand.trigger is Trigger.COPIED:
                # Without a route it is no tensor that a chip with a place of its own makes.
                away = routes[index].sent and index in writers
                on = made[index] if away and writers[index] not in made[index] else []
            elif demand.trigger in {Trigger.MADE, Trigger.READ}:
                on = where[demand.subject][index]
            else:
                on = getattr(routes[index], demand.trigger.name.lower())
            for c in on:
                loads[demand.resource, 0 if demand.resource in SHARED else c] += amount
    return loads


def _chips(units: Longs, chips: list[int]) -> list[int]:
    """The chips of units, ascending, each once."""
    return sorted({chips[u] for u in units.tolist()})


def _peaks(
    problem: PartitionProblem, amount: list[int], stays: list[tuple[int, ...]], chips: list[int]
) -> list[int]:
    """`[C]`, the most that is live at once of what stays on each chip.

    In an estimate a tensor is live from its maker to its last reader in the order of the units.
    At need it is live while its `held` units run, in whatever order, and only where all those of
    `stay` are on its maker's chip.
    """
    peaks = [0] * problem.num_chips
    needed = needed_sizes(problem) if problem.memory == "need" else None
    at = [0] * problem.num_units
    for t, on in enumerate(stays if needed is None else [(0,)] * len(stays)):
        if not on or not amount[t]:
            continue
        maker = int(problem.tensor_producer[t])
        if needed is None:
            readers = problem.placed_readers.row(t).tolist()
            running = [
                u
                for u in range(maker, max([maker, *readers]) + 1)
                if not problem.clonable[u] and chips[u] == chips[maker]
            ]
        else:
            stay = needed.stay.row(t).tolist()
            held = needed.held.row(t).tolist()
            running = held if all(chips[u] == chips[maker] for u in stay) else []
        for u in running:
            at[u] += amount[t]
    for u, live in enumerate(at):
        if not problem.clonable[u]:
            peaks[chips[u]] = max(peaks[chips[u]], live)
    return peaks
