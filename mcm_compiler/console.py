"""The console script: settings of its process, made before anything else is imported."""

from __future__ import annotations

from mcm_compiler.processes.interruption import end_at_once
from mcm_compiler.processes.lazy_libraries import load_lazily


def main() -> None:
    """`mcmc`."""
    end_at_once()
    load_lazily()
    from mcm_compiler.cli.main import main as run

    run()
