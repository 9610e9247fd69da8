"""A model as a chain: its ops in graph order, and what each costs and leaves behind.

Cutting the chain anywhere gives a valid pipeline, since graph order is topological: what crosses a
cut is sent from stage to stage.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.cluster import ClusterTarget
from mcm_compiler.contracts.cost import CostModel
from mcm_compiler.graph.constants import chain_nodes, constant_values
from mcm_models.pipelines.problem import Floats, PipelineProblem, Schedule, device_row
from mcm_passes.parallelism.decisions.step_cost import BACKWARD_PER_FORWARD

CHEAP_TIME, CHEAP_WEIGHTS = 1e-2, 1e-4
"""A value is computed again on every stage, and not sent, if all that it is computed from takes at
most these shares of the model's time and of its weights: masks and position biases."""

CHEAP_NODES = 64
"""Ops that such a value is computed by, at most."""

_VIEWS = frozenset({"Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"})
_SHAPES_ONLY = frozenset({"Shape", "Size"})

_NEEDS_INPUTS = frozenset(
    {"MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum", "Mul", "Div", "Pow", "Log", "Erf", "Gelu"}
    | {"LayerNormalization", "RMSNormalization", "BatchNormalization", "MaxPool", "Attention"}
)
"""Ops whose gradient is computed from what they read."""

_NEEDS_OUTPUTS = frozenset(
    {"Softmax", "LogSoftmax", "Sigmoid", "Tanh", "Relu", "Exp", "Sqrt", "Reciprocal", "MaxPool"}
)
"""Ops whose gradient is computed from what they write."""


@dataclass(frozen=True, eq=False)
class NodeChain:
    """A model's ops in order.

    Attributes:
        names: `[N]`, names of the ops.
        forward_s: `[N]`, seconds on one device.
        cut_bytes: `[N + 1]`, activations that cross the cut before each op.
        weight_bytes: `[N]`, weights that each op reads. One that several read counts at each: it
            may have to be on several stages.
        kept_bytes: `[N]`, results that backward passes need.
        articulation unit: `[N + 1]`, whether exactly one activation crosses, but for those that
        live long.
        readers: `[N + 1]`, how many ops read the activation that crosses an articulation unit.
    """

    names: tuple[str, ...]
    forward_s: Floats
    cut_bytes: Floats
    weight_bytes: Floats
    kept_bytes: Floats
    articulation: np.ndarray
    readers: np.ndarray


def node_chain(model: ir.Model, cost_model: CostModel) -> NodeChain:
    """The chain of a model, with the costs that a device has.

    Args:
        model: static shapes, as imported; its batch is the micro-batch.
        cost_model: of one device.
    """
    constant = constant_values(model.graph)
    nodes = chain_nodes(model, constant)
    place = {node: index for index, node in enumerate(nodes)}
    forward = np.array([cost_model.node_cost(node).seconds for node in nodes])
    weights = np.zeros(len(nodes))
    for index, node in enumerate(nodes):
        read = {v for v in node.inputs if v is not None and v in constant and _is_weight(v)}
        weights[index] = sum(cost_model.storage_bytes(v) for v in read)
    sent = _sent_values(nodes, constant, forward, weights)
    cut_bytes, count, readers = _crossings(nodes, place, sent, cost_model)
    return NodeChain(
        names=tuple(node.name or "" for node in nodes),
        forward_s=forward,
        cut_bytes=cut_bytes,
        weight_bytes=weights,
        kept_bytes=_kept_bytes(nodes, constant, cost_model),
        articulation=count == 1,
        readers=readers,
    )


def _is_weight(value: ir.Value) -> bool:
    """Return whether a constant is learned: stored, floating-point, and more than a single number.

    Where a model has shapes only, `ConstantOfShape` stands for what is stored.
    """
    producer = value.producer()
    return (
        (producer is None or producer.op_type == "ConstantOfShape")
        and value.dtype is not None
        and value.dtype.is_floating_point()
        and value.shape is not None
        and value.shape.is_static()
        and math.prod(value.shape.numpy()) > 1
    )


