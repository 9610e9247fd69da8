"""Runs what has numba compile the kernels that most compiles need."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mcm_compiler.processes.kernels.shipped import LOCATORS

MODEL = "zoo:bert-tiny"

STRATEGIES = (
    "greedy",
    "dp",
    "ideals",
    "frontier",
    "cpsat",
    "local_search",
    "multilevel",
    "reorder",
    "lns",
    "annealing",
    "random",
    "corrected",
    "judge_search",
    "rl-zeroshot",
)
"""Each has kernels of its own; those that learn need an extra, and call the same ones."""

OWN_FOLDERS = ("NUMBA_CACHE_DIR", "PYTHONDONTWRITEBYTECODE")
"""Variables of the caller that would have kernels lie elsewhere."""


OUT = "out"
"""Folder for results."""

COMPILED = ("-o", OUT, "--force")
"""Ends every compile."""


def first_commands() -> list[tuple[str, ...]]:
    """What is run first, one after the other, by the words after `mcmc`: all others share it."""
    return [
        ("compile", "zoo:mobilenet-v2", "--target", "mcm36", *COMPILED),
        ("check", OUT),
        ("simulate", OUT),
        ("compile", MODEL, "--target", "mcm36-stream", *COMPILED),
    ]


def further_commands() -> list[tuple[str, ...]]:
    """What is run then, in any order; most have kernels of their own."""
    found: list[tuple[str, ...]] = []
    for name in STRATEGIES:
        search = ("--replicas", "1", "--partitioner", name, "--samples", "200")
        found.append(("compile", MODEL, "--target", "mcm36", *search, *COMPILED))
    # Where many partitions are compared at once.
    judged = ("--replicas", "1", "--partitioner", "judge_search", "--samples", "1000")
    found.append(("compile", "zoo:mobilenet-v2", "--target", "mcm36", *judged, *COMPILED))
    found.append(("compile", "zoo:mobilenet-v2", "--objective", "latency", *COMPILED))
    found.append(("compile", MODEL, "--target", "fabric-12", *COMPILED))
    found.append(("parallelize", MODEL, "--target", "config-a", "--training"))
    found.append(("place", MODEL, "--target", "box-2gpu", "--evaluations", "300"))
    return found


def fill(packages: Path, jobs: int = 1) -> None:
    """Has kernels compiled beside the sources of an unpacked wheel.

    Args:
        packages: the folder that holds the import packages and the wheel's metadata.
        jobs: commands that are run at once; with more than one some kernels are compiled twice.

    Raises:
        subprocess.CalledProcessError: if a command fails.
    """
    environment = {k: v for k, v in os.environ.items() if k not in OWN_FOLDERS}
    environment["PYTHONPATH"] = str(packages)
    # Beside the sources, where they are gathered, and not where an installation has them.
    environment[LOCATORS] = "InTreeCacheLocator"
    python = (sys.executable, "-P", "-m")

    def run(folder: Path, *words: str) -> None:
        subprocess.run(
            [*python, *words], cwd=folder, env=environment, check=True, capture_output=True
        )

    def run_apart(words: tuple[str, ...]) -> None:
        with tempfile.TemporaryDirectory(prefix="mcm-fill-") as name:
            run(Path(name), "mcm_compiler", *words)

    with tempfile.TemporaryDirectory(prefix="mcm-fill-") as name:
        # What the components name first: it needs no model.
        run(Path(name), "mcm_compiler.processes.warm_up", str(os.getpid()))
        for words in first_commands():
            run(Path(name), "mcm_compiler", *words)
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(run_apart, further_commands()))
