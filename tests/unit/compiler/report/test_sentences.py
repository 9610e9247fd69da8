"""What the report says of learned search."""

from __future__ import annotations

import pytest

from mcm_compiler.report.sentences import learned_sentence


@pytest.mark.parametrize(
    ("report", "text"),
    [
        ({}, None),
        ({"learned_gain": None}, None),
        ({"learned_gain": 0.0}, "nothing better than what classical search found"),
        (
            {"learned_gain": 0.125},
            "12.5 % more throughput than the best that classical search found",
        ),
    ],
)
def test_the_gain_of_learned_search_is_told_only_where_it_ran(report, text):
    assert learned_sentence(report) == text
