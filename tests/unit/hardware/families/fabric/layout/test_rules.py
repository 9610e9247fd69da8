"""The hash of the lowering is that of its answers: whoever changes a problem has to change it."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np

from mcm_compiler.contracts.fabrics.target import UnitChoice
from mcm_hardware.families.fabric.fabric_package import fabric_12
from mcm_hardware.families.fabric.layout.rules import ANSWERS, RULES, lowering_hash
from mcm_hardware.families.fabric.layout.subgraph_layout import LOWERING_HASH, mapping_problem
from mcm_models.blocks.random_blocks import ffn_block, gemm_block, mha_block, mlp_block


def test_answers_are_those_on_record() -> None:
    digest = hashlib.sha256()
    models = (
        gemm_block("g", 40, 88, [24, 136]),
        mlp_block("m", 96, [64, 200, 48, 1024]),
        ffn_block("f", 128, 96, 400),
        mha_block("a", 72, 3, 40),
    )
    for model in models:
        for units in (9, 30):
            problem = mapping_problem(model, fabric_12().fabric, UnitChoice(units))
            for name, value in vars(problem).items():
                digest.update(name.encode())
                digest.update(
                    np.ascontiguousarray(value).tobytes()
                    if isinstance(value, np.ndarray)
                    else repr(value).encode()
                )
    found = digest.hexdigest()
    assert found == ANSWERS, f"the lowering has changed: its answers are {found}"


def test_other_rules_have_another_hash() -> None:
    assert lowering_hash() == LOWERING_HASH
    assert lowering_hash(RULES) == LOWERING_HASH
    assert lowering_hash(replace(RULES, tile=32)) != LOWERING_HASH
