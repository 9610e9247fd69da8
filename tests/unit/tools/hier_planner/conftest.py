"""Small steps on which planners learn, JAX on one thread, and the planner of `tools/reproduce`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mcm_compiler.processes.one_thread import use_one_thread
from tests.generators.counted_steps import Case, CountedSeconds, small_case

use_one_thread()
sys.path.insert(0, str(Path(__file__).parents[4] / "tools" / "reproduce"))


@pytest.fixture(scope="session")
def case() -> Case:
    return small_case()


@pytest.fixture
def counted() -> type[CountedSeconds]:
    return CountedSeconds
