"""The network of `training` in compiled code: equal to it, without JAX.

Vectors lie along rows, `[width, N]` for N units, branches or links, so that the innermost loops run
over all of them and processors work on many at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mapping_network.feature_kernels import Seen, look
from mapping_network.layout import (
    OUTPUTS,
    STATIC_BRANCH,
    STATIC_UNIT,
    MappingLayout,
    Singles,
    Weights,
)
from mcm_compiler.arrays.kernels import entry_njit, lean_inner_njit
from mcm_compiler.arrays.types import Floats, Ints
from mcm_passes.families.fabric.formulas.analytic import Formula, Room
from mcm_passes.families.fabric.routing_trees import Routed, lay_out


class Network(NamedTuple):
    """Weights, and what of them no mapping of a problem changes.

    Attributes:
        unit_base: `[width, U]`, of op, static columns and bias.
        branch_base: `[width, L]`.
        unit: `[UNIT_MOVES, width]`.
        branch: `[BRANCH_MOVES, width]`.
        link: `[LINK_COLUMNS, width]`.
        link_streams: `[width, width]`.
        link_bias: `[width]`.
        message: `[rounds, 5, width, width]`: branch, mean link, worst link, source, target.
        message_bias: `[rounds, width]`.
        update: `[rounds, 5, width, width]`: own, mean in, worst in, mean out, worst out.
        update_bias: `[rounds, width]`.
        head_first: `[pooled, head]`.
        head_second: `[head, head]`.
        head_last: `[head, OUTPUTS]`.
        head_linear: `[GLOBAL_COLUMNS, OUTPUTS]`.
        head_bias: `[2 head + OUTPUTS]`.
        source: `[L]`, unit that each branch leaves.
        target: `[L]`.
        share_in: `[U]`, one over the branches that come to a unit; 0 for none.
        share_out: `[U]`, likewise of those that leave.
    """

    unit_base: Singles
    branch_base: Singles
    unit: Singles
    branch: Singles
    link: Singles
    link_streams: Singles
    link_bias: Singles
    message: Singles
    message_bias: Singles
    update: Singles
    update_bias: Singles
    head_first: Singles
    head_second: Singles
    head_last: Singles
    head_linear: Singles
    head_bias: Singles
    source: Ints
    target: Ints
    share_in: Singles
    share_out: Singles


class Vectors(NamedTuple):
    """Room for a network's vectors.

    Attributes:
        units: `[width, U]`.
        branches: `[width, L]`.
        links: `[width, 4 * switches]`.
        sent: as large.
        mean_link: `[width, L]`.
        worst_link: `[width, L]`.
        message: `[width, L]`.
        ends: `[2, width, U]`, parts of messages by source and by target.
        flows: `[4, width, U]`, mean and maximum of messages in and out.
        mixed: `[width, U]`.
        pooled: `[pooled]`.
        hidden: `[2, head]`.
        out: `[OUTPUTS]`.
    """

    units: Singles
    branches: Singles
    links: Singles
    sent: Singles
    mean_link: Singles
    worst_link: Singles
    message: Singles
    ends: Singles
    flows: Singles
    mixed: Singles
    pooled: Singles
    hidden: Singles
    out: Singles


MESSAGE = ("branch", "mean_link", "worst_link", "source", "target")
_PLAIN = (
    *("link", "link_streams", "link_bias", "message_bias", "update_bias"),
    *("head_first", "head_second", "head_last", "head_linear"),
)
"""Weights that a network has under the same names, as they are."""

UPDATE = ("own", "mean_in", "worst_in", "mean_out", "worst_out")


def network_for(
    weights: Weights, op: Ints, features: tuple[Singles, Singles], ends: tuple[Ints, Ints]
) -> Network:
    """Weights with a problem in mind.

    Args:
        weights: of `MappingLayout.shapes`.
        op: `[U]`.
        features: static features, `[U, STATIC_UNIT]` and `[L, STATIC_BRANCH]`.
        ends: `[L]` twice, unit that each branch leaves, and unit that it goes to.
    """
    source, target = ends
    unit_base = weights["op"][op] + features[0] @ weights["unit"][:STATIC_UNIT]
    branch_base = features[1] @ weights["branch"][:STATIC_BRANCH]
    into, out = np.bincount(target, minlength=len(op)), np.bincount(source, minlength=len(op))
    bias = [weights[f"head_{name}_bias"] for name in ("first", "second", "last")]
    return Network(
        unit_base=_own((unit_base + weights["unit_bias"]).T),
        branch_base=_own((branch_base + weights["branch_bias"]).T),
        unit=_own(weights["unit"][STATIC_UNIT:]),
        branch=_own(weights["branch"][STATIC_BRANCH:]),
        message=_own(np.stack([weights[f"message_{name}"] for name in MESSAGE], axis=1)),
        update=_own(np.stack([weights[f"update_{name}"] for name in UPDATE], axis=1)),
        head_bias=_own(np.concatenate(bias)),
        source=source.astype(np.int32),
        target=target.astype(np.int32),
        share_in=_own(np.where(into > 0, 1 / np.maximum(into, 1), 0)),
        share_out=_own(np.where(out > 0, 1 / np.maximum(out, 1), 0)),
        **{name: _own(weights[name]) for name in _PLAIN},
    )


def vectors_for(layout: MappingLayout, network: Network, links: int) -> Vectors:
    """Arrays of the right sizes; `links` is four times the switches."""
    width, units = network.unit_base.shape
    leaves = len(network.source)

    shapes = (
        *((width, units), (width, leaves), (width, links), (width, links)),
        *((width, leaves), (width, leaves), (width, leaves)),
        *((2, width, units), (4, width, units), (width, units)),
        *((layout.pooled,), (2, layout.head), (OUTPUTS,)),
    )
    return Vectors(*(np.zeros(shape, np.float32) for shape in shapes))


@lean_inner_njit
def answer(network: Network, seen: Seen, room: Vectors) -> None:
    """Writes the logarithms of period and latency over the bound to `room.out`."""
    _embed(network, seen, room)
    _links(network, seen, room)
    for number in range(len(network.message_bias)):
        _send(network, room, number)
        _update(network, room, number)
    _pool(seen, room)
    _head(network, seen, room)


@lean_inner_njit
def _product(matrix: Singles, rows: Singles, out: Singles, count: int) -> None:
    """Adds `matrix.T @ rows` to `out`, of the first `count` columns alone."""
    for j in range(matrix.shape[1]):
        for i in range(matrix.shape[0]):
            weight = matrix[i, j]
            for k in range(count):
                out[j, k] += weight * rows[i, k]


@lean_inner_njit
def _relu(rows: Singles, count: int) -> None:
    for j in range(len(rows)):
        for k in range(count):
            rows[j, k] = max(rows[j, k], np.float32(0))


@lean_inner_njit
def _copy(rows: Singles, out: Singles) -> None:
    for j in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            out[j, k] = rows[j, k]


@lean_inner_njit
def _embed(network: Network, seen: Seen, room: Vectors) -> None:
    units, leaves = room.units.shape[1], room.branches.shape[1]
    _copy(network.unit_base, room.units)
    _product(network.unit, seen.units, room.units, units)
    _relu(room.units, units)
    _copy(network.branch_base, room.branches)
    _product(network.branch, seen.branches, room.branches, leaves)
    _relu(room.branches, leaves)


@lean_inner_njit
def _links(network: Network, seen: Seen, room: Vectors) -> None:
    """What links hold, and mean and maximum of that on the way of each branch."""
    count, leaves, ptr = seen.sizes[0], room.branches.shape[1], seen.pair_ptr
    links, sent = room.links, room.sent
    for j in range(len(links)):
        for k in range(count):
            links[j, k] = network.link_bias[j]
            sent[j, k] = 0
        for b in range(leaves):
            vector = room.branches[j, b]
            for p in range(ptr[b], ptr[b + 1]):
                sent[j, seen.pair_link[p]] += seen.pair_weight[p] * vector
    _product(network.link, seen.links, links, count)
    _product(network.link_streams, sent, links, count)
    _relu(links, count)
    for j in range(len(links)):
        for b in range(leaves):
            total, most = np.float32(0), np.float32(0)
            for p in range(ptr[b], ptr[b + 1]):
                value = links[j, seen.pair_link[p]]
                total += value
                most = max(most, value)
            room.mean_link[j, b] = total / np.float32(max(ptr[b + 1] - ptr[b], 1))
            room.worst_link[j, b] = most


@lean_inner_njit
def _send(network: Network, room: Vectors, number: int) -> None:
    """Messages along all branches, which branches remember."""
    units, leaves = room.units.shape[1], room.branches.shape[1]
    weights, message, ends = network.message[number], room.message, room.ends
    ends[:] = 0
    _product(weights[3], room.units, ends[0], units)
    _product(weights[4], room.units, ends[1], units)
    for j in range(len(message)):
        for b in range(leaves):
            message[j, b] = (
                network.message_bias[number, j]
                + ends[0, j, network.source[b]]
                + ends[1, j, network.target[b]]
            )
    _product(weights[0], room.branches, message, leaves)
    _product(weights[1], room.mean_link, message, leaves)
    _product(weights[2], room.worst_link, message, leaves)
    _relu(message, leaves)
    for j in range(len(message)):
        for b in range(leaves):
            room.branches[j, b] += message[j, b]


@lean_inner_njit
def _update(network: Network, room: Vectors, number: int) -> None:
    """Units take up what was sent to them, and what they sent."""
    units, leaves = room.units.shape[1], room.branches.shape[1]
    flows, mixed, message = room.flows, room.mixed, room.message
    flows[:] = 0
    for j in range(len(message)):
        for b in range(leaves):
            value, source, target = message[j, b], network.source[b], network.target[b]
            flows[0, j, target] += value
            flows[1, j, target] = max(flows[1, j, target], value)
            flows[2, j, source] += value
            flows[3, j, source] = max(flows[3, j, source], value)
        for u in range(units):
            flows[0, j, u] *= network.share_in[u]
            flows[2, j, u] *= network.share_out[u]
            mixed[j, u] = network.update_bias[number, j]
    weights = network.update[number]
    _product(weights[0], room.units, mixed, units)
    for part in range(4):
        _product(weights[part + 1], flows[part], mixed, units)
    _relu(mixed, units)
    for j in range(len(mixed)):
        for u in range(units):
            room.units[j, u] += mixed[j, u]


@lean_inner_njit
def _pool(seen: Seen, room: Vectors) -> None:
    pooled, width = room.pooled, len(room.units)
    for j in range(width):
        total, most = np.float32(0), np.float32(0)
        for u in range(room.units.shape[1]):
            total += room.units[j, u]
            most = max(most, room.units[j, u])
        pooled[j] = total / np.float32(room.units.shape[1])
        pooled[width + j] = most
        total, most = np.float32(0), np.float32(0)
        for b in range(room.branches.shape[1]):
            total += room.branches[j, b]
            most = max(most, room.branches[j, b])
        pooled[2 * width + j] = total / np.float32(room.branches.shape[1])
        pooled[3 * width + j] = most
    for j in range(len(seen.whole)):
        pooled[4 * width + j] = seen.whole[j]


@lean_inner_njit
def _head(network: Network, seen: Seen, room: Vectors) -> None:
    first, second, out, bias = room.hidden[0], room.hidden[1], room.out, network.head_bias
    head = len(first)
    for j in range(head):
        first[j] = bias[j]
        second[j] = bias[head + j]
    for j in range(len(out)):
        out[j] = bias[2 * head + j]
    _row_product(room.pooled, network.head_first, first)
    for j in range(head):
        first[j] = max(first[j], np.float32(0))
    _row_product(first, network.head_second, second)
    for j in range(head):
        second[j] = max(second[j], np.float32(0))
    _row_product(second, network.head_last, out)
    _row_product(seen.whole, network.head_linear, out)
    out[0] += seen.whole[0]


@lean_inner_njit
def _row_product(row: Singles, matrix: Singles, out: Singles) -> None:
    for i in range(len(row)):
        for j in range(len(out)):
            out[j] += row[i] * matrix[i, j]


class Evaluation(NamedTuple):
    """All that evaluating mappings of a problem needs; kernels write to parts of it.

    Attributes:
        formula: with round trips.
        network: see there.
        stages: of the problem.
        state: the mapping at hand.
        room: of the formula.
        seen: see there.
        vectors: see there.
    """

    formula: Formula
    network: Network
    stages: int
    state: Routed
    room: Room
    seen: Seen
    vectors: Vectors


@entry_njit
def answer_all(evaluation: Evaluation, site: Ints, turn: Ints, answers: Floats) -> None:
    """Fills `answers[B, 4]`: both logarithms, mean load of links, logarithm of the formula.

    All are over the bound.
    """
    state, seen = evaluation.state, evaluation.seen
    terms = evaluation.room.terms
    for k in range(len(site)):
        lay_out(evaluation.formula.tables, state, site[k], turn[k])
        look(evaluation.formula, evaluation.stages, state, evaluation.room, seen)
        answer(evaluation.network, seen, evaluation.vectors)
        answers[k, 0] = evaluation.vectors.out[0]
        answers[k, 1] = evaluation.vectors.out[1]
        answers[k, 2] = terms[len(terms) - 1] / terms[0]
        answers[k, 3] = seen.whole[0]


@entry_njit
def look_at(evaluation: Evaluation, site: Ints, turn: Ints) -> None:
    """Fills what is seen of one mapping, `site[U]` and `turn[E]`."""
    formula, state = evaluation.formula, evaluation.state
    lay_out(formula.tables, state, site, turn)
    look(formula, evaluation.stages, state, evaluation.room, evaluation.seen)


def _own(array: np.ndarray) -> Singles:
    """Kernels are compiled for contiguous arrays that may be written alone."""
    return np.array(array, np.float32, order="C")