def _sent_values(
    nodes: Sequence[ir.Node], constant: Set[ir.Value], forward: Floats, weights: Floats
) -> dict[ir.Value, None]:
    """Results that are sent over cuts, in order.

    Not sent are constants, what depends on shapes alone, and what is cheap to compute again from
    the inputs of the model, which every stage can be fed.
    """
    most_s, most_bytes = CHEAP_TIME * forward.sum(), CHEAP_WEIGHTS * weights.sum()
    cones: dict[ir.Value, frozenset[int]] = {}
    sent: dict[ir.Value, None] = {}
    for index, node in enumerate(nodes):
        inputs = [v for v in node.inputs if v is not None and v not in constant]
        cone: frozenset[int] | None = frozenset({index})
        if node.op_type not in _SHAPES_ONLY:
            for value in inputs:
                if value in sent:
                    cone = None
                    break
                cone = cone | cones.get(value, frozenset())
        if cone is not None:
            members = list(cone)
            if (
                len(members) > CHEAP_NODES
                or forward[members].sum() > most_s
                or weights[members].sum() > most_bytes
            ):
                cone = None
        for value in node.outputs:
            if value in constant:
                continue
            if cone is None:
                sent[value] = None
            else:
                cones[value] = cone
    return sent


def _crossings(
    nodes: Sequence[ir.Node],
    place: Mapping[ir.Node, int],
    sent: Mapping[ir.Value, None],
    cost_model: CostModel,
) -> tuple[Floats, np.ndarray, np.ndarray]:
    """Bytes at each cut, values that do not live long, and readers of the youngest of those."""
    size = len(nodes)
    steps, short = np.zeros(size + 2), np.zeros(size + 2, np.int64)
    readers = np.zeros(size + 1, np.int64)
    for value in sent:
        uses = [place[use.node] for use in value.uses() if use.node in place]
        producer = value.producer()
        if not uses or producer is None:
            continue
        start, end = place[producer] + 1, max(uses)
        steps[start] += cost_model.storage_bytes(value)
        steps[end + 1] -= cost_model.storage_bytes(value)
        if end - start <= size // 4 or len(uses) < 4:
            short[start] += 1
            short[end + 1] -= 1
            readers[start : end + 1] = len(uses)
    cut_bytes = np.cumsum(steps)[: size + 1]
    return np.maximum(cut_bytes, 0.0), np.cumsum(short)[: size + 1], readers


def _kept_bytes(nodes: Sequence[ir.Node], constant: Set[ir.Value], cost_model: CostModel) -> Floats:
    """Bytes of the results of each op that gradients are computed from; each counts once."""
    behind: dict[ir.Value, ir.Value] = {}
    needed: set[ir.Value] = set()
    for node in nodes:
        if node.op_type in _VIEWS and node.inputs[0] is not None:
            source = node.inputs[0]
            behind[node.outputs[0]] = behind.get(source, source)
            continue
        if node.op_type in _NEEDS_INPUTS:
            needed.update(behind.get(v, v) for v in node.inputs if v is not None)
        if node.op_type in _NEEDS_OUTPUTS:
            needed.update(node.outputs)
    kept = np.zeros(len(nodes))
    for index, node in enumerate(nodes):
        for value in node.outputs:
            if value in needed and value not in constant:
                kept[index] += cost_model.storage_bytes(value)
    return kept


MAX_PERIOD = 256
"""Segments of a layer, at most."""

MIN_SHARE = 0.05
"""Share of the model's time from which on a repeated stretch counts as layers."""


def layer_boundaries(model: ir.Model, chain: NodeChain) -> tuple[int, ...]:
    """Cuts between layers, and behind the last layer of each stack: positions in the chain.

    The k-th of them (from 1) is the cut after layer k. The end of the last layer is left out.
    """
    nodes = chain_nodes(model)
    articulation_units = np.flatnonzero(chain.articulation)
    if len(articulation_units) < 2:
        return ()
    ends = [0, *(int(w) for w in articulation_units), len(nodes)]
    tokens = [
        hash(tuple(_signature(node) for node in nodes[start:end])) for start, end in pairwise(ends)
    ]
    seconds = np.array([chain.forward_s[start:end].sum() for start, end in pairwise(ends)])
    cuts: list[int] = []
    _, numbers = np.unique(tokens, return_inverse=True)
    _collect(numbers, seconds, np.array(ends), chain.readers, 0, len(numbers), cuts)
    return tuple(sorted(cuts))[:-1]


def _signature(node: ir.Node) -> tuple[Any, ...]:
    shapes = tuple(
        tuple(v.shape) if v is not None and v.shape is not None else None for v in node.inputs
    )
    return node.domain, node.op_type, shapes


