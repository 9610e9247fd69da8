"""The contract of partitioning: the problem as arrays, the answer, and the strategies between.

A strategy never sees ONNX. The problem's nodes are *placement units*: single ops, or ops that
stay together (a fusion group, ops that share state). Constants are not nodes; they live where
they are used. Cheap producers that can be recomputed are nodes marked `clonable`: they live on
every chip that reads them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from mcm_compiler.arrays.rows import Rows, clone_closure, placed_users
from mcm_compiler.arrays.types import Bools, Floats, Ints, Longs, ReadOnlyArrays
from mcm_compiler.contracts.cost import NODE_COST
from mcm_compiler.contracts.described import Named
from mcm_compiler.contracts.evaluation import BatchEvaluator
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.objectives import PERIOD, Objective, ObjectiveFigures
from mcm_compiler.graph.annotations import GRAPH, AnnotationKey
from mcm_compiler.graph.rounds import has_siblings
from mcm_compiler.machines.choices import Routing
from mcm_compiler.machines.kind_costs import KindCosts, ViewCopies
from mcm_compiler.machines.machine import RING, Machine
from mcm_compiler.machines.package_limits import PackageLimits, UnitEnergies
from mcm_compiler.machines.ring_machine import ring_of

MemoryCount = Literal["estimate", "need"]
"""Count of bytes on a chip.

