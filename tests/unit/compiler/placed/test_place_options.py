"""Options of a placement are checked once, at the edge."""

from __future__ import annotations

from typing import Any

import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.placed.place_options import PlaceOptions


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"level": -1}, "level is -1, not at least 0"),
        ({"evaluations": 0}, "evaluations is 0, not at least 1"),
        ({"seed": -1}, "seed is -1, not at least 0"),
        ({"seed": 2**63}, "seed is 9223372036854775808, more than 2^63 - 1"),
        ({"budget_s": 0.0}, "budget_s is 0.0, not a positive number of seconds"),
        ({"budget_s": float("nan")}, "budget_s is nan, not a positive number of seconds"),
        ({"dispatch_s": -1.0}, "dispatch_s is -1.0, not a number of seconds from 0 on"),
        ({"dispatch_s": float("nan")}, "dispatch_s is nan, not a number of seconds from 0 on"),
        ({"order": "lifo"}, "order is 'lifo', not fifo or critical_path"),
        ({"segments": "x"}, "segments is 'x', not fastest, fewest or none"),
        ({"evaluations": "9"}, "evaluations is '9', not a whole number or None"),
    ],
)
def test_a_value_out_of_range_is_told(change: dict[str, Any], message: str) -> None:
    with pytest.raises(CompileError) as refused:
        PlaceOptions(**change)
    (told,) = refused.value.diagnostics
    assert (told.code, told.message) == ("MCM-U004", message)


def test_values_at_the_edge_of_the_range_hold() -> None:
    PlaceOptions(level=0, evaluations=1, seed=2**63 - 1, budget_s=1e-3, dispatch_s=0.0)
