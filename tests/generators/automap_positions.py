"""A model as the pipeline policy takes it: its chain in 128 positions.

Auto-MAP (section 4.4) maps every model to arrays of 128, at points taken evenly over its
instructions. Ours are of equal work, so that every part can be a stage's share; both are offered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.cluster import ClusterTarget
from mcm_models.pipelines.problem import Floats, PipelineProblem
from mcm_passes.parallelism.pipelines.node_chain import NodeChain, PipelineSettings, prepare

POSITIONS = 128
"""Parts of a model that the policy is asked about (Auto-MAP, section 4.4)."""

Spacing = Literal["work", "instructions"]
"""What lies evenly between positions: seconds of a forward pass (ours), or ops (as published)."""


@dataclass(frozen=True, eq=False)
class Positions:
    """A model cut into parts of several ops.

    Attributes:
        chain: its ops in order.
        part_starts: `[n + 1]`, positions in the chain where the parts of `problem` begin, and its
            end.
        problem: what is decided.
    """

    chain: NodeChain
    part_starts: tuple[int, ...]
    problem: PipelineProblem


def prepare_positions(
    model: ir.Model,
    target: ClusterTarget,
    settings: PipelineSettings,
    count: int = POSITIONS,
    spacing: Spacing = "work",
) -> Positions:
    """The model cut into at most `count` parts, at the op nearest to each position.

    Models with fewer ops, or with ops that take more than a share of the work, have fewer parts.

    Args:
        model: static shapes, as imported.
        target: the cluster.
        settings: how the model is run.
        count: positions.
        spacing: see `Spacing`.
    """
    prepared = prepare(model, target, settings)
    chain, whole = prepared.chain, prepared.problem
    done = _done(chain, spacing)
    goals = done[-1] * np.arange(1, count) / count
    cuts = np.abs(done[np.newaxis, :] - goals[:, np.newaxis]).argmin(axis=1)
    size = len(chain.names)
    starts = (0, *sorted({int(cut) for cut in cuts if 0 < cut < size}), size)
    sums = ("forward_s", "backward_s", "weight_bytes", "state_bytes", "kept_bytes")
    parts = {name: np.add.reduceat(getattr(whole, name), starts[:-1]) for name in sums}
    return Positions(
        chain, starts, replace(whole, cut_bytes=whole.cut_bytes[list(starts)], **parts)
    )


def _done(chain: NodeChain, spacing: Spacing) -> Floats:
    """`[N + 1]`, what lies before each cut of the chain."""
    each = chain.forward_s if spacing == "work" else np.ones(len(chain.names))
    return np.concatenate([[0.0], np.cumsum(each)])


def in_positions(
    prepared: Positions, cuts: tuple[int, ...], spacing: Spacing = "work"
) -> tuple[float, ...]:
    """Cuts as shares of the work, or of the ops, before them, in `POSITIONS`-ths."""
    done = _done(prepared.chain, spacing)
    return tuple(
        float(done[place] / done[-1] * POSITIONS)
        for place in np.array(prepared.part_starts)[list(cuts)]
    )
