"""Problems that have something to find."""

from __future__ import annotations

import pytest

from tests.generators.branching_problems import branching_problem


@pytest.fixture
def branches():
    return branching_problem
