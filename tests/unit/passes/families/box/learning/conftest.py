"""Small steps on which policies learn, JAX on one thread."""

from __future__ import annotations

import pytest

from mcm_compiler.processes.one_thread import use_one_thread
from tests.generators.counted_steps import Case, CountedSeconds, small_case

use_one_thread()


@pytest.fixture(scope="session")
def case() -> Case:
    return small_case()


@pytest.fixture
def counted() -> type[CountedSeconds]:
    return CountedSeconds
