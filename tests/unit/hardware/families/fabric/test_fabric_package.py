"""The judge of a package of fabrics, whose plays end where its caller says."""

from __future__ import annotations

from typing import cast

from mcm_compiler.contracts.fabrics.target import MapsChips
from mcm_hardware.families.fabric.fabric_package import fabric_12
from mcm_hardware.families.fabric.measuring.player import ENOUGH, MOST_HOPS, FlitJudge


def test_plays_end_after_the_hops_that_are_asked_for() -> None:
    target = cast("MapsChips", fabric_12())
    assert target.mapping_judge() == FlitJudge(most_hops=MOST_HOPS, enough=ENOUGH)
    short = target.mapping_judge(1000)
    assert short == FlitJudge(most_hops=1000, enough=ENOUGH)
    assert short.physics == target.mapping_judge().physics
