"""From a model and a cluster to a `PipelineProblem`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.cluster import ClusterTarget
from mcm_models.pipelines.problem import PipelineProblem, Schedule, device_row
from mcm_passes.parallelism.pipelines.node_chain import NodeChain, chain_nodes, node_chain

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
    """Adds the ends of the layers of the costliest repeated stretch, and of what is beside it."""
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

BACKWARD_PER_FORWARD = 2.0
"""Products for the gradients of the input and of the weights, each as large as the forward one."""


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
        part_starts: `[n + 1]`, positions in the chain where the parts of `problem` begin, and its
            end.
        problem: what is decided.
    """

    chain: NodeChain
    boundaries: tuple[int, ...]
    part_starts: tuple[int, ...]
    problem: PipelineProblem

    def positions(self, cuts: tuple[int, ...]) -> tuple[int, ...]:
        """Positions in the chain of cuts of the problem."""
        return tuple(self.part_starts[cut] for cut in cuts)

    def layers(self, cuts: tuple[int, ...]) -> tuple[int, ...]:
        """Layers before each cut, to the nearest layer boundary."""
        ends = np.array([0, *self.boundaries, len(self.chain.names)])
        return tuple(int(np.argmin(np.abs(ends - p))) for p in self.positions(cuts))


def prepare(model: ir.Model, target: ClusterTarget, settings: PipelineSettings) -> ModelPipelining:
    """The chain, the layers and the problem of a model on a cluster: every op is a part."""
    chain = node_chain(model, target.cost_model())
    boundaries = layer_boundaries(model, chain)
    starts = tuple(range(len(chain.names) + 1))
    return ModelPipelining(
        chain, boundaries, starts, pipeline_problem(chain, starts, target, settings)
    )


def pipeline_problem(
    chain: NodeChain, starts: tuple[int, ...], target: ClusterTarget, settings: PipelineSettings
) -> PipelineProblem:
    """The problem whose parts begin at the given positions of a chain.

    Args:
        chain: ops in order.
        starts: `[n + 1]`, ascending, 0 first and the length of the chain last.
        target: the cluster.
        settings: how the model is run.
    """
    at = np.array(starts[:-1])
    forward, weights, kept = (
        np.add.reduceat(values, at)
        for values in (chain.forward_s, chain.weight_bytes, chain.kept_bytes)
    )
    again = 1.0 if settings.recompute else 0.0
    copies = 2.0 + STATE_PER_WEIGHT[settings.optimizer] if settings.training else 1.0
    crossing = chain.cut_bytes[list(starts)].copy()
    crossing[[0, -1]] = 0.0
    return PipelineProblem(
        forward_s=forward,
        backward_s=forward * (BACKWARD_PER_FORWARD + again) * settings.training,
        cut_bytes=crossing,
        weight_bytes=weights,
        state_bytes=weights * copies,
        kept_bytes=kept,
        devices=device_row(target.cluster),
        stages=settings.stages or target.cluster.servers,
        micro_batches=settings.micro_batches,
        training=settings.training,
        schedule=settings.schedule,
        recompute=settings.recompute,
    )
