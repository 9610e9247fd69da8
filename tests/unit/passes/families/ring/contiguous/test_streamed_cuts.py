"""Cuts of packages that have to stream weights because their memory is too small."""

from __future__ import annotations

import re

import numpy as np

from mcm_compiler.api import run_passes
from mcm_compiler.components.target_loading import load_target, target_from_text
from mcm_compiler.contracts.partition import PARTITION, PARTITION_PROBLEM, Budget
from mcm_compiler.contracts.sharding.sharding import SHARDING_PLAN
from mcm_compiler.options import CompileOptions
from mcm_passes.families.ring.contiguous.contiguous_dp import ContiguousDp
from mcm_passes.mapping.machine.evaluation import evaluate, period
from mcm_passes.mapping.problem.resident_sizes import weight_sizes
from tests.generators.partition_problems import make_problem

SRAM = 1280

CHIPS = 4


def test_a_weight_too_large_to_stream_is_kept_apart_from_streaming_chips():
    """The first unit's weight leaves no room for two buffers of it, so its chip must not stream."""
    units = 24
    weights = [(SRAM // 2 + 64, [0]), *((192, [u]) for u in range(1, units))]
    problem = make_problem(
        [1] * units,
        [(u, u + 1) for u in range(units - 1)],
        chips=CHIPS,
        sram=SRAM,
        weights=weights,
        tensor_bytes=64,
        stream=1e9,
    )
    outcome = ContiguousDp().solve(
        problem, lambda f: period(problem, f), np.random.default_rng(0), Budget()
    )
    found = evaluate(problem, outcome.chip_of)
    assert found.valid
    assert found.streamed_bytes[0] == 0
    assert found.streamed_bytes[1:].max() > 0
    # Units of equal work and weight: no chip streams much more than its share.
    assert found.weight_bytes[1:].max() <= 2 * found.weight_bytes[1:].mean()


def test_ops_are_sharded_so_that_chips_which_stream_have_buffers_for_them():
    """Half of what would do if nothing had to be streamed."""
    text = load_target("mcm36-stream").source_text
    text = re.sub(r"(?m)^num_chips = .*$", f"num_chips = {CHIPS}", text)
    target = target_from_text("tight", re.sub(r"(?m)^sram_mib = .*$", "sram_mib = 0.32", text))
    sram = target.limits.sram_bytes[0]
    model, _, _ = run_passes(
        "zoo:gpt2-tiny{shape_only=true,layers=4,seq=8}",
        target,
        CompileOptions(passes="simplify,fuse,annotate_cost,shard_oversized,partition{strategy=dp}"),
    )
    problem, partition = PARTITION_PROBLEM.get(model), PARTITION.get(model)
    assert problem.weight_bytes.sum() > CHIPS * sram
    assert len(SHARDING_PLAN.get(model).operators) > 0
    assert problem.limits.stream_buffers * weight_sizes(problem).max() <= sram
    assert evaluate(problem, partition.chip_of).streamed_bytes.max() > 0
