"""How many pipelines of a model a package runs side by side.

A pipeline stops gaining from more chips once its heaviest unit, its transfers, or the launches of
its kernels set the pace, whereas two pipelines of half the chips answer twice as often. What it
costs is memory: each pipeline holds all weights. (Data parallelism in Auto-MAP's terms, for
inference: nothing has to be reduced between the replicas.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np

from mcm_compiler.contracts.evaluation import BatchEvaluator, BatchResults, ResultKind
from mcm_compiler.contracts.partition import (
    Bools,
    Budget,
    Evaluate,
    Ints,
    Outcome,
    PartitionProblem,
)
from mcm_compiler.contracts.replication import PipelineCount, Replication
from mcm_compiler.diagnostics import quote
from mcm_compiler.machines.machine_builder import equal_shares
from mcm_compiler.options import CompileOptions
from mcm_passes.mapping.bounds.bounds import lower_bound, total_work
from mcm_passes.mapping.bounds.infeasibility import impossible
from mcm_passes.mapping.models import evaluate, mapping_of, periods_of
from mcm_passes.mapping.solving.lowered_evaluator import LoweredEvaluator
from mcm_passes.mapping.solving.planned_memory import first_planned, searches_cost_minutes
from mcm_passes.parallelism.replicas.in_flight import ROOM, InFlight

LEAST_GAIN = 0.005
"""Share of simulated throughput that more pipelines must add: each of them costs the memory of all
weights, and fewer are easier to feed."""

LEAST_ANALYTIC_GAIN = 0.01
"""The same under the analytic model; either of the two is reason enough for more pipelines."""

MAX_BOUND_UNITS = 4000
"""Units up to which every number of replicas gets a bound of its own; above, all of them share
that of the total work."""

NEAR = 0.1
"""Share by which a number may seem slower than the fastest under the analytic model, at best, for a
better partition of it to be sought. Simulator and model differed by up to a tenth."""

EVALUATED_UNITS = 100_000
"""Units of all partitions together that are shown to the simulator, which takes some seconds for
as many; of two numbers at least."""

LOWERED_COST = 20
"""Cost of showing a partition to a simulator where it is lowered first, in times of the usual."""


def equal_chips(problem: PartitionProblem) -> bool:
    """Return whether one partition serves several shares of consecutive chips of the package."""
    return mapping_of(problem).interchangeable(problem)


def replica_obstacle(problem: PartitionProblem, options: CompileOptions, target: str) -> str:
    """Why chips of the package cannot stand in for each other; empty where they can."""
    if options.assignment is not None or (options.pins and options.replicas is None):
        return "ops are bound to chips of the package"
    if options.forbidden_chips:
        return "some chips are left out, so that links differ"
    if not equal_chips(problem):
        return f"the chips of {quote(target)} are not alike to the host and each other"
    return ""


def choose_replicas(
    problem: PartitionProblem,
    evaluator: BatchEvaluator | None = None,
    *,
    simulated: bool = True,
    numbers: Sequence[tuple[int, int]] | None = None,
    below_s: float = inf,
    flight: InFlight | None = None,
) -> Replication:
    """The number of replicas with the most throughput on the simulator.

    Every number that may win by its bound is given the chips that an equal share leaves it, and the
    partition that the family finds quickly for them. Where that leaves a gap to a bound that could
    win, a better one is sought with more effort, and where the estimate of memory leaves none, one
    whose memory the target plans. The simulator then decides. Of numbers within `LEAST_GAIN` of the
    best, and `LEAST_ANALYTIC_GAIN` under the analytic model, the smallest is taken.

    Args:
        problem: on all chips that may be used, which are equal.
        evaluator: the simulator for `problem`, which plans memory; without one the analytic model
            decides, and its estimate of memory.
        simulated: whether the simulator decides, or plans memory alone.
        numbers: of pipelines, with the chips of each; None for all that count.
        below_s: seconds per inference of the package that count. A number that cannot undercut
            them by `LEAST_GAIN` has a bound alone.
        flight: sequences, where states stay on chips: first partitions have memory for as many as
            keep a pipeline busy, or as many as fit, and waits of too few of them count.
    """
    chips = problem.num_chips
    numbers = equal_shares(chips, problem.machine) if numbers is None else numbers
    below_s *= 1.0 - LEAST_GAIN
    shares = [_share(problem, count, each) for count, each in numbers]
    rest = sorted((one for one in shares if one.bound_s <= below_s), key=lambda one: one.bound_s)
    tried: list[_Share] = []
    while some := _first_partitions(rest, tried, flight):
        fastest_s = _refine(some, tried, below_s)
        for share in some:
            if not share.rows and share.bound_s <= fastest_s * (1.0 + NEAR):
                _plan(share, share.asked(evaluator))
        if evaluator is not None and simulated:
            _simulate([share for share in some if share.served_s <= below_s], evaluator)
    considered = tuple(share.count() for share in shares)
    chosen = _fastest(considered)
    whole = Replication(1, chips, considered)
    return whole if chosen is None else whole.with_count(chosen)


def given_replicas(problem: PartitionProblem, count: int) -> Replication:
    """This many pipelines, with the bound of that number alone."""
    return Replication(count, problem.num_chips // count)


def on_share(problem: PartitionProblem, chips_each: int, pipelines: int) -> PartitionProblem:
    """The problem of one of this many pipelines that have this many chips each."""
    if chips_each == problem.num_chips and pipelines == 1:
        return problem
    return problem.within(problem.limits.first(chips_each, pipelines))


@dataclass
class _Share:
    """A number of replicas while it is looked at.

    Attributes:
        first: what is known of it without its partitions.
        plain: the problem of one of the pipelines.
        problem: the same with memory for the states of its sequences.
        wait_s: seconds of the package between steps of these sequences.
        found: what the family finds for it quickly; None where the number is ruled out.
        rows: partitions of it with their period under the analytic model, best first.
        pipeline_s: period of one pipeline on the simulator; None where nothing is known to run.
        evaluated: whether the simulator was asked.
    """

    first: PipelineCount
    plain: PartitionProblem
    problem: PartitionProblem
    wait_s: float = 0.0
    found: Outcome | None = None
    rows: list[tuple[float, Ints]] = field(default_factory=list[tuple[float, Ints]])
    pipeline_s: float | None = None
    evaluated: bool = False

    @property
    def bound_s(self) -> float:
        """Seconds per inference of the package that it cannot undercut; infinite if ruled out."""
        bound_s = self.first.bound_s
        return inf if bound_s is None else bound_s

    @property
    def analytic_s(self) -> float:
        """Seconds per inference of the package under the analytic model; infinite where unknown."""
        return self.rows[0][0] / self.first.replicas if self.rows else inf

    @property
    def served_s(self) -> float:
        """The same, or the wait if that is longer."""
        return max(self.analytic_s, self.wait_s)

    @property
    def reached_s(self) -> float:
        """The same on the simulator, where that was asked."""
        simulated_s = self.pipeline_s and self.pipeline_s / self.first.replicas
        return max(simulated_s or self.analytic_s, self.wait_s)

    def offer(self, chip_of: Ints | None, periods: Evaluate) -> None:
        """Keeps a partition, if it is valid and faster than those that are known."""
        if chip_of is None:
            return
        period_s = periods(chip_of)
        if np.isfinite(period_s) and (not self.rows or period_s < self.rows[0][0]):
            self.rows.insert(0, (period_s, np.array(chip_of, np.int32)))

    def asked(self, evaluator: BatchEvaluator | None) -> BatchEvaluator | None:
        """The evaluator of one of the pipelines, of that of the package."""
        if evaluator is None:
            return None
        return share_evaluator(evaluator, self.problem, self.first.replicas)

    def count(self) -> PipelineCount:
        """Finding; nothing that runs counts as no partition once the simulator said so."""
        if not self.rows or (self.evaluated and self.pipeline_s is None):
            return self.first
        simulated_s = None if self.pipeline_s is None else self.pipeline_s / self.first.replicas
        analytic_s = evaluate(self.plain, self.rows[0][1]).period_s / self.first.replicas
        return replace(
            self.first,
            analytic_s=analytic_s,
            simulated_s=simulated_s,
            partitions=np.stack([row for _, row in self.rows]),
            wait_s=max(self.wait_s, self.analytic_s) if self.wait_s else 0.0,
        )


def _share(problem: PartitionProblem, replicas: int, each: int) -> _Share:
    """A number with its bound, or with what rules it out."""
    shared = on_share(problem, each, replicas)
    first = PipelineCount(replicas, each)
    if faults := impossible(shared):
        return _Share(replace(first, ruled_out=faults[0].code), shared, shared)
    small = problem.num_units <= MAX_BOUND_UNITS
    bound = lower_bound(shared) if small else total_work(shared)
    return _Share(replace(first, bound=bound), shared, shared)


def _first_partitions(
    rest: list[_Share], tried: list[_Share], flight: InFlight | None
) -> list[_Share]:
    """Those of the rest that may win by their bounds, with first partitions; they are tried."""
    fastest_s, before = min((share.reached_s for share in tried), default=inf), len(tried)
    while rest and rest[0].bound_s <= fastest_s * (1.0 + LEAST_ANALYTIC_GAIN):
        share = rest.pop(0)
        if flight is None:
            share.found = mapping_of(share.plain).first(share.plain, Budget())
        else:
            held = flight.first(share.plain, share.bound_s * share.first.replicas)
            share.problem, share.found, sequences = held.problem, held.found, held.sequences
            wait_s = flight.wait_s(share.plain, sequences, share.found.chip_of)
            share.wait_s = wait_s / share.first.replicas
        share.offer(share.found.chip_of, periods_of(share.problem))
        fastest_s = min(fastest_s, share.served_s)
        tried.append(share)
    return tried[before:]


def _refine(some: list[_Share], tried: list[_Share], below_s: float) -> float:
    """Better partitions of some that could win with one, the most promising first.

    Returns:
        Seconds of the fastest that was tried.
    """
    fastest_s = min(one.served_s for one in tried)
    for share in sorted(some, key=lambda one: (one.served_s, one.first.replicas)):
        if share.bound_s > fastest_s * (1.0 + NEAR) or share.served_s > below_s * (1.0 + NEAR):
            continue
        if share.analytic_s <= max(share.bound_s * (1.0 + ROOM), share.wait_s):
            continue
        alone = share.first.chips_each == 1
        if alone or (not share.rows and searches_cost_minutes(share.problem)):
            continue
        assert share.found is not None, "what is tried has a first partition"
        better = mapping_of(share.problem).better(share.problem, share.found)
        share.offer(better, periods_of(share.problem))
        fastest_s = min(fastest_s, share.served_s)
    return fastest_s


def _simulate(shares: list[_Share], evaluator: BatchEvaluator) -> None:
    """Asks the simulator about the best partition of each number, or of those that seem best."""
    known = sorted(
        (share for share in shares if share.rows),
        key=lambda one: (one.served_s, one.first.replicas),
    )
    if not known:
        return
    lowers = isinstance(evaluator, LoweredEvaluator)
    units = EVALUATED_UNITS // LOWERED_COST if lowers else EVALUATED_UNITS
    most = max(units // max(known[0].problem.num_units, 1), 2)
    for share in shares:
        share.evaluated = not lowers
    fastest_s = inf
    for share in known[:most]:
        if lowers and share.served_s >= fastest_s:
            break
        share.evaluated = True
        share.pipeline_s = _simulated_s(share, share.asked(evaluator))
        if share.pipeline_s is not None:
            fastest_s = min(fastest_s, share.pipeline_s / share.first.replicas)


def _simulated_s(share: _Share, evaluator: BatchEvaluator | None) -> float | None:
    """Seconds between inferences of one pipeline; None where no memory plan fits."""
    assert evaluator is not None, "the simulator is asked"
    results = evaluator.evaluate(np.stack([row for _, row in share.rows]))
    if not (results.kind == ResultKind.RUNS).any():
        # The estimate of the memory was too low: once more within smaller limits.
        share.rows = []
        _plan(share, evaluator)
        if not share.rows:
            return None
        results = evaluator.evaluate(np.stack([row for _, row in share.rows]))
    period_s = float(results.period_s.min())
    return period_s if np.isfinite(period_s) else None


def _plan(share: _Share, evaluator: BatchEvaluator | None) -> None:
    """Finds a partition whose memory plan fits, whatever the estimate of its memory is."""
    found = first_planned(share.problem, evaluator)
    if found is not None:
        share.rows = [(found.period_s, found.chip_of)]


def _fastest(considered: tuple[PipelineCount, ...]) -> PipelineCount | None:
    """The smallest number that is about as fast as the fastest; None where nothing is known."""
    known = [
        (one.served_s, max(one.analytic_s, one.wait_s), one.replicas, one)
        for one in considered
        if one.served_s is not None and one.analytic_s is not None
    ]
    if not known:
        return None
    fastest = min(known, key=lambda row: (row[0], row[2]))
    least_s = fastest[0] * (1.0 + LEAST_GAIN)
    analytic_s = min(row[1] for row in known) * (1.0 + LEAST_ANALYTIC_GAIN)
    near = [row for row in known if row[0] <= least_s and row[1] <= analytic_s]
    return min(near, key=lambda row: row[2], default=fastest)[3]


def share_evaluator(
    evaluator: BatchEvaluator, problem: PartitionProblem, pipelines: int
) -> BatchEvaluator:
    """The evaluator of one of N pipelines on a share of the package that another one is for."""
    if isinstance(evaluator, LoweredEvaluator):
        return evaluator.on_share(problem, pipelines)
    return ShareEvaluator(evaluator, problem, pipelines)


class ShareEvaluator:
    """Implements `BatchEvaluator` for the first chips of a package.

    Tables of an evaluator say nothing of the number of chips, so that one of all chips serves each
    share of them, where the host reaches every chip and chips are equal.

    Args:
        evaluator: of the package, where chips are equal and each has a way to the host.
        problem: of a pipeline on the share.
        pipelines: that share the package, and its channels that all chips share.
    """

    def __init__(
        self, evaluator: BatchEvaluator, problem: PartitionProblem, pipelines: int
    ) -> None:
        self._evaluator = evaluator
        self._chips = problem.num_chips
        self._pipelines = pipelines
        self._fixed = ~problem.clonable

    @property
    def name(self) -> str:
        """Of the evaluator of the package."""
        return self._evaluator.name

    def evaluate(self, partitions: Ints) -> BatchResults:
        """Results for `partitions[B, N]` for the chips of the share alone."""
        found, chips = self._evaluator.evaluate(partitions), self._chips
        # Chips beyond the share belong to the next pipeline.
        outside: Bools = np.any(partitions[:, self._fixed] >= chips, axis=1)
        return BatchResults(
            kind=np.where(outside, int(ResultKind.BREAKS_RULE), found.kind).astype(np.int32),
            period_s=np.where(outside, np.inf, found.periods_of(self._pipelines)),
            latency_s=np.where(outside, np.inf, found.latency_s),
            high_water_bytes=np.where(outside[:, None], 0, found.high_water_bytes[:, :chips]),
            chip_busy_s=np.where(outside[:, None], 0.0, found.chip_busy_s[:, :chips]),
            link_busy_s=np.where(outside[:, None], 0.0, found.link_busy_s[:, :chips]),
            shared_busy_s=found.shared_busy_s,
        )
