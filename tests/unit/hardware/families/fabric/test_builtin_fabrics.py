"""The fabrics that come with the compiler."""

from __future__ import annotations

import pytest

from mcm_compiler.contracts.fabrics.fabric import COMPUTE, MEMORY
from mcm_hardware.families.fabric.fabric_package import fabric_12, fabric_16, fabric_20


@pytest.mark.parametrize("side", [12, 16, 20])
def test_sides(side: int) -> None:
    target = {12: fabric_12, 16: fabric_16, 20: fabric_20}[side]()
    fabric = target.fabric
    assert fabric.name == target.name == f"fabric-{side}"
    assert (fabric.rows, fabric.cols) == (side, side)
    assert len(fabric.of_kind(COMPUTE)) == len(fabric.of_kind(MEMORY)) == side * side // 2
    assert fabric.num_channels == -(-side * 2 // 3)
    assert f"rows = {side}\n" in target.source_text
    assert target.summary


def test_memory() -> None:
    fabrics = [make().fabric for make in (fabric_16, fabric_20)]
    mib = [f.memory_bytes * len(f.of_kind(MEMORY)) / 2**20 for f in fabrics]
    assert mib == [64, 100]
