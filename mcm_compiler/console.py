"""The console script: installs signal handlers before anything else is imported."""

from __future__ import annotations

from mcm_compiler.processes.interruption import end_at_once


def main() -> None:
    """`mcmc`."""
    end_at_once()
    from mcm_compiler.cli.main import main as run

    run()
