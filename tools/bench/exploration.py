"""How long explorations and sensitivities take, in fresh processes as a user starts them.

`resnet50_40_points_s` and `bert_large_40_points_s` are whole runs of `mcmc explore` on a file over
40 combinations, kernels being in the cache. `sensitivities_compiles` is the CPU time that
`--sensitivities`, twelve points, adds to a compile of ResNet-50, in CPU times of that compile.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from harness.bars import Bar, median_bar
from harness.children import MCMC, run_child
from harness.command_line import Settings, run_script

SWEEPS = (
    "--sweep", "chip.sram_mib=16,32,48,64", "--sweep", "package.num_chips=4,9,16,25,36",
    "--sweep", "link.bandwidth_gb_per_s=16,32",
)  # fmt: skip
BERT_SWEEPS = (
    "--sweep", "chip.sram_mib=64,96,128,192", "--sweep", "package.num_chips=16,20,24,30,36",
    "--sweep", "link.bandwidth_gb_per_s=16,32",
)  # fmt: skip


def measure(settings: Settings) -> list[Bar]:
    """All bars, or that of sensitivities where `settings.quick`."""
    with tempfile.TemporaryDirectory(prefix="mcm-bench-") as name:
        folder = Path(name)
        resnet = folder / "resnet50.onnx"
        run_child([MCMC, "zoo", "resnet50", "-o", resnet])
        bars = [_sensitivities(resnet, settings)]
        if not settings.quick:
            bars.append(_explored("resnet50_40_points_s", resnet, SWEEPS, 60.0))
            bert = folder / "bert-large.onnx"
            run_child([MCMC, "zoo", "bert-large", "-o", bert])
            bars.append(_explored("bert_large_40_points_s", bert, BERT_SWEEPS, 300.0))
    return bars


def _sensitivities(model: Path, settings: Settings) -> Bar:
    command = [MCMC, "compile", model, "-o", model.with_suffix(".out"), "--force"]
    run_child([*command, "--sensitivities"])
    ratios: list[float] = []
    for _ in range(1 if settings.quick else settings.repetitions):
        plain_s = run_child(command).cpu_s
        ratios.append((run_child([*command, "--sensitivities"]).cpu_s - plain_s) / plain_s)
    return median_bar("sensitivities_compiles", [statistics.median(ratios)], 6.0)


def _explored(name: str, model: Path, sweeps: Sequence[str], bar: float) -> Bar:
    return median_bar(name, [run_child([MCMC, "explore", model, *sweeps]).seconds], bar)


if __name__ == "__main__":
    sys.exit(run_script(__doc__, measure))
