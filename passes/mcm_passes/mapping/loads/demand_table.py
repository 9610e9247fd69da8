"""The demands of a problem: what is asked of which resource, how much, and when.

Every load of a chip, a link or a host channel comes from a row here and from nothing else; see
`reference` for what a row means. A new resource is a row, and whatever computes loads in a form of
its own takes its numbers from `amount`, which names a row by what it asks and when.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import cached_property

import numpy as np

from mcm_compiler.arrays.rows import Rows
from mcm_compiler.contracts.partition import Floats, Longs, PartitionProblem
from mcm_compiler.placements.ring_rules import CLONED, FROM_HOST, SENT_ONCE, TO_HOST, route_kinds
from mcm_passes.mapping.problem.resident_sizes import needed_sizes, tensor_sizes, weight_sizes


class Resource(IntEnum):
    """Kind of loaded resource.

    `BUSY` is seconds of a chip at speed 1, `LINK` bytes of the link behind a chip, `HOST_OUT` and
    `HOST_IN` bytes of its host channels. `HELD` is bytes that buffers take always, `WEIGHT` bytes
    of weights, and `LIVE` bytes of tensors that come and go, of which the peak counts.
    `HOST_ROOT_OUT` and `HOST_ROOT_IN` are bytes of the channels that all chips share, see `SHARED`.
    The root of off-package memory carries the sum of what all chips stream, which follows from
    their memory and from no single demand.
    """

    BUSY = 0
    LINK = 1
    HOST_OUT = 2
    HOST_IN = 3
    HELD = 4
    WEIGHT = 5
    LIVE = 6
    HOST_ROOT_OUT = 7
    HOST_ROOT_IN = 8


SHARED = {Resource.HOST_ROOT_OUT: Resource.HOST_OUT, Resource.HOST_ROOT_IN: Resource.HOST_IN}
"""Resources that there is one of, with the one of each chip whose loads it carries all together: a
tensor counts once for each chip on which its demand counts."""


class Trigger(Enum):
    """When a demand counts.

    `MADE` and `READ` speak of each chip that makes or reads it, once however many units there do;
    clones are made on each chip that needs them. The others count along the way of a tensor.
    """

    MADE = "made on"
    READ = "read on"
    ENTERED = "enters from the host on"
    RECEIVED = "arrives on"
    SENT = "is sent by its maker on"
    PASSED = "is passed on by"
    COPIED = "is made as a view of memory that is not written there, and leaves,"
    CROSSED = "crosses"
    EXITED = "goes to the host from"
    STAYS = "is made and read on alone"


class Subject(Enum):
    """Source of a demand."""

    UNIT = "unit"
    TENSOR = "tensor"
    WEIGHT = "weight"


@dataclass(frozen=True, eq=False)
class Demand:
    """One row.

    Attributes:
        subject: what makes the demand.
        trigger: when it counts.
        resource: what is asked.
        amount: `[N]`, `[T]` or `[W]`, how much of it.
    """

    subject: Subject
    trigger: Trigger
    resource: Resource
    amount: Longs | Floats


@dataclass(frozen=True, eq=False)
class DemandTable:
    """All demands of a problem.

    Attributes:
        demands: the rows.
        kinds: `[T]`, how tensors travel: the bits of `ring_routes`.
    """

    demands: tuple[Demand, ...]
    kinds: Longs

    @cached_property
    def _by_name(self) -> dict[tuple[Subject, Trigger, Resource], Demand]:
        return {(d.subject, d.trigger, d.resource): d for d in self.demands}

    def amount(self, subject: Subject, trigger: Trigger, resource: Resource) -> Longs | Floats:
        """How much each subject asks of a resource then.

        Raises:
            KeyError: if the table has no such row.
        """
        return self._by_name[subject, trigger, resource].amount

    def check_known(self, known: set[tuple[Subject, Trigger, Resource]]) -> None:
        """For whoever computes loads in a form of its own: it must know every row.

        Raises:
            NotImplementedError: if a row is not among the `known` ones.
        """
        strange = sorted(
            f"{s.value} {t.value}: {r.name}" for s, t, r in self._by_name.keys() - known
        )
        if strange:
            raise NotImplementedError(f"demands that this form does not count: {strange}")


def demand_table(problem: PartitionProblem, *, own_buffers: bool = False) -> DemandTable:
    """The demands of a problem on the ring.

    Args:
        problem: the problem; its `memory` says how bytes are counted.
        own_buffers: count activations at need as in an estimate: outputs of clones, views, and
            buffers for each way that a tensor leaves its chip. Local searches count so, which is
            never less than what the analytic model says.
    """
    limits = problem.limits
    room = tensor_sizes(problem)
    kinds = route_kinds(problem)
    cloned = (kinds & CLONED) > 0
    sizes = np.where(cloned, 0, problem.tensor_bytes)
    slots = np.where(cloned, 0, limits.channel_slots * room)
    received, sent, live, made = slots, slots, room, np.where(cloned, room, 0)
    if problem.memory == "need":
        if problem.streams and not problem.on_ring:
            # Inputs may be among the activations, and only until their last reader.
            received = np.where(kinds & FROM_HOST, 0, slots)
        needed = needed_sizes(problem)
        if own_buffers:
            kinds &= ~SENT_ONCE
        else:
            live = needed.live
            made = np.zeros_like(room)
            sent = np.where(cloned, 0, limits.channel_slots * needed.send)
    # Routers pass on without the engine.
    router = limits.forwarding == "router"
    passed_s = np.zeros_like(problem.relay_s) if router else problem.relay_s
    copied_s = np.zeros_like(problem.relay_s)
    if problem.copies is not None:
        copied_s[problem.copies.tensor] = problem.copies.least.seconds
    unit, tensor, weight = Subject.UNIT, Subject.TENSOR, Subject.WEIGHT
    demands = (
        Demand(unit, Trigger.MADE, Resource.BUSY, problem.compute_s),
        Demand(tensor, Trigger.CROSSED, Resource.LINK, sizes),
        Demand(tensor, Trigger.ENTERED, Resource.HOST_IN, sizes),
        Demand(tensor, Trigger.EXITED, Resource.HOST_OUT, sizes),
        Demand(tensor, Trigger.ENTERED, Resource.HOST_ROOT_IN, sizes),
        Demand(tensor, Trigger.EXITED, Resource.HOST_ROOT_OUT, sizes),
        Demand(tensor, Trigger.PASSED, Resource.BUSY, passed_s),
        Demand(tensor, Trigger.COPIED, Resource.BUSY, copied_s),
        Demand(tensor, Trigger.MADE, Resource.HELD, made),
        Demand(tensor, Trigger.RECEIVED, Resource.HELD, received),
        Demand(tensor, Trigger.SENT, Resource.HELD, sent),
        Demand(tensor, Trigger.PASSED, Resource.HELD, slots),
        Demand(tensor, Trigger.STAYS, Resource.LIVE, live),
        Demand(weight, Trigger.READ, Resource.WEIGHT, weight_sizes(problem)),
    )
    return DemandTable(demands, kinds)


def least_at_root(table: DemandTable, readers: Rows) -> int:
    """The least that a channel carries which all host transfers share, in bytes: in or out.

    Each graph input that is read enters once or more, and each graph output leaves once.

    Args:
        table: the table.
        readers: `[T]` rows of who reads each tensor, on their own or through clones.
    """
    entered = table.amount(Subject.TENSOR, Trigger.ENTERED, Resource.HOST_ROOT_IN)
    exited = table.amount(Subject.TENSOR, Trigger.EXITED, Resource.HOST_ROOT_OUT)
    enters = (table.kinds & FROM_HOST > 0) & (np.diff(readers.ptr) > 0)
    leaves = table.kinds & TO_HOST > 0
    return max(int(entered[enters].sum()), int(exited[leaves].sum()))
