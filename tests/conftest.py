"""What all tests share."""

from __future__ import annotations

import fcntl
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from mcm_compiler.processes.bounded_child import may_fork

# What JAX compiles in one process of a run serves all others.
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / "build" / "jax-cache")
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
# To optimise programs that run a few times takes longer than they run.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

# How fast a machine is fails no test, neither in an example nor while examples are made up.
settings.register_profile("any-speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# Continuous integration draws the same examples of every commit, other runs draw new ones.
settings.register_profile("ci", settings.get_profile("any-speed"), derandomize=True)
settings.load_profile("ci" if os.environ.get("MCMC_CI") else "any-speed")

# A quarter of the time of collecting 12,000 tests, which all live on, is Python's look for garbage.
gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """From here on garbage is collected again."""
    gc.enable()


def _outcome_of_forks(config: pytest.Config, items: Sequence[pytest.Item]) -> str:
    """Runs the tests that fork of all files, in a process without threads; what failed there.

    It is done once for all processes that run tests side by side: the first one writes it down.
    """
    shared: Path = config._tmp_path_factory.getbasetemp()  # pyright: ignore
    if os.environ.get("PYTEST_XDIST_WORKER"):
        shared = shared.parent
    with open(shared / "forks.txt", "a+", encoding="utf-8") as outcome:
        fcntl.flock(outcome, fcntl.LOCK_EX)
        outcome.seek(0)
        if not (text := outcome.read()):
            text = _run_forks(config.rootpath, items)
            outcome.write(text)
    return text.removeprefix(_DONE)


_DONE = "done\n"


def _run_forks(root: Path, items: Sequence[pytest.Item]) -> str:
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    files = sorted({str(item.path) for item in items if item.get_closest_marker("forks")})
    variables = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(
        [*words, "-m", "forks", *files],
        cwd=root,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    return _DONE + ("" if done.returncode == 0 else done.stdout + done.stderr)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Tests that fork run in a process of their own where a library here has threads."""
    if pyfuncitem.get_closest_marker("forks") is None or may_fork():
        return None
    failed = _outcome_of_forks(pyfuncitem.config, pyfuncitem.session.items)
    if failed and (pyfuncitem.path.name in failed or "::" not in failed):
        pytest.fail(failed)
    return True


@pytest.fixture(autouse=True, scope="session")
def _state_of_its_own(tmp_path_factory):
    """The key that builds sign their caches with is that of the run, not the user's."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(autouse=True, scope="session")
def _signals_reach_child_processes():
    """Undoes ignored signals, which children inherit from a run in the background or by nohup."""
    for number, default in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGTERM, signal.SIG_DFL),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, default)
