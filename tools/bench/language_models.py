"""Processor seconds of compiling language models for chips that are small for them.

`gpt2_compile_cpu_s` and `t5_compile_cpu_s` are whole runs of `mcmc compile` on models of the zoo
with their weights, for `mcm36-small`: 36 chips with 32 MiB each. Neither model's logits fit a chip,
so that they leave in pieces. Emitting, the proof by structure and the comparison in onnxruntime are
part of the time. Each folder is then held against `mcmc check`. Seconds are those of all cores
together, from the kernel's account of the process. `--quick` leaves T5 out.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from harness.bars import Bar, median_bar
from harness.children import MCMC, run_child
from harness.command_line import Settings, run_script

TARGET = "mcm36-small"
MOST_CPU_S = 30.0
REPETITIONS = 3
"""Timed runs of each model, after one that warms the caches."""


def measure(settings: Settings) -> list[Bar]:
    """A bar for each model."""
    return [_compiled(name, settings) for name in (("gpt2",) if settings.quick else ("gpt2", "t5"))]


def _compiled(name: str, settings: Settings) -> Bar:
    with tempfile.TemporaryDirectory(prefix="mcm-bench-") as folder:
        output = Path(folder) / name
        command = [MCMC, "compile", f"zoo:{name}", "--target", TARGET, "-o", output, "--force"]
        run_child(command)
        runs = 1 if settings.quick else REPETITIONS
        samples = [run_child(command).cpu_s for _ in range(runs)]
        run_child([MCMC, "check", output])
    return median_bar(f"{name}_compile_cpu_s", samples, MOST_CPU_S)


if __name__ == "__main__":
    sys.exit(run_script(__doc__, measure))
