"""A model as the pipeline policy takes it: its chain in 128 positions of equal work."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from mcm_compiler.cluster import ClusterTarget
from mcm_models.pipelines.random_cases import POSITIONS
from mcm_passes.pipelining.node_chain import node_chain
from mcm_passes.pipelining.problem_builder import (
    ModelPipelining,
    PipelineSettings,
    pipeline_problem,
)


def prepare_positions(
    model: ir.Model, target: ClusterTarget, settings: PipelineSettings, count: int = POSITIONS
) -> ModelPipelining:
    """The model cut into at most `count` parts of about equal work, at the op nearest to each.

    Auto-MAP (section 4.4) maps every model to arrays of 128. Models with fewer ops, or with ops
    that take more than a share of the work, have fewer parts.
    """
    chain = node_chain(model, target.cost_model())
    done = np.concatenate([[0.0], np.cumsum(chain.forward_s)])
    goals = done[-1] * np.arange(1, count) / count
    cuts = np.abs(done[np.newaxis, :] - goals[:, np.newaxis]).argmin(axis=1)
    size = len(chain.names)
    starts = (0, *sorted({int(cut) for cut in cuts if 0 < cut < size}), size)
    return ModelPipelining(chain, (), starts, pipeline_problem(chain, starts, target, settings))


def in_positions(prepared: ModelPipelining, cuts: tuple[int, ...]) -> tuple[float, ...]:
    """Cuts as shares of the work before them, in `POSITIONS`-ths."""
    done = np.concatenate([[0.0], np.cumsum(prepared.chain.forward_s)])
    return tuple(float(done[place] / done[-1] * POSITIONS) for place in prepared.positions(cuts))
