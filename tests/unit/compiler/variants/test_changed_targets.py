"""Targets with other numbers."""

from __future__ import annotations

import pytest

from mcm_compiler.components.target_loading import load_target
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.variants.sensitivities import changed_target, content_text, value_of


def test_one_number_changes_and_the_others_stay() -> None:
    target = load_target("mcm16")
    changed = changed_target(target, {"chip.sram_mib": 16, "link.switching": "cut_through"})
    before, after = target.limits, changed.target.limits
    assert after.sram_bytes == (16 * 2**20,) * 16
    assert (after.num_chips, after.link_bytes_per_s) == (before.num_chips, before.link_bytes_per_s)
    assert value_of(changed.target, "link.switching") == "cut_through"
    assert value_of(target, "link.switching") is None
    assert value_of(target, "chip") is None


def test_equal_content_has_equal_text() -> None:
    target = load_target("mcm16")
    whole, decimal = (changed_target(target, {"chip.sram_mib": v}) for v in (64, 64.0))
    assert whole.text == decimal.text == content_text(target.source_text)
    assert changed_target(target, {"chip.sram_mib": 32}).text != whole.text


@pytest.mark.parametrize(
    ("key", "value", "code", "told"),
    [
        ("chip.sram_mb", 3, "MCM-T002", "write it as 'sram_mib'"),
        ("chip.srammib", 3, "MCM-T002", "did you mean 'chip.sram_mib'"),
        ("package.num_chips.x", 3, "MCM-T002", "no table"),
        ("package.num_chips", 2.5, "MCM-T004", "whole number"),
        ("package.num_chips", 0, "MCM-T005", "not positive"),
    ],
)
def test_what_makes_no_target_is_told(key: str, value: float, code: str, told: str) -> None:
    with pytest.raises(CompileError) as caught:
        changed_target(load_target("mcm16"), {key: value})
    (found,) = caught.value.diagnostics
    assert found.code == code
    assert told in f"{found.message} {found.hint}"
