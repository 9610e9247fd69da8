"""The bound over all divisions is never above the best of all cuts, copies and placements."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mcm_compiler.components.target_loading import load_target
from mcm_compiler.contracts.fusion import FusionPlan
from mcm_passes.parallelism.division_bounds.division_bound import divided_kernels, division_bound
from mcm_passes.parallelism.division_bounds.division_check import DIVISIONS
from tests.generators.divided_chains import random_chain
from tests.oracles.divided_periods import best_period


@pytest.mark.parametrize("seed", range(40))
def test_bound_is_never_above_the_optimum(seed: int) -> None:
    share, proven = ratio_of(seed)
    assert proven
    assert share <= 1.0 + 1e-9


def ratio_of(seed: int) -> tuple[float, bool]:
    """The bound over the optimum of a random problem, and whether its proof holds."""
    rng = np.random.default_rng(seed)
    target = load_target("mcm4")
    model, layers = random_chain(rng, target.cost_model())
    chips, inferences = int(rng.integers(2, 4)), int(rng.integers(1, 3))
    total = sum(layer.cols * layer.col_bytes for layer in layers)
    room = int(total * rng.uniform(0.3, 1.3)) + 1
    limits = replace(target.limits.first(chips), sram_bytes=(room,) * chips)
    best_s = best_period(layers, chips, room, inferences)
    kernels = divided_kernels(model, target, FusionPlan(()))
    assert kernels is not None
    bound = division_bound(kernels, limits)
    if bound is None or not np.isfinite(best_s):
        return 0.0, True
    proven = DIVISIONS.rules_out_period(bound, limits)
    longer = replace(bound, seconds=bound.seconds * 1.001)
    return bound.seconds / best_s, proven and not DIVISIONS.rules_out_period(longer, limits)
