"""The network of the LCM paper: it sees units and routes of a mapping, and no formula.

Nodes are units, with the kind of their site one-hot, a learned embedding of their op, and one of
their stage. Edges are routes from a unit to one destination, with their lengths along rows and
columns and their turn. Each layer updates edges from both ends, and nodes from their edges. Means
and maxima of nodes and edges go to a perceptron of three layers, whose output is the throughput
over that of the bound. The paper leaves widths, aggregation and loss open: here they are 32, means
and the squared error.

*Annotations* are further columns that depend on the block alone: work of units, and flits and
destinations of streams.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax

from mcm_compiler.arrays.types import Floats, Ints, Longs
from mcm_compiler.contracts.fabrics.fabric import KINDS, OP_KINDS, Fabric
from mcm_models.cards import normal_weights
from mcm_models.mapping_model.data_set import MappingData, MeasuredGraph
from mcm_passes.families.fabric.learning.mapping_trainer import LEARNED_ERROR, exact

Tree = dict[str, jax.Array]
"""Weights by name."""

MOST_STAGES = 16
"""Rows of the embedding of stages; later stages share the last one."""

UNIT_ANNOTATIONS, ROUTE_ANNOTATIONS, ROUTE_COLUMNS = 4, 2, 4

LEAST = 0.02
"""Answers below this share of the bound's throughput are cut off: no label is below."""


