"""How long a compile takes, and how much memory, in fresh processes as a user starts them.

`resnet50_compile_s` and `bert_large_compile_s` are whole runs of `mcmc compile` on a file, from
the start of the process to its exit, with everything jitted in the cache; emitting and verifying
are part of them. `resnet50_cold_compile_s` has an empty jit cache, as right after installation.
`bert_large_rss_beyond_weights_gib` is the largest resident set of that compile without the pages
of memory-mapped weight files. Every figure is a median; a cold compile and the memory of
BERT-large are measured once.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from harness.bars import Bar, median_bar
from harness.children import MCMC, run_child
from harness.command_line import Settings, run_script

GIB = float(1 << 30)
LARGE_REPETITIONS = 3
"""Timed runs of BERT-large, after one that warms the caches."""


def measure(settings: Settings) -> list[Bar]:
    """All bars, or those of ResNet-50 and of `--help` where `settings.quick`."""
    with tempfile.TemporaryDirectory(prefix="mcm-bench-") as name:
        folder = Path(name)
        bars = [*_help(settings), *_resnet50(folder, settings)]
        if not settings.quick:
            bars += _bert_large(folder)
    return bars


def _help(settings: Settings) -> Sequence[Bar]:
    run_child([MCMC, "--help"])
    samples = [run_child([MCMC, "--help"]).seconds for _ in range(settings.repetitions + 2)]
    return [median_bar("help_s", samples, 0.3)]


def _resnet50(folder: Path, settings: Settings) -> Sequence[Bar]:
    model = folder / "resnet50.onnx"
    run_child([MCMC, "zoo", "resnet50", "-o", model])
    command = _compile(model)
    empty_cache = {"NUMBA_CACHE_DIR": str(folder / "empty_cache")}
    cold_s = run_child(command, empty_cache).seconds
    run_child(command)
    warm_s = [run_child(command).seconds for _ in range(settings.repetitions)]
    return [
        median_bar("resnet50_compile_s", warm_s, 5.0),
        median_bar("resnet50_cold_compile_s", [cold_s], 20.0),
    ]


def _bert_large(folder: Path) -> Sequence[Bar]:
    model = folder / "bert-large.onnx"
    run_child([MCMC, "zoo", "bert-large", "-o", model])
    command = [*_compile(model), "--partitioner", "dp"]
    # The run whose memory is sampled also warms the caches.
    beyond_bytes = run_child(command, beyond=folder).peak_beyond_bytes or 0
    seconds = [run_child(command).seconds for _ in range(LARGE_REPETITIONS)]
    return [
        median_bar("bert_large_compile_s", seconds, 20.0),
        median_bar("bert_large_rss_beyond_weights_gib", [beyond_bytes / GIB], 1.0),
    ]


def _compile(model: Path) -> list[str | Path]:
    output = model.with_suffix(".mcm36")
    return [MCMC, "compile", model, "--target", "mcm36", "-o", output, "--force"]


if __name__ == "__main__":
    sys.exit(run_script(__doc__, measure))
