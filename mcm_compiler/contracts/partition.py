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

from mcm_compiler.arrays.clone_closure import clone_closure, placed_users
from mcm_compiler.arrays.rows import Rows
from mcm_compiler.arrays.types import Bools, Floats, Ints, Longs
from mcm_compiler.contracts.cost import NODE_COST
from mcm_compiler.contracts.described import Named
from mcm_compiler.contracts.evaluation import BatchEvaluator
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.objectives import PERIOD, Objective, ObjectiveFigures
from mcm_compiler.graph.annotations import GRAPH, AnnotationKey
from mcm_compiler.machines.energy import UnitEnergies
from mcm_compiler.machines.machine import Machine
from mcm_compiler.machines.package_limits import PackageLimits, Routing

MemoryCount = Literal["estimate", "need"]
"""How bytes on a chip are counted. `estimate`: with room for the gaps of a memory plan, views as
if they took room, in the order of the units; a search that keeps to it seldom overflows. `need`:
no more than any memory plan of the target takes, in whatever order kernels run. Only the need may
stand in a proof, a refusal or a bound."""


IN_A_WEIGHT = -2
"""In `PartitionProblem.tensor_alias`: the tensor lies in the memory of a weight."""


@dataclass(frozen=True, eq=False)
class PartitionProblem:
    """Where shall N units go on C chips? All arrays are read-only.

    A tensor is a hyperedge: it is sent once to each chip that needs it, not once per consumer.
    Tensors are in CSR form: the consumers of tensor t are
    `tensor_consumers[tensor_ptr[t]:tensor_ptr[t + 1]]`; weights likewise.

    Attributes:
        names: `[N]`, name of each unit. Units are in a topological order.
        members: `[N]`, names of the ONNX nodes of each unit.
        compute_s: `[N]`, seconds of each unit on a chip.
        clonable: `[N]`, True where a unit is copied to each chip that reads it. All that such a
            unit reads comes from the host or from other clonable units.
        pinned_chip: `[N]`, the chip that the user wants, or -1.
        tensor_names: `[T]`.
        tensor_bytes: `[T]`, bytes on a link and in SRAM.
        tensor_producer: `[T]`, unit that makes it, or -1 for a graph input.
        tensor_ptr: `[T + 1]`.
        tensor_consumers: distinct units that read each tensor, ascending.
        tensor_to_host: `[T]`, True for graph outputs.
        relay_s: `[T]`, seconds of one relay (Identity) of the tensor on a chip.
        weight_names: `[W]`.
        weight_bytes: `[W]`; a weight used on two chips is stored on both.
        weight_ptr: `[W + 1]`.
        weight_users: distinct units that use each weight, ascending.
        limits: numbers of the package.
        routing: the rule for long dependencies.
        op_types: `[N]`, ONNX op type of the costliest op of each unit; empty where unknown.
        tensor_alias: `[T]`, the tensor in whose memory this one lies where both are made on one
            chip, as views do; `IN_A_WEIGHT` for a view of a weight; else -1. An alias stands
            before what lies in it. All -1 where left out.
        tensor_touched: as long as `tensor_consumers`, whether the consumer's kernel reads the
            tensor's memory; False for views. All True where left out.
        weight_touched: as long as `weight_users`, likewise; the shape of a view is not held. All
            True where left out.
        one_kernel: `[N]`, whether a unit runs as one kernel, so that all that it reads and makes
            is held at once. All True where left out.
        memory: how bytes on a chip are counted, see `MemoryCount`.
        machine: what the units are placed on, the first `num_chips` devices of it; None for a
            ring, which `limits` describes. For other machines `limits` has the fastest channel
            of each kind, and `routing` says nothing.
        energy: joules of units and tensors; None where nobody asks for energy.
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
    machine: Machine | None = None
    energy: UnitEnergies | None = None

    def __post_init__(self) -> None:
        for name, like, fill in (
            ("tensor_alias", self.tensor_bytes, np.int32(-1)),
            ("tensor_touched", self.tensor_consumers, np.bool_(True)),
            ("weight_touched", self.weight_users, np.bool_(True)),
            ("one_kernel", self.compute_s, np.bool_(True)),
        ):
            if not getattr(self, name).size:
                object.__setattr__(self, name, np.full(like.size, fill))
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

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
        """`[C]`, clocks relative to those that `compute_s` speaks of."""
        speeds = self.limits.chip_speed
        return np.array(speeds or (1.0,) * self.num_chips, np.float64)

    @cached_property
    def clone_closure(self) -> Rows:
        """`[N]` rows: for each unit the units with a place of their own whose chips hold it."""
        return clone_closure(
            self.clonable, self.tensor_producer, self.tensor_ptr, self.tensor_consumers
        )

    @cached_property
    def placed_readers(self) -> Rows:
        """`[T]` rows: the units whose chips read each tensor, on their own or through clones."""
        return placed_users(self.clone_closure, self.tensor_ptr, self.tensor_consumers)

    @cached_property
    def placed_weight_users(self) -> Rows:
        """`[W]` rows: the units whose chips store each weight, likewise."""
        return placed_users(self.clone_closure, self.weight_ptr, self.weight_users)

    def at_need(self) -> PartitionProblem:
        """The same problem where memory is what any plan needs at least.

        Every partition that fits the target fits it, and takes no longer there.
        """
        return self if self.memory == "need" else self._at_need

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
            limits=replace(self.limits, activation_packing=1.0, stream_buffers=0),
            memory="need",
        )

    def reached(self) -> PartitionProblem:
        """The same problem on a ring whose every chip the host reaches.

        No placement needs more memory, time or, but for what the host sends to several chips,
        energy there. What a chip takes then depends on its own units alone, for searches and
        proofs that ask for that.
        """
        return self._reached if self.limits.at_ends else self

    @cached_property
    def _reached(self) -> PartitionProblem:
        delays = self.limits.latencies_s[: self.num_chips - 1]
        return replace(self, limits=replace(self.limits, host_io="any", link_latency_s=delays))

    @property
    def relays(self) -> bool:
        """Whether engines of chips pass on what travels by; else routers do, or nothing may."""
        return self.routing == "relay" and self.limits.forwarding == "engine"

    @property
    def streams(self) -> bool:
        """Whether weights that do not fit may come from off-package memory every inference."""
        return self.limits.stream_bytes_per_s > 0.0


@dataclass(frozen=True)
class LowerBound:
    """A proven lower bound on the period of every valid partition.

    Attributes:
        seconds: the bound.
        argument: why it holds, in a few words with the numbers (`heaviest unit 'fc1'`).
        proof: name of the kind of argument, for checkers; empty where there is none.
    """

    seconds: float
    argument: str
    proof: str = ""


@dataclass(frozen=True, eq=False)
class LearnedGain:
    """What learned search adds to the best that classical search found, with both partitions.

    Attributes:
        share: of the throughput that classical search reached; 0 where learning found no better.
        simulated: whether the simulator measured both, or else the fast model.
        classical: `[N]`, the best partition that classical search found.
        learned: `[N]`, the best that learned search found first; None where none runs.
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
        period_s: period under the fast model, clones and relays included.
        bound: proven under the same model.
        strategy: text form of the strategy that found it.
        routing: the rule it is valid under.
        cost_model: name of the model that `period_s` and `bound` come from.
        found_by: the member of a portfolio that found it; empty where there is none.
        learned: as in `Outcome`.
        figures: what it comes to under an objective that is not the plain period; else None.
    """

    chip_of: Ints
    period_s: float
    bound: LowerBound
    strategy: str
    routing: Routing
    cost_model: str
    found_by: str = ""
    learned: LearnedGain | None = None
    figures: ObjectiveFigures | None = None

    @property
    def gap(self) -> float:
        """`period / bound - 1`: how far from optimal it can be at most, under the fast model."""
        return self.period_s / self.bound.seconds - 1.0

    @property
    def num_chips_used(self) -> int:
        """Chips with at least one unit."""
        return int(self.chip_of.max()) + 1


class SearchMonitor:
    """How a caller watches a search, and stops it.

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
        """Tells of a new best partition."""
        if self._on_best is not None:
            self._on_best(chip_of, period_s)

    def cancel(self) -> None:
        """Asks the search to end, from any thread; it returns its best so far soon after."""
        self._cancelled = True

    @property
    def cancelled(self) -> bool:
        """Whether it is to end. Strategies look between evaluations or small batches of them."""
        return self._cancelled or (self._parent is not None and self._parent.cancelled)


