"""Blocks of GEMM, MLP, FFN and MHA laid out on a fabric; training ones and held-out ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mcm_compiler.contracts.fabrics.fabric import Fabric, MappingProblem, bound_cycles
from mcm_compiler.contracts.fabrics.legality import faults_of_problem
from mcm_compiler.contracts.fabrics.target import UnitChoice
from mcm_compiler.diagnostics import CompileError
from mcm_hardware.families.fabric.layout.rules import RULES, LayoutRules
from mcm_hardware.families.fabric.layout.subgraph_layout import mapping_problem
from mcm_models.blocks.random_blocks import FAMILIES, random_block

TRAINING, HELD_OUT = 0, 1_000_000
"""First seeds of blocks: weights and coefficients are tuned on the former alone."""


def blocks(
    fabric: Fabric,
    first: int,
    count: int,
    fewest_units: int = 20,
    most_cycles: float = 2500,
    beyond_cycles: float = 0,
    rules: LayoutRules = RULES,
) -> Iterator[MappingProblem]:
    """The first so many blocks from a seed on that are not too small, and are measured soon.

    Args:
        fabric: on which they are laid out.
        first: seed of the first block; each has the next seed, and the families take turns.
        count: how many.
        fewest_units: units that a block has at least.
        most_cycles: bound of its period at most.
        beyond_cycles: that the bound exceeds.
        rules: of the lowering.
    """
    seed = first
    while count:
        block = random_block(FAMILIES[seed % 4], np.random.default_rng(seed), 72)
        choice = UnitChoice(compute_units=block.compute_units, seed=seed)
        seed += 1
        try:
            problem = mapping_problem(block.model, fabric, choice, rules)
        except CompileError:  # a block that does not fit is drawn anew
            continue
        if (
            problem.num_units >= fewest_units
            and beyond_cycles < bound_cycles(problem, fabric) <= most_cycles
            and not faults_of_problem(problem, fabric)
        ):
            count -= 1
            yield problem
