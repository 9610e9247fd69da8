"""Runs what has numba compile the kernels that most compiles need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

MODEL = "zoo:bert-tiny"

STRATEGIES = (
    "dp",
    "ideals",
    "frontier",
    "cpsat",
    "local_search",
    "multilevel",
    "reorder",
    "thompson",
    "rl-zeroshot",
)
"""Some have kernels of their own; those that learn need an extra, and call the same ones."""

LOCATORS = "NUMBA_CACHE_LOCATOR_CLASSES"
"""Read by numba: the classes that find caches, also of kernels."""

OWN_FOLDERS = ("NUMBA_CACHE_DIR", "PYTHONDONTWRITEBYTECODE")
"""Variables of the caller that would have kernels lie elsewhere."""

COMMANDS = Path(__file__).with_name("commands.py")
"""Runs a track."""

DRAWING = Path(__file__).parents[1] / "reproduce" / "mcm_study" / "search_baselines.py"
"""A plug-in with the strategy `random`."""

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


def tracks() -> tuple[list[tuple[str, ...]], ...]:
    """What is run then, each list in its order; lists of about equal time share few kernels."""
    one = ("--replicas", "1", "--partitioner")
    few = ("--samples", "200", *COMPILED)
    ring: list[tuple[str, ...]] = [("compile", MODEL, *one, name, *few) for name in STRATEGIES]
    # What draws where nothing else fits is compiled by a strategy that only draws.
    ring.append(("compile", MODEL, "--plugin", str(DRAWING), *one, "random", *few))
    ring.append(("compile", MODEL, *one, "rl-zeroshot", "--routing", "strict", *few))
    # Where many partitions are compared at once.
    judged = (*one, "rl-zeroshot{reward=judge}", "--samples", "1000")
    ring.append(("compile", "zoo:mobilenet-v2", *judged, *COMPILED))
    ring.append(("compile", MODEL, "--target", "mcm4", "--routing", "strict", *COMPILED))
    return ring, [
        ("compile", MODEL, "--target", "fabric-12", "-O0", *COMPILED),
        # By objective latency rings have kernels that no strategy above has.
        ("compile", "zoo:mobilenet-v2", "--objective", "latency", *COMPILED),
        ("compile", MODEL, "--target", "mcm4", "--objective", "latency", *COMPILED),
        ("parallelize", MODEL, "--target", "config-a", "--training"),
        ("place", MODEL, "--target", "box-2gpu", "--evaluations", "300"),
        ("place", MODEL, "--target", "box-2gpu", "--placer", "pretrained"),
    ]


def fill(packages: Path, at_once: bool = False) -> None:
    """Has kernels compiled beside the sources of an unpacked wheel.

    Args:
        packages: the folder that holds the import packages and the wheel's metadata.
        at_once: whether tracks run beside each other; what they share is compiled twice then.

    Raises:
        subprocess.CalledProcessError: if a command fails.
    """
    environment = {k: v for k, v in os.environ.items() if k not in OWN_FOLDERS}
    environment["PYTHONPATH"] = str(packages)
    # Beside the sources, where they are gathered, and not where an installation has them.
    environment[LOCATORS] = "InTreeCacheLocator"

    def run(*words: str) -> None:
        with tempfile.TemporaryDirectory(prefix="mcm-fill-") as name:
            subprocess.run(
                [sys.executable, "-P", *words],
                cwd=name,
                env=environment,
                check=True,
                capture_output=True,
            )

    def run_track(track: list[tuple[str, ...]]) -> None:
        run(str(COMMANDS), json.dumps(track))

    run_track(first_commands())
    found = tracks()
    with ThreadPoolExecutor(len(found) if at_once else 1) as pool:
        list(pool.map(run_track, found))