@dataclass(frozen=True)
class Budget:
    """How much a strategy may spend, and what else its caller gives it.

    What is found without a limit in seconds depends on problem, options and seed alone, to the
    byte; what is found under one need not be reproducible.

    Attributes:
        evaluations: most partitions it may evaluate; deterministic. A portfolio gives as many to
            each of its members.
        seconds: wall time after which it returns its best so far; None for no limit.
        effort_s: deterministic seconds, for what counts its work otherwise than in evaluations,
            such as CP-SAT.
        enough_s: a period that cannot be beaten, so that a search which has it may stop; 0 where
            none is known.
        gap: share by which a period may exceed such a one, or a bound that a search proves, for
            the search to stop.
        evaluator: the simulator for search, where the caller has one for this problem.
        known: `[N]` each, partitions that the caller has evaluated, best first, for strategies
            that can start from them.
        start: what `dp` finds, where the caller has had it run already within the same limits,
            for strategies that would begin with it; it counts as their own work.
        monitor: how the caller watches and cancels.
        objective: what is sought; anything but the plain period for strategies alone that can,
            see `mcm_compiler.contracts.objectives.MeetsObjectives`.
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
    """What a strategy found.

    Attributes:
        chip_of: `[N]`, its best valid partition, or None if it found none.
        evaluations: partitions it evaluated.
        reason: why it found none, for the diagnostic; empty otherwise.
        bound: a lower bound that it proved on the way, or None. It holds for every partition of
            `problem.at_need()`.
        settled_s: a period that no partition beats which fits `problem` as that counts memory; 0
            where none is known. It tells a search where to stop, and is no bound: where memory is
            estimated, a plan may fit what the estimate leaves out.
        runners_up: other good partitions, best first, for a caller that has another evaluator.
        infeasible: whether it proved that no valid partition of `problem.at_need()` exists;
            `reason` then says how.
        found_by: the member of a portfolio that found it; empty where there is none.
        learned: what learned search added; None where none has run, or classical search found
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
    """What `dp` found for a problem, and for no other: strategies may solve some on the way."""

    problem: PartitionProblem
    outcome: Outcome


