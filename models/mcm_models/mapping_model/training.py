"""Learning from measured graphs, by Adam, in batches of some mappings of some graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax

from mcm_compiler.arrays.types import Floats, Ints
from mcm_compiler.diagnostics import CompileError
from mcm_models.mapping_model.graphs import GraphShape, MappingGraph, PaddedGraphs, buckets, padded
from mcm_models.mapping_model.layout import MappingLayout, Weights
from mcm_models.mapping_model.losses import Labels, latency_loss, period_loss, ranking_loss
from mcm_models.mapping_model.network import answers
from mcm_models.mapping_model.settings import LearningSettings
from mcm_models.training_run import Tell, TrainingLoop

Array = jax.Array


@dataclass(frozen=True, eq=False)
class SeenGraph:
    """Mappings of one problem as the network sees them, with their labels.

    Attributes:
        mappings: B of them.
        period: `[B]`, logarithms of the measured periods over the bound.
        latency: `[B]`, likewise.
        weight: `[B]`, 1, or 0 for what nothing is to be learned from.
    """

    mappings: Sequence[MappingGraph]
    period: Floats
    latency: Floats
    weight: Floats

    @property
    def shape(self) -> GraphShape:
        """That holds all of them."""
        most = np.max([graph.shape for graph in self.mappings], axis=0)
        return GraphShape(*(int(size) for size in most))


class LearningState(NamedTuple):
    """All that an epoch changes.

    Attributes:
        weights: of the network.
        optimizer: state of Adam.
        epoch: epochs that are done.
    """

    weights: Weights
    optimizer: Any
    epoch: int


def fresh_state(settings: LearningSettings, weights: Weights) -> LearningState:
    """Before the first epoch."""
    return LearningState(weights, _optimizer(0.0, 0.0).init(dict(weights)), 0)


def learn(
    layout: MappingLayout,
    settings: LearningSettings,
    state: LearningState,
    graphs: Sequence[SeenGraph],
    seed: int,
    after: Callable[[LearningState, float], None],
    beside: Sequence[SeenGraph] = (),
    tell: Tell | None = None,
) -> LearningState:
    """Goes on until all epochs are done; equal arguments give equal weights.

    Args:
        layout: of the network.
        settings: see there.
        state: to go on from.
        graphs: to learn from.
        seed: of the order of graphs and mappings.
        after: called after each epoch with the state and the mean loss.
        beside: graphs that room is made for, but nothing is learned from, so that trainings on
            parts of a data set share their programs.
        tell: hears of each epoch.

    Raises:
        CompileError: MCM-M058 where the loss is no finite number.
    """
    # A compilation takes as long as hundreds of batches.
    few = min(settings.buckets, 1 + (len(graphs) + len(beside)) // 30)
    shapes, bucket = buckets([graph.shape for graph in (*graphs, *beside)], few)
    bucket = bucket[: len(graphs)]
    weighing = _Weighing(settings.ranking, settings.latency, settings.decay, settings.mappings)
    loss = 0.0

    def step(_number: int) -> dict[str, float]:
        nonlocal state, loss
        rng = np.random.default_rng([seed, state.epoch])
        weights: Any = state.weights
        optimizer = state.optimizer
        losses: list[Array] = []
        share = state.epoch / settings.epochs
        rate = settings.learning_rate * (0.01 + 0.99 * 0.5 * (1 + np.cos(np.pi * share)))
        for number, chosen in _batches(bucket, settings.graphs, rng):
            batch, labels = _batch([graphs[k] for k in chosen], shapes[number], settings, rng)
            weights, optimizer, found = _step(
                layout, weighing, rate, weights, optimizer, batch, labels
            )
            losses.append(found)
        loss = float(np.mean([float(each) for each in losses]))
        plain = {name: np.asarray(array) for name, array in weights.items()}
        if not np.isfinite(loss) or not all(np.isfinite(array).all() for array in plain.values()):
            raise CompileError.of(
                "MCM-M058",
                f"the training diverges: its loss is {loss} in epoch {state.epoch + 1}",
                hint=f"learn with a rate below {settings.learning_rate}",
            )
        state = LearningState(plain, optimizer, state.epoch + 1)
        return {"loss": loss}

    def stop(_number: int) -> tuple[str, dict[str, float]]:
        after(state, loss)
        return f"loss {loss:.4f}", {}

    TrainingLoop(settings.epochs, tell or (lambda _: None), "epochs").run(state.epoch, step, stop)
    return state


def _optimizer(rate: float | Array, decay: float) -> optax.GradientTransformation:
    adam = optax.adamw(cast("float", rate), weight_decay=decay)
    return optax.chain(optax.clip_by_global_norm(1.0), adam)


class _Weighing(NamedTuple):
    """What of the settings a compiled step depends on; a program serves all that share it."""

    ranking: float
    latency: float
    decay: float
    mappings: int


@partial(jax.jit, static_argnames=("layout", "weighing"))
def _step(
    layout: MappingLayout,
    weighing: _Weighing,
    rate: float | Array,
    weights: dict[str, Array],
    optimizer: Any,
    batch: PaddedGraphs,
    labels: Labels,
) -> tuple[dict[str, Array], Any, Array]:
    def loss_of(weights: dict[str, Array]) -> Array:
        out = answers(layout, weights, batch)
        loss = period_loss(out, labels) + weighing.latency * latency_loss(out, labels)
        return loss + weighing.ranking * ranking_loss(out, labels, weighing.mappings)

    loss, gradient = jax.value_and_grad(loss_of)(weights)
    change, optimizer = _optimizer(rate, weighing.decay).update(gradient, optimizer, weights)
    new = optax.apply_updates(weights, change)
    return cast("dict[str, Array]", new), optimizer, jnp.asarray(loss)


def _batches(bucket: Ints, size: int, rng: np.random.Generator) -> list[tuple[int, np.ndarray]]:
    """Graphs of one bucket each, in random order; batches at the end are filled up."""
    found: list[tuple[int, np.ndarray]] = []
    for number in np.unique(bucket).tolist():
        order = rng.permutation(np.flatnonzero(bucket == number))
        order = np.resize(order, -(-len(order) // size) * size)
        found += [(number, part) for part in order.reshape(-1, size)]
    return [found[k] for k in rng.permutation(len(found))]


def _batch(
    graphs: Sequence[SeenGraph],
    shape: GraphShape,
    settings: LearningSettings,
    rng: np.random.Generator,
) -> tuple[PaddedGraphs, Labels]:
    chosen = [
        np.resize(rng.permutation(len(graph.mappings)), settings.mappings) for graph in graphs
    ]
    mappings = [
        graph.mappings[k] for graph, rows in zip(graphs, chosen, strict=True) for k in rows.tolist()
    ]

    def labels(name: str) -> np.ndarray:
        rows = [getattr(g, name)[k] for g, k in zip(graphs, chosen, strict=True)]
        return np.concatenate(rows).astype(np.float32)

    return padded(mappings, shape), Labels(labels("period"), labels("latency"), labels("weight"))
