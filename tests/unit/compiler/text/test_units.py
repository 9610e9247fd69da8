"""Numbers for people."""

from __future__ import annotations

import pytest

from mcm_compiler.text.units import bytes_text, count_text, percent_text, rate_text, seconds_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.0, "0 s"),
        (1.5e-9, "1.50 ns"),
        (123e-6, "123 us"),
        (12.34e-6, "12.3 us"),
        (999.6e-6, "1.00 ms"),
        (999.4e-6, "999 us"),
        (9.996e-3, "10.0 ms"),
        (61.0, "61.0 s"),
        (1e-12, "1e-12 s"),
    ],
)
def test_seconds_have_three_digits_and_a_unit_that_fits(seconds: float | None, text: str) -> None:
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "-"),
        (0, "0 B"),
        (1000, "1000 B"),
        (1024, "1.0 KiB"),
        (64 << 20, "64.0 MiB"),
        ((1 << 20) - 1, "1.0 MiB"),
        (3 << 30, "3.0 GiB"),
    ],
)
def test_bytes_are_binary_units(size: int | None, text: str) -> None:
    assert bytes_text(size) == text


def test_rates_shares_and_counts() -> None:
    assert rate_text(8123.7) == "8,124 inferences/s"
    assert rate_text(0.5) == "0.50 inferences/s"
    assert rate_text(None) == "-"
    assert percent_text(0.8724) == "87.2 %"
    assert percent_text(-0.013) == "-1.3 %"
    assert percent_text(-1e-16) == "0.0 %"  # a bound that rounding puts above what meets it
    assert percent_text(None) == "-"
    assert count_text(1, "op") == "1 op"
    assert count_text(2115, "op") == "2,115 ops"
    assert count_text(2, "box", "boxes") == "2 boxes"
    assert count_text(None, "op") == "- ops"
