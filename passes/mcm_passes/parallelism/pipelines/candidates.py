"""Which cuts a search that learns may choose from (Auto-MAP, section 3.4).

A cut of the devices between servers costs a pipeline least, as gradients are then reduced inside
servers. So device cuts are allowed within three devices of the boundaries of servers, and a cut of
the chain *maps* to the device cut before which the devices have the same share of the speed as the
ops before it have of the work. Every cut that maps to an allowed device cut is a candidate. The
exact search is not restricted so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mcm_models.pipelines.problem import Pipeline, PipelineProblem
from mcm_models.pipelines.tables import pipeline_tables
from mcm_passes.parallelism.pipelines.baselines import pipeline_of

PRUNING_RADIUS = 3
"""Devices on each side of a boundary between servers at which stages may begin."""


@dataclass(frozen=True, eq=False)
class CandidateCuts:
    """A problem restricted to candidates.

    Attributes:
        whole: the problem with all cuts.
        cuts: `[C]`, the candidates in it, ascending.
        problem: the same with a part from each candidate to the next, and `device_cuts`.
    """

    whole: PipelineProblem
    cuts: tuple[int, ...]
    problem: PipelineProblem

    def in_whole(self, pipeline: Pipeline) -> Pipeline:
        """A pipeline of the restricted problem, with cuts of the whole one."""
        parts = np.array(
            [0, *(self.cuts[cut - 1] for cut in pipeline.cuts), self.whole.num_parts], np.int64
        )
        places = np.array([0, *pipeline.devices, self.whole.devices.num_devices], np.int64)
        return pipeline_of(pipeline_tables(self.whole), parts, places)


def candidate_cuts(problem: PipelineProblem, radius: int = PRUNING_RADIUS) -> CandidateCuts:
    """The candidates of a problem.

    All cuts and device cuts where there are no servers to speak of, or fewer candidates than the
    pipeline has cuts. Cuts that are equal in every number to the one before are left out.

    Args:
        problem: with all cuts.
        radius: see `PRUNING_RADIUS`.
    """
    t = pipeline_tables(problem)
    count, row = problem.devices.num_devices, problem.devices
    places = np.arange(1, count)
    near = np.array(
        [any(abs(place - start) <= radius for start in row.server_starts) for place in places]
    )
    done = t.forward + t.backward
    shares = np.concatenate([[0.0], np.cumsum(row.speed)]) / row.speed.sum()
    mapped = np.abs(done[:, None] / max(done[-1], 1e-300) - shares[None, :]).argmin(axis=1)
    numbers = np.stack([t.forward, t.backward, t.weights, t.state, t.kept, t.cut])
    differs = np.concatenate([[True], np.any(np.diff(numbers, axis=1) != 0.0, axis=0)])
    inner = np.arange(1, problem.num_parts)
    inner = inner[differs[1:-1]]
    chosen = inner[np.isin(mapped[inner], places[near])] if near.any() else inner
    allowed = tuple(int(place) for place in places[near])
    if min(len(chosen), len(allowed)) < problem.stages - 1 or not allowed:
        chosen, allowed = inner, tuple(int(place) for place in places)
    starts = [0, *(int(cut) for cut in chosen)]
    forward, backward, weights, state, kept = (
        np.add.reduceat(values, starts)
        for values in (
            problem.forward_s,
            problem.backward_s,
            problem.weight_bytes,
            problem.state_bytes,
            problem.kept_bytes,
        )
    )
    restricted = replace(
        problem,
        forward_s=forward,
        backward_s=backward,
        weight_bytes=weights,
        state_bytes=state,
        kept_bytes=kept,
        cut_bytes=problem.cut_bytes[[*starts, problem.num_parts]],
        device_cuts=allowed,
    )
    return CandidateCuts(problem, tuple(starts[1:]), restricted)