Evaluate = Callable[[Ints], float]
"""Period in seconds of one partition `chip_of[N]`; infinite where it breaks a constraint."""


class PartitionStrategy(Named, Protocol):
    """A way to search for partitions: a frozen dataclass whose fields are its options.

    Pure: no I/O, no logging, no clock except the budget's. Anytime: whenever the budget is spent
    or the monitor says so, the best partition so far is the outcome.
    """

    def solve(
        self,
        problem: PartitionProblem,
        evaluate: Evaluate,
        rng: np.random.Generator,
        budget: Budget,
    ) -> Outcome:
        """Searches for the partition with the smallest period."""
        ...


@runtime_checkable
class AsksEvaluator(Protocol):
    """A strategy that may ask the evaluator of its budget while it searches.

    A portfolio lets it have a look even where a bound of the fast model is met.
    """

    @property
    def asks_evaluator(self) -> bool:
        """Whether it does, with its options."""
        ...


@runtime_checkable
class Learns(Protocol):
    """A strategy that may learn; what it adds to the others is told as `LearnedGain`."""

    @property
    def learns(self) -> bool:
        """Whether it does, with its options."""
        ...


@runtime_checkable
class GivesStart(Protocol):
    """A strategy whose outcome may be the `Budget.start` of those that run after it."""

    @property
    def gives_start(self) -> bool:
        """Whether it is, with its options."""
        ...


@runtime_checkable
class EvaluatesBatches(Protocol):
    """An `Evaluate` that takes many placements at once."""

    def periods(self, partitions: Ints) -> Floats:
        """`[B]`, the period of each row of `partitions[B, N]`."""
        ...


@runtime_checkable
class KnowsMachines(Protocol):
    """A strategy for problems with a `machine`, and not for rings alone."""

    @property
    def any_machine(self) -> bool:
        """Whether it is, with its options."""
        ...


def knows_machines(strategy: PartitionStrategy) -> bool:
    """Whether a strategy places on machines of any family; not where it does not say so."""
    return isinstance(strategy, KnowsMachines) and strategy.any_machine


def asks_evaluator(strategy: PartitionStrategy) -> bool:
    """Whether a strategy asks the evaluator; one that does not say so does not."""
    return isinstance(strategy, AsksEvaluator) and strategy.asks_evaluator


def learns(strategy: PartitionStrategy) -> bool:
    """Whether a strategy learns; one that does not say so does not."""
    return isinstance(strategy, Learns) and strategy.learns


def gives_start(strategy: PartitionStrategy) -> bool:
    """Whether others may begin with a strategy's outcome; not where it does not say so."""
    return isinstance(strategy, GivesStart) and strategy.gives_start


@dataclass(frozen=True)
class Legalization:
    """What legalisation added to make the partition executable.

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
"""Set on each op that only passes on what arrives from the chip before, be it constant or not."""