@dataclass(frozen=True)
class PublishedSettings:
    """Size of the network, its inputs, and its training.

    Attributes:
        width: of the vectors of nodes and edges, and of the perceptron.
        layers: of messages.
        embedding: width of both embeddings.
        epochs: passes over all graphs.
        rate: learning rate of Adam; falls to a hundredth along a cosine.
        graphs: of a batch.
        mappings: of each graph in a batch.
        nodes: whether it sees op and stage of units.
        edges: whether it sees columns of routes.
        annotations: whether it sees work of units and flits of routes.
    """

    width: int = 32
    layers: int = 3
    embedding: int = 8
    epochs: int = 40
    rate: float = 3e-3
    graphs: int = 4
    mappings: int = 7
    nodes: bool = True
    edges: bool = True
    annotations: bool = False

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every weight."""
        width, layers, own = self.width, self.layers, self.embedding
        inputs = len(KINDS) + 2 * own + UNIT_ANNOTATIONS
        return {
            "op": (len(OP_KINDS), own),
            "stage": (MOST_STAGES, own),
            "unit": (inputs, width),
            "unit_bias": (width,),
            "route": (ROUTE_COLUMNS + ROUTE_ANNOTATIONS, width),
            "route_bias": (width,),
            "edge_own": (layers, width, width),
            "edge_source": (layers, width, width),
            "edge_target": (layers, width, width),
            "edge_bias": (layers, width),
            "node_own": (layers, width, width),
            "node_in": (layers, width, width),
            "node_out": (layers, width, width),
            "node_bias": (layers, width),
            "first": (4 * width, width),
            "first_bias": (width,),
            "second": (width, width),
            "second_bias": (width,),
            "third": (width, 1),
            "third_bias": (1,),
        }


class PlacedGraph(NamedTuple):
    """One block of U units and L routes, in M mappings.

    Attributes:
        op: `[U]`.
        stage: `[U]`.
        unit: `[U, 3 + UNIT_ANNOTATIONS]`, kind one-hot and annotations.
        source: `[L]`, unit that each route leaves.
        target: `[L]`, unit that it leads to.
        route: `[L, M, ROUTE_COLUMNS + ROUTE_ANNOTATIONS]`.
        speed: `[M]`, measured throughput over that of the bound.
        weight: `[M]`, 0 for labels that are too uncertain to learn from.
    """

    op: Ints
    stage: Ints
    unit: np.ndarray
    source: Ints
    target: Ints
    route: np.ndarray
    speed: Floats
    weight: Floats


class Batch(NamedTuple):
    """G graphs in M mappings, padded to U units and L routes each, one after the other.

    Attributes:
        op: `[G U]`.
        stage: `[G U]`.
        unit: `[G U, columns]`.
        is_unit: `[G, U]`, 0 for padding.
        source: `[G L]`, rows of units.
        target: `[G L]`, rows of units.
        route: `[G L, M, columns]`.
        is_route: `[G, L]`, 0 for padding.
        speed: `[G, M]`.
        weight: `[G, M]`.
    """

    op: np.ndarray
    stage: np.ndarray
    unit: np.ndarray
    is_unit: np.ndarray
    source: np.ndarray
    target: np.ndarray
    route: np.ndarray
    is_route: np.ndarray
    speed: np.ndarray
    weight: np.ndarray


def placed_graphs(data: MappingData, settings: PublishedSettings) -> list[PlacedGraph]:
    """Inputs and labels of all graphs."""
    return [_placed(data.fabric, graph, settings) for graph in data.graphs]


def _placed(fabric: Fabric, graph: MeasuredGraph, settings: PublishedSettings) -> PlacedGraph:
    problem, mappings = graph.problem, graph.mappings
    stream = problem.stream_of_leaf
    source, target = problem.source[stream], problem.leaf
    row, col = np.divmod(fabric.switch[mappings.site], fabric.cols)
    down = np.abs(row[:, target] - row[:, source]) / fabric.rows
    along = np.abs(col[:, target] - col[:, source]) / fabric.cols
    lengths = (down, along, down + along, mappings.turn[:, stream])
    routes = np.stack([column.T for column in lengths], axis=2)
    width = np.diff(problem.leaf_ptr)[stream]
    flits = np.log(problem.flits[stream])
    of_route = np.stack([flits / 10, np.log(width) / 3], axis=1)[:, None]
    of_route = np.broadcast_to(of_route, (*routes.shape[:2], ROUTE_ANNOTATIONS))
    counts = (problem.firings, problem.cycles, problem.burst, problem.depth)
    of_unit = np.stack([np.log1p(count) / 8 for count in counts], axis=1)
    kind = np.eye(len(KINDS))[problem.kind]
    unit = np.concatenate([kind, settings.annotations * of_unit], axis=1)
    route = np.concatenate([routes, settings.annotations * of_route], axis=2)
    return PlacedGraph(
        problem.op * settings.nodes,
        np.minimum(problem.stage, MOST_STAGES - 1) * settings.nodes,
        unit.astype(np.float32) * settings.nodes,
        source,
        target,
        route.astype(np.float32) * settings.edges,
        np.minimum(graph.bound_cycles / graph.period_cycles, 1.0),
        (graph.error <= LEARNED_ERROR).astype(np.float64),
    )


@partial(jax.jit, static_argnames=("layers",))
def speeds(layers: int, weights: Tree, batch: Batch) -> jax.Array:
    """`[G, M]`, throughput over that of the bound, not cut off."""
    graphs, units = batch.is_unit.shape
    count = batch.route.shape[1]
    is_unit = batch.is_unit.reshape(-1, 1, 1)
    is_route = batch.is_route.reshape(-1, 1, 1)
    seen = jnp.concatenate(
        [weights["op"][batch.op], weights["stage"][batch.stage], batch.unit], axis=1
    )
    node = jax.nn.relu(seen @ weights["unit"] + weights["unit_bias"])
    node = jnp.repeat(node[:, None], count, axis=1) * is_unit
    edge = jax.nn.relu(batch.route @ weights["route"] + weights["route_bias"]) * is_route
    none = jnp.zeros((graphs * units, 1, 1))
    arriving = jnp.maximum(none.at[batch.target].add(is_route), 1)
    leaving = jnp.maximum(none.at[batch.source].add(is_route), 1)
    for k in range(layers):
        sent, taken = node @ weights["edge_source"][k], node @ weights["edge_target"][k]
        mixed = edge @ weights["edge_own"][k] + weights["edge_bias"][k]
        mixed += sent[batch.source] + taken[batch.target]
        edge += jax.nn.relu(mixed) * is_route
        zero = jnp.zeros_like(node)
        mixed = node @ weights["node_own"][k] + weights["node_bias"][k]
        mixed += (zero.at[batch.target].add(edge) / arriving) @ weights["node_in"][k]
        mixed += (zero.at[batch.source].add(edge) / leaving) @ weights["node_out"][k]
        node += jax.nn.relu(mixed) * is_unit
    node, edge = (each.reshape(graphs, -1, count, each.shape[-1]) for each in (node, edge))
    pooled = jnp.concatenate(
        [
            node.sum(axis=1) / batch.is_unit.sum(axis=1)[:, None, None],
            node.max(axis=1),
            edge.sum(axis=1) / batch.is_route.sum(axis=1)[:, None, None],
            edge.max(axis=1),
        ],
        axis=2,
    )
    hidden = jax.nn.relu(pooled @ weights["first"] + weights["first_bias"])
    hidden = jax.nn.relu(hidden @ weights["second"] + weights["second_bias"])
    return (hidden @ weights["third"] + weights["third_bias"])[..., 0]


@partial(jax.jit, static_argnames=("layers",))
def _step(
    layers: int, rate: jax.Array, weights: Tree, optimizer: Any, batch: Batch
) -> tuple[Tree, Any, jax.Array]:
    def loss_of(weights: Tree) -> jax.Array:
        away = speeds(layers, weights, batch) - batch.speed
        return jnp.sum(away * away * batch.weight) / jnp.maximum(jnp.sum(batch.weight), 1)

    loss, gradient = jax.value_and_grad(loss_of)(weights)
    change, optimizer = _adam(rate).update(gradient, optimizer, weights)
    return cast("Tree", optax.apply_updates(weights, change)), optimizer, loss


def _adam(rate: Any) -> optax.GradientTransformation:
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adam(rate))


def trained(
    settings: PublishedSettings, graphs: Sequence[PlacedGraph], known: Sequence[int], seed: int
) -> tuple[Tree, list[float]]:
    """Weights and the mean loss of each epoch; equal arguments give equal weights.

    Args:
        settings: of the training.
        graphs: all; those that are not known only decide how batches are padded.
        known: the ones to learn from.
        seed: of first weights and of the order of graphs and mappings.
    """
    parts, learned = _buckets(graphs), np.array(known)
    weights: Tree = {
        name: jnp.asarray(array)
        for name, array in normal_weights(settings.shapes, seed, _deviation).items()
    }
    optimizer = _adam(0.0).init(weights)
    losses: list[float] = []
    for epoch in range(settings.epochs):
        rng = np.random.default_rng([seed, epoch])
        rate = settings.rate * (0.01 + 0.495 * (1 + math.cos(math.pi * epoch / settings.epochs)))
        batches: list[tuple[Longs, tuple[int, int]]] = []
        for members, shape in parts:
            order = rng.permutation(members[np.isin(members, learned)])
            order = np.resize(order, -(-len(order) // settings.graphs) * settings.graphs)
            batches += [(some, shape) for some in order.reshape(-1, settings.graphs)]
        found: list[jax.Array] = []
        for place in rng.permutation(len(batches)).tolist():
            some, shape = batches[place]
            drawn = [_drawn(graphs[k], settings.mappings, rng) for k in some.tolist()]
            weights, optimizer, loss = _step(
                settings.layers, jnp.float32(rate), weights, optimizer, padded(drawn, shape)
            )
            found.append(loss)
        losses.append(float(np.mean([float(loss) for loss in found])))
    return weights, losses


def _deviation(name: str, shape: tuple[int, ...]) -> float | None:
    if name.endswith("bias"):
        return None
    if name in {"op", "stage"}:
        return 1.0
    added = 3.0 if name.startswith(("edge", "node")) else 1.0
    return math.sqrt(2.0 / (added * shape[-2]))


def answered(
    settings: PublishedSettings, weights: Tree, data: MappingData, graphs: Sequence[PlacedGraph]
) -> dict[int, Floats]:
    """Periods of the mappings with exact labels of all graphs, by graph."""
    found: dict[int, Floats] = {}
    for members, shape in _buckets(graphs):
        order = np.resize(members, -(-len(members) // settings.graphs) * settings.graphs)
        for some in order.reshape(-1, settings.graphs).tolist():
            batch = padded([graphs[k] for k in some], shape)
            speed = np.asarray(speeds(settings.layers, weights, batch), np.float64)
            for k, row in zip(some, np.clip(speed, LEAST, 1.0), strict=True):
                found[k] = data.graphs[k].bound_cycles / row[exact(data.graphs[k])]
    return found


BUCKETS = 4


def _buckets(graphs: Sequence[PlacedGraph]) -> list[tuple[Longs, tuple[int, int]]]:
    """Graphs of similar size, and the units and routes that they are padded to."""
    sizes = np.array([(len(graph.op), len(graph.source)) for graph in graphs])
    found: list[tuple[Longs, tuple[int, int]]] = []
    for members in np.array_split(np.argsort(sizes.sum(axis=1), kind="stable"), BUCKETS):
        units, routes = sizes[members].max(axis=0).tolist()
        found.append((members, (units, routes)))
    return found


def _drawn(graph: PlacedGraph, count: int, rng: np.random.Generator) -> PlacedGraph:
    rows = np.resize(rng.permutation(len(graph.speed)), count)
    return graph._replace(
        route=graph.route[:, rows], speed=graph.speed[rows], weight=graph.weight[rows]
    )


def padded(graphs: Sequence[PlacedGraph], shape: tuple[int, int]) -> Batch:
    """Graphs as one batch of so many units and routes each."""
    units, routes = shape
    count = len(graphs)
    begin = np.arange(count)[:, None] * units

    def rows(name: str, size: int) -> np.ndarray:
        arrays = [getattr(graph, name) for graph in graphs]
        dtype = np.int32 if arrays[0].dtype.kind == "i" else np.float32
        out = np.zeros((count, size, *arrays[0].shape[1:]), dtype)
        for row, array in zip(out, arrays, strict=True):
            row[: len(array)] = array
        return out

    def there(name: str, size: int) -> np.ndarray:
        lengths = np.array([len(getattr(graph, name)) for graph in graphs])
        return (np.arange(size) < lengths[:, None]).astype(np.float32)

    unit, route = rows("unit", units), rows("route", routes)
    return Batch(
        op=rows("op", units).reshape(-1),
        stage=rows("stage", units).reshape(-1),
        unit=unit.reshape(-1, unit.shape[-1]),
        is_unit=there("op", units),
        source=(rows("source", routes) + begin).reshape(-1).astype(np.int32),
        target=(rows("target", routes) + begin).reshape(-1).astype(np.int32),
        route=route.reshape(-1, *route.shape[2:]),
        is_route=there("source", routes),
        speed=np.stack([graph.speed for graph in graphs]).astype(np.float32),
        weight=np.stack([graph.weight for graph in graphs]).astype(np.float32),
    )
