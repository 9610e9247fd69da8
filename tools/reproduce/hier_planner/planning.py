"""The loop of a planner: groups and devices are drawn, judged and learned from."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hier_planner.op_features import OpFeatures, group_features
from hier_planner.planner_settings import PlannerLayout, PlannerSettings, Weights, initial_weights
from hier_planner.sampling import DrawnGroups, UnitInputs, draw_groups
from mcm_compiler.arrays.types import Floats, Ints
from mcm_compiler.contracts.boxes.box import StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepResults
from mcm_passes.families.box.learning.cases import standardised
from mcm_passes.families.box.search.annealing import Judge
from mcm_passes.families.box.search.units import Fallbacks

if TYPE_CHECKING:
    from hier_planner.networks import GroupInputs, Trace
    from hier_planner.updates import Batch, GroupPolicy


Singles = npt.NDArray[np.float32]


class PlannerError(Exception):
    """Why a planner has no answer."""


def local_credit(devices: Ints, results: StepResults) -> Singles:
    """`[K, M]`, how little the device is loaded that each group went to, against other samples.

    A step's signal is one number for all choices. What a device has to do, its ops and the copies
    that leave it, is known per device. The credit is the negative of that, standardised, minus its
    mean over the samples of each group. It shows which choices put too much on one device (as for
    packages of chips, our derivation).

    Args:
        devices: `[K, M]`.
        results: of the same K placements.
    """
    load = np.take_along_axis(results.busy_s + results.copy_s, devices.astype(np.int64), axis=1)
    relief = standardised(-load)
    return (relief - relief.mean(axis=0)).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Plan:
    """What a planner decides, and how it learns.

    Attributes:
        problem: what is placed. Its sets of ops that run together are the units that get devices.
        ways: of units that may not follow their group.
        features: of ops.
        layout: of the networks.
        settings: of learning.
        seed: of everything random.
        given: `[U]`, group of each unit, or None for a Grouper.
        prior: `[M, D]`, added to scores of devices.
        table: scores of devices are a table, not a network.
    """

    problem: StepProblem
    ways: Fallbacks
    features: OpFeatures
    layout: PlannerLayout
    settings: PlannerSettings
    seed: int
    given: Ints | None
    prior: Singles
    table: bool = False

    @cached_property
    def placer(self) -> GroupPolicy:
        """Places groups."""
        from hier_planner.networks import LogitTable, Placer

        if self.table:
            return LogitTable()
        return Placer(self.layout.hidden, self.settings.tanh_constant)

    def initial_weights(self) -> tuple[Weights, ...]:
        """Of the table or Placer, and of the Grouper where there is one. A table begins at 0."""
        layout = self.layout
        table = np.zeros((layout.groups, layout.devices), np.float32)
        placer = (
            {"table": table} if self.table else initial_weights(layout.placer_shapes(), self.seed)
        )
        if self.given is not None:
            return (placer,)
        return placer, initial_weights(layout.grouper_shapes(), self.seed + 1)


@dataclass(eq=False)
class Progress:
    """What changes while a planner learns.

    Attributes:
        params: weights of the modules.
        optimizer: state of the optimizer.
        update: that comes next.
        average: moving average of signals.
        curve: per update the mean score, the mean entropies of devices and of groups in nats, and
            the mean numbers of used groups and devices.
        any_fits: whether a placement has fitted.
    """

    params: tuple[Any, ...]
    optimizer: Any
    update: int = 0
    average: float = 0.0
    curve: list[tuple[float, float, float, float, float]] = field(
        default_factory=list[tuple[float, float, float, float, float]]
    )
    any_fits: bool = False


@dataclass(frozen=True, eq=False)
class Drawn:
    """K samples before they are judged.

    Attributes:
        inputs: of the Placer.
        devices: `[K, M]`.
        placements: `[K, N]`.
        used_groups: mean number of groups that have units.
        trace: of the Placer; None where the policy has none.
        groups: of the Grouper, None without one.
    """

    inputs: GroupInputs
    devices: Ints
    placements: Ints
    used_groups: float
    trace: Trace | None
    groups: DrawnGroups | None


def begin(plan: Plan) -> Progress:
    """A planner that has learned nothing."""
    import jax

    from mcm_models.ppo import adam

    params = jax.tree.map(jax.numpy.asarray, plan.initial_weights())
    average = 0.0 if plan.settings.has_slope else float(np.sqrt(plan.settings.failing_s))
    return Progress(params, adam(plan.settings.gradient_norm, 0.0).init(params), average=average)


def learn(
    plan: Plan,
    judge: Judge,
    progress: Progress,
    updates: int,
    stop: float | None,
    after: Callable[[Progress], None],
) -> None:
    """Goes on until so many updates are done.

    Args:
        plan: what is learned.
        judge: asks the evaluator.
        progress: changed in place.
        updates: in all, with those that are done.
        stop: when to stop, as `time.monotonic` says, though not before a placement was judged;
            None for not at all.
        after: called after each update.

    Raises:
        CompileError: MCM-D060 for scores that are no numbers.
        PlannerError: where weights diverge.
    """
    given, grouped = _GivenGroups.of(plan), _LearnedGroups.of(plan)
    while progress.update < updates:
        # However short the time, there is an answer.
        if judge.evaluations and stop is not None and time.monotonic() >= stop:
            return
        drawn = _draw(plan, progress, given, grouped)
        results = judge.results(drawn.placements)
        progress.any_fits |= bool(results.fits.any())
        advantage, progress.average = _advantages(plan.settings, results, progress.average)
        entropy = _update(plan, progress, drawn, results, advantage)
        used = _mean_used(drawn.placements)
        progress.curve.append(
            (
                float(results.score.mean()),
                entropy,
                drawn.groups.entropy if drawn.groups else 0.0,
                drawn.used_groups,
                used,
            )
        )
        progress.update += 1
        after(progress)


@dataclass(frozen=True, eq=False)
class _GivenGroups:
    """Features `[1, M, F]` of groups that never change."""

    features: Singles

    @classmethod
    def of(cls, plan: Plan) -> _GivenGroups | None:
        if plan.given is None:
            return None
        of_op = plan.given[plan.problem.together][None]
        return cls(group_features(plan.features, of_op, plan.layout.groups))


@dataclass(frozen=True, eq=False)
class _LearnedGroups:
    """What draws of groups read in every update, and where their noise goes.

    Attributes:
        inputs: of the Grouper.
        noise: `[U, M]`, overwritten by each draw.
    """

    inputs: UnitInputs
    noise: Singles

    @classmethod
    def of(cls, plan: Plan) -> _LearnedGroups | None:
        if plan.given is not None:
            return None
        features = plan.features
        inputs = UnitInputs.of(features.unit_type, features.unit_values, features.types)
        return cls(inputs, np.empty((plan.problem.num_groups, plan.layout.groups), np.float32))

    def draw(
        self, plan: Plan, adds: Singles, level: np.float32, rng: np.random.Generator
    ) -> DrawnGroups:
        """Groups by what inputs add to scores, with noise of a level."""
        noise = None
        if level:
            # One draw for all K samples: they have their probabilities in common (a choice).
            noise = self.noise
            rng.standard_normal(out=noise, dtype=np.float32)
        uniforms = rng.random((plan.problem.num_groups, plan.settings.samples), np.float32)
        spread = plan.settings.entropy > 0.0
        return draw_groups(self.inputs, adds, noise, float(level), uniforms, spread)


def _draw(
    plan: Plan, progress: Progress, given: _GivenGroups | None, grouped: _LearnedGroups | None
) -> Drawn:
    import jax.numpy as jnp

    from hier_planner.networks import GroupInputs, grouper_scores
    from hier_planner.updates import sample_devices

    layout, count = plan.layout, plan.settings.samples
    rng = np.random.Generator(np.random.SFC64([plan.seed, progress.update]))
    level = np.float32(plan.settings.noise_at(progress.update))
    shape = (count, layout.groups, layout.devices)
    noise = np.zeros(shape, np.float32)
    if level:
        noise = level * rng.standard_normal(shape, np.float32)
    uniforms = rng.random((count, layout.groups), np.float32)
    groups: DrawnGroups | None = None
    if grouped is not None:
        adds = np.asarray(grouper_scores(progress.params[1]))
        groups = grouped.draw(plan, adds, level, rng)
        rows = groups.chosen
        features = group_features(plan.features, rows[:, plan.problem.together], layout.groups)
        used = rows
    else:
        assert given is not None
        assert plan.given is not None
        features = given.features
        rows = np.broadcast_to(plan.given, (count, plan.problem.num_groups))
        used = rows[:1]
    inputs = GroupInputs(*(jnp.asarray(part) for part in (features, plan.prior, noise)))
    found, trace = sample_devices(plan.placer, progress.params[0], inputs, uniforms)
    devices = np.asarray(found).astype(np.int32)
    of_units = np.take_along_axis(devices, rows, axis=1)
    placements = plan.ways.placements(of_units[:, plan.problem.together])
    return Drawn(inputs, devices, placements, _mean_used(used), trace, groups)


def _mean_used(rows: Ints) -> float:
    """How many different numbers rows have, in the mean."""
    return float(np.mean([np.count_nonzero(np.bincount(row)) for row in rows]))


def _advantages(
    settings: PlannerSettings, results: StepResults, average: float
) -> tuple[Floats, float]:
    """`[K]`, how much better each sample is than the baseline, and the new moving average.

    The signal is the square root of the time, as published; what does not fit counts as
    `failing_s`, or has a score that grows with what is too much.
    """
    seconds = results.score
    if not settings.has_slope:
        seconds = np.where(results.fits, results.seconds, settings.failing_s)
    signals = np.sqrt(seconds)
    if settings.baseline == "batch":
        return standardised(-signals), average
    keeps = settings.average_keeps
    return average - signals, keeps * average + (1.0 - keeps) * float(signals.mean())


def _of_gradients(settings: PlannerSettings) -> PlannerSettings:
    """What compiled updates depend on; whatever else differs does not compile them again."""
    return PlannerSettings(
        gradient_norm=settings.gradient_norm,
        entropy=settings.entropy,
        epochs=settings.epochs,
        clip=settings.clip,
    )


def _update(
    plan: Plan, progress: Progress, drawn: Drawn, results: StepResults, advantage: Floats
) -> float:
    """Learns from samples, in place. Returns the mean entropy of a group's device."""
    import jax.numpy as jnp

    from hier_planner.updates import Batch, update

    settings = plan.settings
    of_choice = np.repeat(advantage[:, None], plan.layout.groups, axis=1).astype(np.float32)
    if settings.credit:
        of_choice += np.float32(settings.credit) * local_credit(drawn.devices, results)
    grouping: Singles | None = None
    if drawn.groups is not None:
        grouping = drawn.groups.gradient(advantage, settings.entropy)
    batch: Batch = Batch(
        drawn.inputs, jnp.asarray(drawn.devices), jnp.asarray(of_choice), drawn.trace
    )
    rate = np.float32(settings.rate_at(progress.update))
    progress.params, progress.optimizer, metrics = update(
        plan.placer,
        _of_gradients(settings),
        progress.params,
        progress.optimizer,
        batch,
        grouping,
        rate,
    )
    if not np.isfinite(float(metrics.gradient)):
        raise PlannerError(
            f"the planner diverges in update {progress.update + 1}: its gradient is not finite "
            f"at a learning rate of {settings.rate_at(progress.update):g}"
        )
    return float(metrics.entropy)