`estimate` includes the gaps of a memory plan and counts views as buffers, in the order of the
units; a search that keeps to it seldom overflows. `need` is no more than any memory plan of the
target takes, in any order of kernels. Only `need` may support a proof, a refusal or a bound.
"""


IN_A_WEIGHT = -2
"""In `PartitionProblem.tensor_alias`: the tensor is in the memory of a weight."""


@dataclass(frozen=True, eq=False)
class PartitionProblem(ReadOnlyArrays):
    """The problem of placing N units on C chips. All arrays are read-only.

    A tensor is a hyperedge: it is sent once to each chip that needs it, not once per consumer.
    Tensors are in CSR form: the consumers of tensor t are
    `tensor_consumers[tensor_ptr[t]:tensor_ptr[t + 1]]`; weights likewise.

    Attributes:
        names: `[N]`, name of each unit. Units are in a topological order.
        members: `[N]`, names of the ONNX nodes of each unit.
        compute_s: `[N]`, seconds of each unit on a chip; where `kinds` differ, on the kind that
            runs it fastest.
        clonable: `[N]`, True where a unit is copied to each chip that reads it. All that such a
            unit reads comes from the host or from other clonable units.
        pinned_chip: `[N]`, the chip that the user wants, or -1.
        tensor_names: `[T]`.
        tensor_bytes: `[T]`, bytes on a link and in SRAM.
        tensor_producer: `[T]`, unit that makes it, or -1 for a graph input.
        tensor_ptr: `[T + 1]`.
        tensor_consumers: distinct units that read each tensor, ascending.
        tensor_to_host: `[T]`, True for graph outputs.
        relay_s: `[T]`, seconds of one relay (Identity) of the tensor on a chip, likewise.
        weight_names: `[W]`.
        weight_bytes: `[W]`; a weight used on two chips is stored on both.
        weight_ptr: `[W + 1]`.
        weight_users: distinct units that use each weight, ascending.
        limits: numbers of the package.
        routing: the rule for long dependencies.
        op_types: `[N]`, ONNX op type of the costliest op of each unit; empty where unknown.
        tensor_alias: `[T]`, the tensor whose memory contains this one if one chip makes both, as
            for views; `IN_A_WEIGHT` for a view of a weight; else -1. An alias precedes the
            tensors in it. All -1 if left out.
        tensor_touched: as long as `tensor_consumers`, whether the consumer's kernel reads the
            tensor's memory; False for views. All True if left out.
        weight_touched: as long as `weight_users`, likewise; the shape of a view is not held. All
            True if left out.
        one_kernel: `[N]`, whether a unit runs as one kernel, with all its operands and results in
            memory at the same time. All True if left out.
        memory: how bytes on a chip are counted, see `MemoryCount`.
        given_machine: the machine; left out for a ring, which is built from `limits`, see
            `machine`. For other machines, `limits` has the fastest channel of each
            kind, and `routing` has no meaning.
        energy: joules of units and tensors; None unless energy is requested.
        kinds: costs on each kind of chip, see `Machine.device_kind`; None where all chips are of
            one kind, which `compute_s` and `relay_s` are about.
        copies: views that are copied where they leave a chip; None if there are none.
        deviation_s: `[N]`, by how much the cost model's seconds of each unit may be off, on the
            kind of chip where that is most; None where no such error is known.
    """

    names: tuple[str, ...]
    members: tuple[tuple[str, ...], ...]
    compute_s: Floats
    clonable: Bools
    pinned_chip: Ints
    tensor_names: tuple[str, ...]
    tensor_bytes: Longs
    tensor_producer: Ints
    tensor_ptr: Longs
    tensor_consumers: Ints
    tensor_to_host: Bools
    relay_s: Floats
    weight_names: tuple[str, ...]
    weight_bytes: Longs
    weight_ptr: Longs
    weight_users: Ints
    limits: PackageLimits
    routing: Routing
    op_types: tuple[str, ...] = ()
    tensor_alias: Ints = field(default_factory=lambda: np.empty(0, np.int32))
    tensor_touched: Bools = field(default_factory=lambda: np.empty(0, np.bool_))
    weight_touched: Bools = field(default_factory=lambda: np.empty(0, np.bool_))
    one_kernel: Bools = field(default_factory=lambda: np.empty(0, np.bool_))
    memory: MemoryCount = "estimate"
    given_machine: Machine | None = None
    energy: UnitEnergies | None = None
    kinds: KindCosts | None = None
    copies: ViewCopies | None = None
    deviation_s: Floats | None = None

    def __post_init__(self) -> None:
        for name, like, fill in (
            ("tensor_alias", self.tensor_bytes, np.int32(-1)),
            ("tensor_touched", self.tensor_consumers, np.bool_(True)),
            ("weight_touched", self.weight_users, np.bool_(True)),
            ("one_kernel", self.compute_s, np.bool_(True)),
        ):
            if not getattr(self, name).size:
                object.__setattr__(self, name, np.full(like.size, fill))
        super().__post_init__()

    @property
    def num_units(self) -> int:
        """N."""
        return len(self.names)

    @property
    def num_chips(self) -> int:
        """C."""
        return self.limits.num_chips

    @property
    def chip_speed(self) -> Floats:
        """`[C]`, clocks relative to the clock of `compute_s`."""
        speeds = self.limits.chip_speed
        return np.array(speeds or (1.0,) * self.num_chips, np.float64)

    @cached_property
    def machine(self) -> Machine:
        """Devices, channels and routes; the units are placed on its first `num_chips` devices."""
        return ring_of(self.limits) if self.given_machine is None else self.given_machine

    @cached_property
    def kind_of(self) -> Ints:
        """`[C]`, the kind of each chip, a row of `unit_seconds`."""
        if self.kinds is None or self.machine.device_kind is None:
            return np.zeros(self.num_chips, np.int32)
        return self.machine.device_kind[: self.num_chips]

    @property
    def unit_seconds(self) -> Floats:
        """`[K, N]`, seconds of each unit on a chip of each kind."""
        return self.compute_s[np.newaxis] if self.kinds is None else self.kinds.units

    @property
    def relay_seconds(self) -> Floats:
        """`[K, T]`, seconds of a relay of each tensor on a chip of each kind."""
        return self.relay_s[np.newaxis] if self.kinds is None else self.kinds.relays

    def seconds_on(self, chip_of: Ints) -> Floats:
        """`[N]`, seconds of each unit on its chip, at speed 1."""
        if self.kinds is None:
            return self.compute_s
        return self.unit_seconds[self.kind_of[chip_of], np.arange(self.num_units)]

    @cached_property
    def clone_closure(self) -> Rows:
        """`[N]` rows: for each unit, the placed units whose chips hold a copy of it."""
        return clone_closure(
            self.clonable, self.tensor_producer, self.tensor_ptr, self.tensor_consumers
        )

    @cached_property
    def placed_readers(self) -> Rows:
        """`[T]` rows: the units whose chips read each tensor, directly or through clones."""
        return placed_users(self.clone_closure, self.tensor_ptr, self.tensor_consumers)

    @cached_property
    def placed_weight_users(self) -> Rows:
        """`[W]` rows: the units whose chips store each weight, likewise."""
        return placed_users(self.clone_closure, self.weight_ptr, self.weight_users)

    def within(self, limits: PackageLimits) -> PartitionProblem:
        """The same units on another package, with the rows that depend on units alone."""
        return self._with_rows(replace(self, limits=limits))

    def storing(self, weight_bytes: Longs) -> PartitionProblem:
        """The same with other bytes of weights, of states of more sequences for instance."""
        return self._with_rows(replace(self, weight_bytes=weight_bytes))

    def _with_rows(self, found: PartitionProblem) -> PartitionProblem:
        for name in ("clone_closure", "placed_readers", "placed_weight_users"):
            vars(found)[name] = getattr(self, name)
        return found

    def at_need(self) -> PartitionProblem:
        """The same problem with the least memory that any plan needs.

        Every partition that fits the target fits this problem, and takes no longer there. Where
        there may be queues, receive and send buffers are not counted: how short queues can be is
        known once the memory is planned.
        """
        least = self.memory == "need" and not (self.has_queues and self.limits.channel_slots)
        return self if least else self._at_need

    @cached_property
    def _at_need(self) -> PartitionProblem:
        rows = np.repeat(np.arange(self.weight_bytes.size), np.diff(self.weight_ptr))
        held = self.weight_touched
        counts = np.bincount(rows[held], minlength=self.weight_bytes.size)
        kept = np.flatnonzero(counts)
        return replace(
            self,
            weight_names=tuple(self.weight_names[w] for w in kept.tolist()),
            weight_bytes=self.weight_bytes[kept],
            weight_ptr=np.concatenate([[0], np.cumsum(counts[kept])]).astype(np.int64),
            weight_users=self.weight_users[held],
            weight_touched=held[held],
            limits=replace(
                self.limits,
                activation_packing=1.0,
                stream_buffers=0,
                channel_slots=0 if self.has_queues else self.limits.channel_slots,
            ),
            memory="need",
        )

    def reached(self) -> PartitionProblem:
        """The same problem on a ring with a host link at every chip.

        No placement needs more memory or time there, or more energy except for tensors that the
        host sends to several chips. The load of a chip then depends on its own units alone, as
        some searches and proofs require.

        For a problem with a machine, the ring has links without limits. Each of its chips has the
        most memory and the fastest clock of all, and runs each unit as fast as the kind that runs
        it fastest. Devices of a placement depend on each other
        in no circle, so they can be numbered along their dependencies. Every placement is one on
        this ring, and no chip or host channel has more load there.
        """
        return self._reached if self.limits.at_ends or not self.on_ring else self

    @cached_property
    def _reached(self) -> PartitionProblem:
        limits, count = self.limits, self.num_chips
        if self.on_ring:
            delays = limits.latencies_s[: count - 1]
            return self.within(replace(limits, host_io="any", link_latency_s=delays))
        # All tensors together take less on such a link than any unit takes on a chip.
        heaviest_s = float(self.compute_s.max(initial=0.0)) or 1.0
        rate = (float(self.tensor_bytes.sum()) + 1.0) / heaviest_s * 1e9
        free = replace(
            limits,
            sram_bytes=(max(limits.sram_bytes),) * count,
            chip_speed=(float(self.chip_speed.max()),) * count,
            link_bytes_per_s=rate * max(float(self.chip_speed.max()), 1.0),
            link_latency_s=(),
            forwarding="router",
        )
        unpinned = np.full_like(self.pinned_chip, -1)
        return replace(
            self,
            given_machine=None,
            routing="relay",
            limits=free,
            pinned_chip=unpinned,
            kinds=None,
            copies=None if self.copies is None else self.copies.least,
        )

    @property
    def family(self) -> str:
        """Family of the machine that ops are placed on."""
        return RING if self.given_machine is None else self.given_machine.family

    @cached_property
    def has_queues(self) -> bool:
        """True if tiles or classes may share buffers on a chip that is too full."""
        return not self.on_ring and any(map(has_siblings, self.tensor_names))

    @property
    def on_ring(self) -> bool:
        """True if `machine` is a ring; nothing is built to know it."""
        return self.family == RING

    @property
    def relays(self) -> bool:
        """True if engines of chips forward tensors; else routers do, or nothing may pass."""
        return self.routing == "relay" and self.limits.forwarding == "engine"

    @property
    def streams(self) -> bool:
        """True if weights that do not fit may come from off-package memory every inference."""
        return self.limits.stream_bytes_per_s > 0.0


@dataclass(frozen=True)
class LowerBound:
    """A proven lower bound on the period of every valid partition.

    Attributes:
        seconds: the bound.
        argument: its reason, in a few words with the numbers (`heaviest unit 'fc1'`).
        proof: name of the kind of proof, for checkers; empty if there is none.
    """

    seconds: float
    argument: str
    proof: str = ""


@dataclass(frozen=True, eq=False)
class LearnedGain:
    """Gain of learned search over the best result of classical search, with both partitions.

    Attributes:
        share: gain as a share of the throughput of classical search; 0 if learning found no
            better partition.
        simulated: whether the simulator or the analytic model evaluated both.
        classical: `[N]`, the best partition of classical search.
        learned: `[N]`, the best partition that learned search found first; None if none runs.
    """

    share: float
    simulated: bool
    classical: Ints
    learned: Ints | None


@dataclass(frozen=True, eq=False)
class Partition:
    """An answer with its certificate.

    Attributes:
        chip_of: `[N]`, chip of each unit; for a clonable unit the first chip that holds a copy.
        period_s: period under the analytic model, clones and relays included.
        bound: proven under the same model.
        strategy: text form of the strategy that found it.
        found_by: the member of a portfolio that found it; empty if there is none.
        learned: as in `Outcome`.
        figures: its figures under an objective other than the plain period; else None.
    """

    chip_of: Ints
    period_s: float
    bound: LowerBound
    strategy: str
    found_by: str = ""
    learned: LearnedGain | None = None
    figures: ObjectiveFigures | None = None

    @property
    def gap(self) -> float:
        """`period / bound - 1`: largest distance from the optimum, under the analytic model."""
        return self.period_s / self.bound.seconds - 1.0

    @property
    def num_chips_used(self) -> int:
        """Chips with at least one unit."""
        return int(self.chip_of.max()) + 1


class SearchMonitor:
    """Callbacks of a search to its caller, and its cancellation.

    Args:
        on_best: called with each new best partition `chip_of[N]` and its period in seconds; the
            array must not be changed.
        parent: a monitor whose cancellation counts here, too.
    """

    def __init__(
        self,
        on_best: Callable[[Ints, float], None] | None = None,
        parent: SearchMonitor | None = None,
    ) -> None:
        self._on_best = on_best
        self._parent = parent
        self._cancelled = False

    def best(self, chip_of: Ints, period_s: float) -> None:
        """Report a new best partition."""
        if self._on_best is not None:
            self._on_best(chip_of, period_s)

    def cancel(self) -> None:
        """Ask the search to end, from any thread; it returns its best so far soon after."""
        self._cancelled = True

    @property
    def cancelled(self) -> bool:
        """True once it has to end; strategies poll between small batches of evaluations."""
        return self._cancelled or (self._parent is not None and self._parent.cancelled)


@dataclass(frozen=True)
class Budget:
    """Limits of a strategy's search, and other inputs from its caller.

    Without a limit in seconds, results depend only on problem, options and seed, byte for byte.
    With one, they need not be reproducible.

    Attributes:
        evaluations: most partitions it may evaluate; deterministic. A portfolio gives this number
            to each of its members, and to the last one also what the others left.
        seconds: wall time after which it returns its best so far; None for no limit.
        effort_s: deterministic seconds for solvers that do not count evaluations, such as CP-SAT.
        enough_s: a period that cannot be beaten, at which a search may stop; 0 if none is known.
        gap: share by which a period may exceed `enough_s`, or a bound that the search proves,
            for the search to stop.
        evaluator: the simulator for searches, if the caller has one for this problem.
        known: `[N]` each, partitions that the caller has evaluated, best first, for strategies
            that can start from them.
        start: the result of `dp` within the same limits, if the caller has it already, for
            strategies that begin with `dp`; it counts as their own work.
        monitor: callbacks and cancellation.
        objective: figure to minimise; another one than the plain period is only for strategies
            with `mcm_compiler.contracts.objectives.MeetsObjectives`.
    """

    evaluations: int = 10_000
    seconds: float | None = None
    effort_s: float = 5.0
    enough_s: float = 0.0
    gap: float = 0.0
    evaluator: BatchEvaluator | None = field(default=None, compare=False)
    known: tuple[Ints, ...] = field(default=(), compare=False)
    start: Start | None = field(default=None, compare=False)
    monitor: SearchMonitor = field(default_factory=SearchMonitor, compare=False)
    objective: Objective = PERIOD


@dataclass(frozen=True, eq=False)
class Outcome:
    """Result of a strategy.

    Attributes:
        chip_of: `[N]`, its best valid partition, or None if it found none.
        evaluations: partitions it evaluated.
        reason: why it found none, for the diagnostic; empty otherwise.
        bound: a lower bound that it proved during the search, or None. It is valid for every
            partition of `problem.at_need()`.
        settled_s: a period that no partition beats that fits `problem` by its own count of
            memory; 0 if none is known. A search may stop there, but it is no bound: a memory
            plan may fit partitions that the estimate excludes.
        runners_up: other good partitions, best first, for a caller that has another evaluator.
        infeasible: whether it proved that no valid partition of `problem.at_need()` exists;
            `reason` then says how.
        found_by: the member of a portfolio that found it; empty if there is none.
        learned: gain of learned search; None if none has run, or if classical search found
            nothing to compare with.
    """

    chip_of: Ints | None
    evaluations: int
    reason: str = ""
    bound: LowerBound | None = None
    settled_s: float = 0.0
    runners_up: tuple[Ints, ...] = ()
    infeasible: bool = False
    found_by: str = ""
    learned: LearnedGain | None = None


@dataclass(frozen=True, eq=False)
class Start:
    """Result of `dp` for one problem; strategies may solve other problems during a search."""

    problem: PartitionProblem
    outcome: Outcome


Evaluate = Callable[[Ints], float]
"""Period in seconds of one partition `chip_of[N]`; infinite if it breaks a constraint."""


class PartitionStrategy(Named, Protocol):
    """A search method for partitions: a frozen dataclass whose fields are its options.

    Pure: no I/O, no logging, no clock except the budget's. Anytime: when the budget is spent
    or the monitor cancels, the outcome is the best partition so far.
    """

    def solve(
        self,
        problem: PartitionProblem,
        evaluate: Evaluate,
        rng: np.random.Generator,
        budget: Budget,
    ) -> Outcome:
        """Search for the partition with the smallest period."""
        ...


@runtime_checkable
class AsksEvaluator(Protocol):
    """A strategy that may ask the evaluator of its budget while it searches.

    A portfolio runs it even after a bound of the analytic model is met.
    """

    @property
    def asks_evaluator(self) -> bool:
        """True if it does with its options."""
        ...


@runtime_checkable
class Learns(Protocol):
    """A strategy that may learn; the report gives its gain over the others as `LearnedGain`."""

    @property
    def learns(self) -> bool:
        """True if it does with its options."""
        ...


@runtime_checkable
class GivesStart(Protocol):
    """A strategy whose outcome may be the `Budget.start` of later strategies."""

    @property
    def gives_start(self) -> bool:
        """True if it may be with its options."""
        ...


@runtime_checkable
class EvaluatesBatches(Protocol):
    """An `Evaluate` for batches of placements."""

    def periods(self, partitions: Ints) -> Floats:
        """`[B]`, the period of each row of `partitions[B, N]`."""
        ...


@runtime_checkable
class KnowsMachines(Protocol):
    """A strategy for problems with a `machine`, and not for rings alone."""

    @property
    def any_machine(self) -> bool:
        """True if it supports them with its options."""
        ...


def knows_machines(strategy: PartitionStrategy) -> bool:
    """Return whether a strategy supports machines of any family; by default it does not."""
    return isinstance(strategy, KnowsMachines) and strategy.any_machine


def asks_evaluator(strategy: PartitionStrategy) -> bool:
    """Return whether a strategy asks the evaluator; by default it does not."""
    return isinstance(strategy, AsksEvaluator) and strategy.asks_evaluator


def learns(strategy: PartitionStrategy) -> bool:
    """Return whether a strategy learns; by default it does not."""
    return isinstance(strategy, Learns) and strategy.learns


def gives_start(strategy: PartitionStrategy) -> bool:
    """Return whether others may begin with a strategy's outcome; by default they may not."""
    return isinstance(strategy, GivesStart) and strategy.gives_start


@dataclass(frozen=True)
class Legalization:
    """Ops that legalisation added to make the partition executable.

    Attributes:
        clones: `(original node, clone, chip)` for each copied op.
        relays: `(tensor, relay node, chip)` for each inserted Identity.
    """

    clones: tuple[tuple[str, str, int], ...] = field(default=())
    relays: tuple[tuple[str, str, int], ...] = field(default=())


PARTITION_PROBLEM: AnnotationKey[PartitionProblem] = AnnotationKey(
    "partition_problem", derived_from=(GRAPH, NODE_COST, FUSION_PLAN, "replication")
)
PARTITION: AnnotationKey[Partition] = AnnotationKey("partition", derived_from=(PARTITION_PROBLEM,))
LEGALIZATION: AnnotationKey[Legalization] = AnnotationKey(
    "legalization", derived_from=(GRAPH, PARTITION)
)
CHIP: AnnotationKey[int] = AnnotationKey("chip", on="node", derived_from=(GRAPH, PARTITION))
"""Chip of each op, once the graph is legal."""

RELAY: AnnotationKey[bool] = AnnotationKey("relay", on="node", derived_from=())
"""Set on each op that only forwards tensors from the previous chip, constant or not."""
