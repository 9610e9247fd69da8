"""How long one measured evaluation of a partition takes: compiled, and run as a ring of processes.

`MODEL_CHIPS_s` is the elapsed time of one evaluation as by `tools/reproduce/mcm_ring.py`: a
partition is compiled, its chips run as processes, and outputs are compared. The bar is for an idle
machine: where the load is above 1 before the start, the figures are shown without it.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from harness.bars import Bar, median_bar
from harness.command_line import Settings, run_script

PARTITIONS = 5
"""Of each model, after one that warms the caches."""


def measure(settings: Settings) -> list[Bar]:
    """A bar for each model and number of chips."""
    from mcm_compiler.api import run_passes
    from mcm_compiler.contracts.partition import PARTITION_PROBLEM
    from tools.kept_records import KeptRecords
    from tools.reproduce.machines.ring_periods import DATA, PASSES, Run, options, random_chips
    from tools.reproduce.machines.ring_searches import CHIPS, ENOUGH_S, MODELS

    bar = 0.5 if os.getloadavg()[0] <= 1.0 else float("inf")
    bars: list[Bar] = []
    for model in MODELS[: 1 if settings.quick else None]:
        for chips in CHIPS:
            with tempfile.TemporaryDirectory() as scratch:
                run = Run(model, chips, Path(scratch), KeptRecords(DATA, "code"), ENOUGH_S)
                found, _, _ = run_passes(model, run.target, options(PASSES))
                problem = PARTITION_PROBLEM.get(found)
                seconds: list[float] = []
                for seed in range(PARTITIONS + 1):
                    chip_of, start_s = random_chips(problem, chips, seed), time.perf_counter()
                    run.record(f"cut-{seed}", chip_of)
                    seconds.append(time.perf_counter() - start_s)
            name = model.removeprefix("zoo:").partition("{")[0].replace("-", "_")
            bars.append(median_bar(f"{name}_{chips}_s", seconds[1:], bar))
    return bars


if __name__ == "__main__":
    sys.exit(run_script(__doc__, measure))
