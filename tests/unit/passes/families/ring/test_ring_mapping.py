"""The mapping of rings: how much of it is looked at."""

from __future__ import annotations

import pytest

from mcm_compiler.contracts.partition import Budget
from mcm_passes.families.ring.exact import ideals
from mcm_passes.families.ring.ring_mapping import LOOKED_AT_UNITS, RingMapping
from mcm_passes.mapping.search.search import Search
from tests.generators.partition_problems import make_problem


@pytest.mark.parametrize(("times", "most"), [(0.1, 400_000), (1, 400_000), (4, 100_000)])
def test_a_quick_look_at_a_large_problem_is_quick(
    times: float, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each window of a problem of ten times the units takes up to ten times as long."""
    seen: list[int] = []
    search = ideals.search_ideals

    def watched(known: Search, most: int, windows: int) -> str:
        seen.append(windows)
        return search(known, most, windows)

    monkeypatch.setattr(ideals, "search_ideals", watched)
    units = int(times * LOOKED_AT_UNITS)
    problem = make_problem([1] * units, [(k, k + 1) for k in range(units - 1)], chips=2)
    mapping = RingMapping()
    mapping.better(problem, mapping.first(problem, Budget()))
    assert seen == [most]
