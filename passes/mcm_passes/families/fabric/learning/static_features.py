"""What the network sees of a problem whatever lies where."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.fabrics.fabric import Fabric, MappingProblem
from mcm_models.mapping_model.layout import STATIC_BRANCH, STATIC_UNIT, Singles
from mcm_passes.families.fabric.formulas.facts import Facts

MOST = 4.0
"""Times are seen as at most so many bounds: what is far off says no more than that."""


def unit_features(problem: MappingProblem, fabric: Fabric, facts: Facts) -> Singles:
    """`[U, STATIC_UNIT]`, the first of `UNIT_COLUMNS`."""
    firings = np.maximum(problem.firings, 1)
    bound = facts.bound
    columns = (
        problem.firings * problem.cycles / bound,
        facts.arriving / bound,
        facts.leaving / bound,
        facts.serial / bound,
        np.log1p(problem.firings) / 8,
        np.log1p(problem.cycles) / 8,
        np.minimum(problem.burst, firings) / firings,
        np.where(problem.depth > 0, 1 / np.maximum(problem.depth, 1), 0),
        problem.memory_bytes / fabric.memory_bytes,
        (problem.stage + 0.5) / problem.num_stages,
    )
    return _bounded(columns, STATIC_UNIT)


def branch_features(problem: MappingProblem, fabric: Fabric, facts: Facts) -> Singles:
    """`[L, STATIC_BRANCH]`, the first of `BRANCH_COLUMNS`."""
    streams = problem.stream_of_leaf
    flits = problem.flits[streams].astype(np.float64)
    width = np.diff(problem.leaf_ptr)[streams]
    firings = np.maximum(problem.firings[problem.leaf], 1)
    bound, hop = facts.bound, 2.0 * facts.hop
    columns = (
        flits / bound,
        np.log(flits) / 10,
        np.log(width) / 3,
        np.minimum(flits / firings / fabric.window_flits, 1),
        facts.rounds * hop / bound,
        facts.burst_rounds * hop / bound,
        (facts.arriving[problem.leaf] - flits) / bound,
        (facts.leaving[problem.source[streams]] - flits) / bound,
    )
    return _bounded(columns, STATIC_BRANCH)


def _bounded(columns: tuple[np.ndarray, ...], count: int) -> Singles:
    assert len(columns) == count
    return np.minimum(np.stack(columns, axis=1), MOST).astype(np.float32)
