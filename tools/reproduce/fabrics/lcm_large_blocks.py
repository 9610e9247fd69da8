"""Measures blocks beyond the sizes of the data set, to ask what learned from that about them.

    python tools/reproduce/fabrics/lcm_large_blocks.py [--blocks 40]

Blocks of more than 75 units on the same fabric, with as many mappings of each as the data set has,
drawn and searched for in the same way; `lcm_ablations.py` reads them. Nothing learns from them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
from lcm_study.blocks import blocks

from mcm_compiler.arrays.randomness import seeded_generator
from mcm_compiler.contracts.fabrics.target import MapsChips
from mcm_compiler.processes.one_thread import use_one_thread
from mcm_hardware.families.fabric.fabric_package import fabric_12
from mcm_models.blocks.random_blocks import FAMILIES
from mcm_models.mapping_model.data_files import save_data
from mcm_models.mapping_model.data_set import MappingData
from mcm_passes.families.fabric.learning.collecting import (
    CollectionSize,
    collected_block,
    learned_of,
)

OUT = Path(__file__).parents[1] / "data" / "fabric_large_blocks.npz"
FIRST = 2_000_000
"""Seed of the first block; neither the data set nor held-out blocks of flows have it."""

LONGEST = 1000
"""Cycles of the largest bound."""

ABOVE = 75
"""Units that all blocks exceed."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measures and writes them all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=40)
    given = parser.parse_args(argv)
    use_one_thread()
    target = cast("MapsChips", fabric_12())
    size = CollectionSize()
    found = blocks(target.fabric, FIRST, given.blocks, ABOVE + 1, LONGEST)
    measured = [
        collected_block(
            target, size, _family(problem.name), problem, seeded_generator(k, "large block")
        )
        for k, problem in enumerate(found)
    ]
    graphs = [graph for graph in measured if graph is not None]
    save_data(OUT, MappingData(learned_of(target), target.fabric, tuple(graphs), FIRST))
    units = np.array([graph.problem.num_units for graph in graphs])
    exact = np.concatenate([graph.error == 0 for graph in graphs])
    print(f"{len(graphs)} blocks of {units.min()} to {units.max()} units, {len(exact)} mappings, "
          f"{100 * exact.mean():.1f} % exact")  # fmt: skip
    return 0


def _family(name: str) -> str:
    return next(family for family in FAMILIES if name.startswith(family))


if __name__ == "__main__":
    sys.exit(main())
