"""The network in JAX, for training. Mappers use a port to compiled code, which equals it.

Messages along branches, as in the LCM paper; links that are used are nodes of their own beside
the paths, as in RouteNet (Rusek et al. 2019): what queues at a link depends on all who share it.
The layer that makes messages is a sum of parts of branch, source and target, so that the parts
of units are worked out once for all branches of a unit.
"""

from __future__ import annotations

from functools import partial
from typing import TypeAlias

import jax
import jax.numpy as jnp

from mcm_compiler.arrays.types import Ints
from mcm_models.mapping_model.graphs import PaddedGraphs
from mcm_models.mapping_model.layout import GLOBAL_COLUMNS, MappingLayout, Weights

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
