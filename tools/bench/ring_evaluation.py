"""How long one measured evaluation of a partition takes: compiled, and run as a ring of processes.

    PYTHONPATH=. python tools/bench/ring_evaluation.py

`MODEL_CHIPS_s` is the elapsed time of one evaluation as by `tools/reproduce/mcm_ring.py`: a
partition is compiled, its chips run as processes, and outputs are compared. `MODEL_CHIPS_cpu_s` are
CPU seconds of all processes. Bars are for an idle machine: the load at the start is printed.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from harness.bars import Bar, median_bar
from harness.command_line import Settings, run_script

BAR_S = 0.5
"""Of an evaluation on two cores."""

PARTITIONS = 5
"""Of each model, after one that warms the caches."""


def measure(settings: Settings) -> list[Bar]:
    """A bar for each model and number of chips."""
    from tools.kept_records import KeptRecords
    from tools.reproduce.machines.ring_periods import DATA, Run, random_chips
    from tools.reproduce.machines.ring_searches import CHIPS, ENOUGH_S, MODELS, cpu_seconds

    print(f"load at the start: {os.getloadavg()[0]:.1f}", file=sys.stderr)
    bars: list[Bar] = []
    for model in MODELS[: 1 if settings.quick else None]:
        for chips in CHIPS:
            with tempfile.TemporaryDirectory() as scratch:
                run = Run(model, chips, Path(scratch), KeptRecords(DATA, "code"), ENOUGH_S)
                seconds: list[tuple[float, float]] = []
                for seed in range(PARTITIONS + 1):
                    chip_of = random_chips(run.problem, chips, seed)
                    start_s, start_cpu_s = time.perf_counter(), cpu_seconds()
                    run.record(chip_of)
                    seconds.append((time.perf_counter() - start_s, cpu_seconds() - start_cpu_s))
            name = model.removeprefix("zoo:").partition("{")[0].replace("-", "_")
            elapsed_s, cpu_s = map(list, zip(*seconds[1:], strict=True))
            bars.append(median_bar(f"{name}_{chips}_s", elapsed_s, BAR_S))
            bars.append(median_bar(f"{name}_{chips}_cpu_s", cpu_s, 2 * BAR_S))
    return bars


if __name__ == "__main__":
    sys.exit(run_script(__doc__, measure))
