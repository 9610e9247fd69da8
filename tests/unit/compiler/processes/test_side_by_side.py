"""Answers keep their order, and the first failure is the one that is told."""

from __future__ import annotations

import threading

import pytest

from mcm_compiler.processes import side_by_side as module
from mcm_compiler.processes.side_by_side import side_by_side


@pytest.fixture(params=[1, 2, 5])
def _cores(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "usable_cores", lambda: request.param)


@pytest.mark.usefixtures("_cores")
def test_answers_come_in_the_order_of_items() -> None:
    assert side_by_side(lambda x: x * x, range(20)) == [x * x for x in range(20)]
    assert side_by_side(lambda x: x, []) == []


def test_calls_are_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waits for the other, which would last forever one after the other."""
    monkeypatch.setattr(module, "usable_cores", lambda: 2)
    both = threading.Barrier(2, timeout=60)
    assert sorted(side_by_side(lambda _: both.wait(), [0, 1])) == [0, 1]


@pytest.mark.usefixtures("_cores")
def test_the_first_failure_is_told_and_what_has_not_begun_is_left_out() -> None:
    asked: list[int] = []

    def fails(item: int) -> int:
        asked.append(item)
        if item in (0, 1):
            raise ValueError(f"item {item}")
        return item

    with pytest.raises(ValueError, match="item 0"):
        side_by_side(fails, range(10_000))
    assert len(asked) < 10_000