def _collect(
    tokens: np.ndarray,
    seconds: np.ndarray,
    ends: np.ndarray,
    readers: np.ndarray,
    low: int,
    high: int,
    cuts: list[int],
) -> None:
    """Adds the ends of the layers of the costliest repeated stretch, and of what is next to it."""
    found = _costliest_stretch(tokens[low:high], seconds[low:high])
    if found is None or found[2] < MIN_SHARE * seconds.sum():
        return
    start, stop, period = low + found[0], low + found[1], found[3]
    # The stretch may begin with the tail of what stands before the first layer. A layer begins
    # where the residual stream forks, so at the activation that most ops read.
    phases = range(start, min(start + period, stop - 2 * period + 1))
    start = max(phases, key=lambda s: (int(readers[ends[s]]), -s))
    cuts.extend(int(ends[s]) for s in range(start + period, stop + 1, period))
    _collect(tokens, seconds, ends, readers, low, start, cuts)
    _collect(tokens, seconds, ends, readers, stop, high, cuts)


def _costliest_stretch(
    tokens: np.ndarray, seconds: np.ndarray
) -> tuple[int, int, float, int] | None:
    """First and one past the last segment, seconds and period of the costliest repetition."""
    prefix = np.concatenate([[0.0], np.cumsum(seconds)])
    best: tuple[int, int, float, int] | None = None
    for period in range(1, min(MAX_PERIOD, len(tokens) // 2) + 1):
        for first, last in _runs(tokens[period:] == tokens[:-period]):
            stop = last + period
            if last - first < period:
                continue
            cost = float(prefix[stop] - prefix[first])
            if best is None or cost > best[2] * (1 + 1e-9):
                best = first, stop, cost, period
    return best


def _runs(flags: np.ndarray) -> Sequence[tuple[int, int]]:
    """First and one past the last of each run of True."""
    edges = np.diff(np.concatenate([[0], flags.astype(np.int8), [0]]))
    return list(
        zip(np.flatnonzero(edges == 1).tolist(), np.flatnonzero(edges == -1).tolist(), strict=True)
    )


Optimizer = Literal["sgd", "momentum", "adam", "adafactor"]

STATE_PER_WEIGHT = {"sgd": 0.0, "momentum": 1.0, "adam": 2.0, "adafactor": 0.0}
"""Optimiser state in multiples of the weights: none, a velocity, two moments (Kingma and Ba 2015),
or rows and columns of factored moments, which are negligible (Shazeer and Stern 2018)."""


@dataclass(frozen=True)
class PipelineSettings:
    """How the model is run.

    Attributes:
        stages: stages of the pipeline; None for one per server.
        micro_batches: micro-batches of an iteration; the model's own batch is one of them.
        training: forward and backward passes with a reduction of gradients.
        optimizer: whose state is on the devices.
        schedule: see `Schedule`.
        recompute: see `PipelineProblem`.
    """

    stages: int | None = None
    micro_batches: int = 16
    training: bool = True
    optimizer: Optimizer = "adam"
    schedule: Schedule = "1f1b"
    recompute: bool = True


@dataclass(frozen=True, eq=False)
class ModelPipelining:
    """A model prepared for pipeline planning.

    Attributes:
        chain: its ops in order.
        boundaries: cuts after layer 1, 2, ... as positions in the chain; empty where no layers
            repeat.
        problem: what is decided; every op is a part.
    """

    chain: NodeChain
    boundaries: tuple[int, ...]
    problem: PipelineProblem

    def layers(self, cuts: tuple[int, ...]) -> tuple[int, ...]:
        """Layers before each cut, to the nearest layer boundary."""
        ends = np.array([0, *self.boundaries, len(self.chain.names)])
        return tuple(int(np.argmin(np.abs(ends - p))) for p in cuts)


def prepare(model: ir.Model, target: ClusterTarget, settings: PipelineSettings) -> ModelPipelining:
    """The chain, the layers and the problem of a model on a cluster."""
    chain = node_chain(model, target.cost_model())
    again = 1.0 if settings.recompute else 0.0
    copies = 2.0 + STATE_PER_WEIGHT[settings.optimizer] if settings.training else 1.0
    crossing = chain.cut_bytes.copy()
    crossing[[0, -1]] = 0.0
    problem = PipelineProblem(
        forward_s=chain.forward_s,
        backward_s=chain.forward_s * (BACKWARD_PER_FORWARD + again) * settings.training,
        cut_bytes=crossing,
        weight_bytes=chain.weight_bytes,
        state_bytes=chain.weight_bytes * copies,
        kept_bytes=chain.kept_bytes,
        devices=device_row(target.cluster),
        stages=settings.stages or target.cluster.servers,
        micro_batches=settings.micro_batches,
        training=settings.training,
        schedule=settings.schedule,
        recompute=settings.recompute,
    )
    return ModelPipelining(chain, layer_boundaries(model, chain), problem)
