"""Chips of a split model are laid out legally, and what is laid out runs without standing still."""

from __future__ import annotations

import numpy as np

from mcm_compiler.api import run_passes
from mcm_compiler.contracts.chips import CHIP_MODELS
from mcm_compiler.contracts.fabrics.legality import faults_of_problem
from mcm_compiler.contracts.fabrics.target import UnitChoice
from mcm_compiler.options import CompileOptions
from mcm_hardware.families.fabric.fabric_package import fabric_12
from mcm_hardware.families.fabric.layout.subgraph_layout import mapping_problem
from mcm_hardware.families.fabric.measuring.player import FlitJudge
from mcm_hardware.families.ring.ring_target import mcm4
from mcm_models.blocks.random_blocks import ffn_block, gemm_block, mha_block, mlp_block
from tests.generators.small_fabric import legal_mappings

SPLIT = "simplify,fuse,annotate_cost,shard_oversized,partition,legalize,split"


def test_chips_of_bert_tiny() -> None:
    model, _, _ = run_passes(
        "zoo:bert-tiny{shape_only=true}", mcm4(), CompileOptions(level=1, passes=SPLIT)
    )
    chips = CHIP_MODELS.get(model)
    assert len(chips) > 1
    for chip in chips:
        for units in (None, 20):
            problem = mapping_problem(chip.model, fabric_12().fabric, UnitChoice(units))
            assert faults_of_problem(problem, fabric_12().fabric) == []


def test_no_mapping_of_a_block_stands_still_or_beats_the_bound() -> None:
    rng, judge, fabric = np.random.default_rng(0), FlitJudge(most_work=20_000), fabric_12().fabric
    for model in (
        gemm_block("g", 32, 48, [32, 24]),
        mlp_block("m", 24, [48, 64, 32]),
        ffn_block("f", 16, 32, 64),
        mha_block("a", 16, 2, 16),
    ):
        problem = mapping_problem(model, fabric, UnitChoice(14, 1))
        found = judge.measure(problem, fabric, legal_mappings(problem, fabric, 3, rng))
        bound = judge.bound_cycles(problem, fabric)
        assert np.all(found.period_cycles >= bound * (1 - found.error))
        assert np.all(found.period_cycles < 20 * bound)
