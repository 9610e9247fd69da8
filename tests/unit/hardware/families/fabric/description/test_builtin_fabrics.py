"""The fabrics that come with the compiler."""

from __future__ import annotations

import pytest

from mcm_compiler.contracts.fabrics.fabric import COMPUTE, MEMORY
from mcm_hardware.families.fabric.description.builtin_fabrics import (
    BUILTIN_FABRICS,
    builtin_spec,
    fabric_12,
    fabric_16,
    fabric_20,
)


@pytest.mark.parametrize("side", [12, 16, 20])
def test_sides(side: int) -> None:
    fabric = {12: fabric_12, 16: fabric_16, 20: fabric_20}[side]()
    assert fabric.name == f"fabric-{side}"
    assert (fabric.rows, fabric.cols) == (side, side)
    assert len(fabric.of_kind(COMPUTE)) == len(fabric.of_kind(MEMORY)) == side * side // 2
    assert fabric.num_channels == -(-side * 2 // 3)


def test_memory() -> None:
    mib = [f().memory_bytes * len(f().of_kind(MEMORY)) / 2**20 for f in (fabric_16, fabric_20)]
    assert mib == [64, 100]


def test_descriptions_are_kept() -> None:
    for name in BUILTIN_FABRICS:
        assert f"rows = {name[-2:]}\n" in builtin_spec(name).source_text
        assert builtin_spec(name).summary
