"""Problems that have something to find, and an evaluator that disagrees with the fast model."""

from __future__ import annotations

import pytest

from tests.generators.branching_problems import TrueTimes, branching_problem


@pytest.fixture
def branches():
    return branching_problem


@pytest.fixture
def true_times():
    return TrueTimes
