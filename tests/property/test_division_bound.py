"""The bound over all divisions is never above the best of all cuts, copies and placements."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mcm_compiler.components.target_loading import load_target
from mcm_compiler.contracts.fusion import FusionPlan
from mcm_compiler.contracts.sharding.divisions import DividedKernel
from mcm_compiler.contracts.target import PackageLimits
from mcm_passes.parallelism.division_bounds.division_bound import divided_kernels, division_bound
from mcm_passes.parallelism.division_bounds.division_check import DIVISIONS
from tests.generators.divided_graphs import random_graph
from tests.oracles.divided_periods import best_period


@pytest.mark.parametrize("seed", range(40))
def test_bound_is_never_above_the_optimum(seed: int) -> None:
    share, proven = ratio_of(seed)
    assert proven
    assert share <= 1.0 + 1e-9


TABLE = DividedKernel("table", 1e-6, 0.0, 0, 0, 1000, 0)
HEAVY = DividedKernel("heavy", 1e-4, 0.0, 200, 300, 700, 0)
LIGHT = DividedKernel("light", 1e-5, 0.0, 700, 500, 0, 8)


def small_package() -> PackageLimits:
    limits = load_target("mcm4").limits.first(3)
    return replace(limits, sram_bytes=(400,) * 3)


@pytest.mark.parametrize(
    "altered",
    [
        {"prices": (0.0, 0.0, 0.0)},
        {"prices": (1.0, 1.0, 1.0)},
        {"prices": ()},
        {"forced_bytes": (0, 0, 0)},
        {"forced_bytes": (10**9,) * 3},
        {"forced_bytes": (-1, 0, 0)},
        {"last": 1},
        {"kernels": (TABLE, replace(HEAVY, weight_bytes=100), LIGHT)},
    ],
)
def test_a_bound_with_other_patterns_of_weights_is_not_shown(altered: dict[str, Any]) -> None:
    limits = small_package()
    bound = division_bound((TABLE, HEAVY, LIGHT), limits)
    assert bound is not None
    assert DIVISIONS.rules_out_period(bound, limits)
    assert not DIVISIONS.rules_out_period(replace(bound, **altered), limits)


def test_weights_that_come_before_leave_less_memory_for_work_and_the_argument_says_so() -> None:
    limits = small_package()
    bound = division_bound((TABLE, HEAVY, LIGHT), limits)
    # Next to the table, the first chip has 100 bytes: for half of the heavy kernel, and no light
    # one. The last chip is behind the heavy one, and holds 4/7 of the light one.
    assert bound is not None
    assert bound.seconds == pytest.approx(111e-6 - 51e-6 - 10e-6 * 4 / 7)
    assert "2 of which hold weights for at most 93.9 % of a period" in bound.argument
    assert bound.argument.endswith("unlimited memory lowers the bound by 17.3 us")


def test_outputs_leave_over_the_channels_of_the_host() -> None:
    limits = small_package()
    bound = division_bound((replace(LIGHT, leaving_bytes=10**9),), limits)
    assert bound is not None
    assert bound.seconds == pytest.approx(10**9 / (3 * limits.host_bytes_per_s))
    assert bound.argument == "outputs of 953.7 MiB leave over 3 channels"
    assert DIVISIONS.rules_out_period(bound, limits)
    ends = replace(limits, host_io="ends")
    assert not DIVISIONS.rules_out_period(replace(bound, seconds=bound.seconds * 1.01), limits)
    assert DIVISIONS.rules_out_period(replace(bound, seconds=bound.seconds * 1.49), ends)


@pytest.mark.parametrize("seed", range(1, 5))
def test_nothing_is_forced_where_one_chip_has_memory_for_all_weights(seed: int) -> None:
    target = load_target("mcm4")
    model, _ = random_graph(np.random.default_rng(seed), target.cost_model())
    limits = replace(target.limits, sram_bytes=(1,) * 4)
    small: Any = SimpleNamespace(cost_model=target.cost_model, limits=limits)
    forced, free = (divided_kernels(model, one, FusionPlan(())) for one in (small, target))
    assert forced is not None
    assert free is not None
    assert free == tuple(
        replace(one, weight_bytes=0, before_bytes=0, after_bytes=0) for one in forced
    )
    assert any(one.weight_bytes for one in forced)
    bounds = [division_bound(kernels, target.limits) for kernels in (forced, free)]
    seconds = [bound.seconds for bound in bounds if bound is not None]
    assert seconds[0] == pytest.approx(seconds[1], rel=1e-12)


def ratio_of(seed: int) -> tuple[float, bool]:
    """The bound over the optimum of a random problem, and whether its proof holds."""
    rng = np.random.default_rng(seed)
    target = load_target("mcm4")
    model, layers = random_graph(rng, target.cost_model())
    chips, inferences = int(rng.integers(2, 4)), int(rng.integers(1, 3))
    total = sum(layer.cols * layer.col_bytes for layer in layers)
    room = int(total * rng.uniform(0.3, 1.3)) + 1
    limits = replace(target.limits.first(chips), sram_bytes=(room,) * chips)
    shape = model.graph.outputs[0].shape
    assert shape is not None
    leaving_s = 2 * np.prod(shape.numpy()) / (chips * limits.host_bytes_per_s)
    best_s = max(best_period(layers, chips, room, inferences), leaving_s)
    small: Any = SimpleNamespace(cost_model=target.cost_model, limits=limits)
    kernels = divided_kernels(model, small, FusionPlan(()))
    assert kernels is not None
    bound = division_bound(kernels, limits)
    if bound is None or not np.isfinite(best_s):
        return 0.0, True
    proven = DIVISIONS.rules_out_period(bound, limits)
    longer = replace(bound, seconds=bound.seconds * 1.001)
    return bound.seconds / best_s, proven and not DIVISIONS.rules_out_period(longer, limits)
