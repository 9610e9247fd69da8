"""Sentences of the report of a placed model."""

from __future__ import annotations

import pytest

from mcm_compiler.placed.placement_report import segments_text


@pytest.mark.parametrize(
    ("seconds", "step_s", "compared"),
    [(2e-3, 1e-3, "100.0 % more"), (1e-3, 2e-3, "50.0 % less"), (5e-5, 0.0, "and op by op 0 s")],
)
def test_what_segments_cost(seconds: float, step_s: float, compared: str) -> None:
    text = segments_text(2, 1e-5, seconds, step_s)
    assert text.startswith("As 2 segments of one device each, dispatched in 10.0 us, the step ")
    assert text.endswith(f", {compared}.")
