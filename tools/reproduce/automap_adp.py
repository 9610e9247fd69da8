"""Rows 5 and 6 of Auto-MAP (Wang et al. 2020): batch dimensions found by deep Q-learning.

Trains once per seed on the inputs of T5 and VGG-19 with labels and loss, with and without linkage
groups and with the settings as published. Beside it random search with as many episodes, largest
first, and the exact oracle. Writes `tools/reproduce/data/automap_adp.json`.
"""

from __future__ import annotations

import sys
import time

from automap_decisions import Row, Variant, reproduce
from automap_study.models import T5Automap, Vgg19Training

from mcm_compiler.ir.reading.importer import import_model
from mcm_passes.parallelism.decisions.decision_problem import adp_problem, count_objective

DEGREE = 16
"""Devices of Config A."""

VARIANTS = (
    Variant("dqn", "adp"),
    Variant("no-linkage", "adp", linkage=False),
    Variant("published", "published-adp"),
    Variant("no-updates", "adp", updates=False),
)

T5_BATCHED = (
    "input_ids",
    "attention_mask",
    "decoder_input_ids",
    "decoder_attention_mask",
    "labels",
    "loss_weights",
    "example_weights",
)
VGG_BATCHED = ("input", "labels")

ROWS = {
    "t5-automap": (5, T5Automap(shape_only=True), T5_BATCHED),
    "vgg19-training": (6, Vgg19Training(shape_only=True), VGG_BATCHED),
}
LIMIT_S = 1.0


def row_of(name: str) -> Row:
    """The problem of a row: every batch dimension must come out, and nothing else."""
    number, builder, batched = ROWS[name]
    model, _ = import_model(builder.build(), name)
    began = time.perf_counter()
    problem = adp_problem(model, DEGREE)
    expected = {tensor: 0 if tensor in batched else -1 for tensor in problem.tensors}
    if not set(batched) <= expected.keys():
        raise ValueError(f"{name} has other inputs: {problem.tensors}")
    build_s = time.perf_counter() - began
    objective = count_objective(problem)
    return Row(number, name, problem, objective, expected, LIMIT_S, build_s)


def main() -> int:
    """The command line."""
    return reproduce("automap_adp", tuple(ROWS), row_of, VARIANTS)


if __name__ == "__main__":
    sys.exit(main())
