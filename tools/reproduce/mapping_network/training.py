"""The network of the mapping model, its losses, and its training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax

from mapping_network.graphs import GraphShape, MappingGraph, PaddedGraphs, buckets, padded
from mapping_network.layout import GLOBAL_COLUMNS, LearningSettings, MappingLayout, Singles, Weights
from mcm_compiler.arrays.types import Floats, Ints
from mcm_models.training_run import Tell, TrainingLoop

Array = jax.Array
Tree: TypeAlias = dict[str, Array]
"""Weights by name, as what is differentiated."""


@partial(jax.jit, static_argnames=("layout",))
def answers(layout: MappingLayout, weights: Weights | Tree, graphs: PaddedGraphs) -> Array:
    """`[B, 2]`, logarithms of period and latency over the bound, from padded graphs.

    Compiled once for each shape of graphs; the period is not clipped at the bound.
    """
    tree = {name: jnp.asarray(array) for name, array in weights.items()}
    pooled = _pooled(tree, layout.rounds, graphs)
    hidden = jax.nn.relu(pooled @ tree["head_first"] + tree["head_first_bias"])
    hidden = jax.nn.relu(hidden @ tree["head_second"] + tree["head_second_bias"])
    out = hidden @ tree["head_last"] + graphs.whole @ tree["head_linear"]
    out += tree["head_last_bias"]
    formula = graphs.whole[:, GLOBAL_COLUMNS.index("logarithm of the formula")]
    return out.at[:, 0].add(formula)


def _pooled(tree: Tree, rounds: int, graphs: PaddedGraphs) -> Array:
    """`[B, pooled]`: mean and maximum of units and of branches, and globals."""
    count, units = graphs.op.shape
    is_unit, is_branch = graphs.is_unit[..., None], graphs.is_branch[..., None]
    source, target = _flat(graphs.source, units), _flat(graphs.target, units)
    total = count * units
    flow_out = jnp.zeros(total).at[source].add(graphs.is_branch.reshape(-1))[:, None]
    flow_in = jnp.zeros(total).at[target].add(graphs.is_branch.reshape(-1))[:, None]
    unit = jax.nn.relu(tree["op"][graphs.op] + graphs.units @ tree["unit"] + tree["unit_bias"])
    unit = (unit * is_unit).reshape(total, -1)
    branch = jax.nn.relu(graphs.branches @ tree["branch"] + tree["branch_bias"]) * is_branch
    branch = branch.reshape(-1, branch.shape[-1])
    there = graphs.is_branch.reshape(-1, 1)
    mean_link, worst_link = _links(tree, graphs, branch)
    for k in range(rounds):
        own = unit @ tree["message_source"][k]
        other = unit @ tree["message_target"][k]
        message = branch @ tree["message_branch"][k] + tree["message_bias"][k]
        message += mean_link @ tree["message_mean_link"][k]
        message += worst_link @ tree["message_worst_link"][k]
        message = jax.nn.relu(message + own[source] + other[target]) * there
        branch += message
        zero = jnp.zeros_like(unit)
        # Messages are never negative, so that nothing is less than what nobody sends.
        mixed = unit @ tree["update_own"][k] + tree["update_bias"][k]
        mixed += (zero.at[target].add(message) / jnp.maximum(flow_in, 1)) @ tree["update_mean_in"][
            k
        ]
        mixed += zero.at[target].max(message) @ tree["update_worst_in"][k]
        mixed += (zero.at[source].add(message) / jnp.maximum(flow_out, 1)) @ (
            tree["update_mean_out"][k]
        )
        mixed += zero.at[source].max(message) @ tree["update_worst_out"][k]
        unit += jax.nn.relu(mixed) * is_unit.reshape(-1, 1)
    unit = unit.reshape(count, units, -1)
    branch = branch.reshape(count, graphs.source.shape[1], -1)
    return jnp.concatenate(
        [
            unit.sum(axis=1) / is_unit.sum(axis=1),
            unit.max(axis=1),
            branch.sum(axis=1) / is_branch.sum(axis=1),
            branch.max(axis=1),
            graphs.whole,
        ],
        axis=1,
    )


def _links(tree: Tree, graphs: PaddedGraphs, branch: Array) -> tuple[Array, Array]:
    """`[B L, width]` twice: mean and maximum of what the links on the way of each branch hold."""
    count, links, _ = graphs.links.shape
    pair_branch = _flat(graphs.pair_branch, graphs.source.shape[1])
    pair_link = _flat(graphs.pair_link, links)
    weight, there = graphs.pair_weight.reshape(-1, 1), graphs.is_pair.reshape(-1, 1)
    width = branch.shape[-1]
    sent = jnp.zeros((count * links, width)).at[pair_link].add(branch[pair_branch] * weight)
    link = graphs.links.reshape(count * links, -1) @ tree["link"] + tree["link_bias"]
    link = jax.nn.relu(link + sent @ tree["link_streams"])
    seen = link[pair_link] * there
    hops = jnp.zeros((len(branch), 1)).at[pair_branch].add(there)
    zero = jnp.zeros_like(branch)
    mean = zero.at[pair_branch].add(seen) / jnp.maximum(hops, 1)
    return mean, zero.at[pair_branch].max(seen)


def _flat(index: Ints, rows: int) -> Array:
    """`[B, N]` of rows within each graph to rows among those of all graphs."""
    begin = jnp.arange(index.shape[0])[:, None] * rows
    return (jnp.asarray(index) + begin).reshape(-1)


SHARP = 0.02
"""Errors of logarithms below this count by their square, those above by their size."""

CLOSE = 0.03
"""Logarithms of periods that differ by less than this are nearly equal to the ranking loss."""

REACHED = 1e-4
"""Periods beyond the bound by a smaller share have reached it."""

MARGIN = 0.01
"""Answers for mappings that reach the bound should be below it by so much: cut off, they are the
same, and noise makes no order among them."""

TIED = 0.005
"""Logarithms of periods that differ by no more are the same, as far as labels can tell."""

FAR = 0.1
"""Pairs that differ by more than this count fully."""


class Labels(NamedTuple):
    """Of G graphs with M mappings each, one graph after the other.

    Attributes:
        period: `[G M]`, logarithms over the bound.
        latency: `[G M]`, likewise.
        weight: `[G M]`, 0 for mappings that nothing is to be learned from.
    """

    period: Singles
    latency: Singles
    weight: Singles


def period_loss(answers: Array, labels: Labels) -> Array:
    """Mean error. Below the bound, where answers are cut off, all are the same."""
    away = answers[:, 0] - labels.period
    away = jnp.where(labels.period <= REACHED, jnp.maximum(away + MARGIN, 0.0), away)
    return _mean(_size(away), labels.weight)


def latency_loss(answers: Array, labels: Labels) -> Array:
    """Mean error."""
    return _mean(_size(answers[:, 1] - labels.latency), labels.weight)


def ranking_loss(answers: Array, labels: Labels, mappings: int) -> Array:
    """Mean over pairs of mappings of a graph: which of two is faster (RankNet, Burges 2005).

    Pairs count by how much they differ. Beside that the mean distance of the answers, cut off at
    the bound, for pairs that are the same: where one unit decides there is no order, and any
    correction that depends on where things lie would make one of noise.
    """
    guess = answers[:, 0].reshape(-1, mappings)
    period = jnp.asarray(labels.period).reshape(-1, mappings)
    weight = jnp.asarray(labels.weight).reshape(-1, mappings)
    guessed = guess[:, :, None] - guess[:, None, :]
    differ = period[:, :, None] - period[:, None, :]
    counts = jnp.minimum(jnp.maximum(differ, 0.0) / FAR, 1.0)
    counts *= weight[:, :, None] * weight[:, None, :]
    wrong = jax.nn.softplus(-guessed / CLOSE) * CLOSE
    return _mean(wrong, counts) + _mean(_between(guess), _tied(period, weight))


def _between(guess: Array) -> Array:
    """`[G, M, M]`, distances of answers that are cut off at the bound."""
    shown = jnp.maximum(guess, 0.0)
    return _size(shown[:, :, None] - shown[:, None, :], TIED)


def _tied(period: Array, weight: Array) -> Array:
    """`[G, M, M]`, 1 for pairs of which labels tell no difference, each once."""
    same = jnp.abs(period[:, :, None] - period[:, None, :]) <= TIED
    above = jnp.triu(jnp.ones(same.shape[1:]), 1)
    return same * above * weight[:, :, None] * weight[:, None, :]


def _size(away: Array, sharp: float = SHARP) -> Array:
    return jnp.sqrt(away * away + sharp * sharp) - sharp


def _mean(values: Array, weight: Array | Singles) -> Array:
    return jnp.sum(values * weight) / jnp.maximum(jnp.sum(jnp.asarray(weight)), 1e-6)


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
        FloatingPointError: where the loss is no finite number.
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
            raise FloatingPointError(
                f"the training diverges: its loss is {loss} in epoch {state.epoch + 1}; learn with "
                f"a rate below {settings.learning_rate}"
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
