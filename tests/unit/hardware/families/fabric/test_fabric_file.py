"""Descriptions of fabrics: sites lie where the contract says, and every fault has its place."""

from __future__ import annotations

import numpy as np
import pytest

from mcm_compiler.contracts.fabrics.fabric import COMPUTE, IO, MEMORY
from mcm_compiler.diagnostics import CompileError
from mcm_hardware.families.fabric.fabric_file import parse_fabric
from tests.generators.small_fabric import small_fabric

TEXT = """
family = "fabric"
[grid]
rows = 3
cols = 4
clock_mhz = 1000
[compute]
macs_per_cycle = 256
lanes = 32
[memory]
unit_kib = 256
banks = 4
[network]
flit_elements = 32
element_bytes = 2
hop_cycles = 3
fifo_flits = 4
window_flits = 16
output_flits = 4
"""


def _faults(text: str) -> list[tuple[str, str | None]]:
    with pytest.raises(CompileError) as caught:
        parse_fabric("mine.toml", text)
    return [(d.code, d.at) for d in caught.value.diagnostics]


def test_a_description_gives_the_grid_that_was_made_by_hand() -> None:
    _, fabric = parse_fabric("small", TEXT)
    for name, wanted in vars(small_fabric()).items():
        found = getattr(fabric, name)
        assert np.array_equal(found, wanted), name
        assert not isinstance(wanted, np.ndarray) or found.dtype == wanted.dtype


@pytest.mark.parametrize(("rows", "cols"), [(1, 2), (2, 1), (5, 3), (64, 64)])
def test_sites_of_any_grid(rows: int, cols: int) -> None:
    text = TEXT.replace("rows = 3", f"rows = {rows}").replace("cols = 4", f"cols = {cols}")
    _, fabric = parse_fabric("mine", text.replace("clock", "io_sites_per_channel = 2\nclock"))
    inner = rows * cols
    assert fabric.num_sites == inner + 2 * rows
    assert len(fabric.of_kind(COMPUTE)) == (inner + 1) // 2
    assert len(fabric.of_kind(MEMORY)) == inner // 2
    assert fabric.of_kind(IO).tolist() == list(range(inner, inner + 2 * rows))
    assert fabric.switch[:inner].tolist() == list(range(inner))
    assert set((fabric.switch[inner:] % cols).tolist()) == {0, cols - 1}
    assert np.bincount(fabric.switch[inner:] // cols).tolist() == [2] * rows
    assert np.bincount(fabric.channel[inner:]).tolist() == [2] * rows
    assert fabric.num_channels == rows


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("rows = 3", "rows = 65", "MCM-T005"),
        ("rows = 3", "rows = 0", "MCM-T005"),
        ("rows = 3", "rows = 3.5", "MCM-T004"),
        ("rows = 3", 'rows = "3"', "MCM-T004"),
        ("rows = 3", "", "MCM-T003"),
        ("rows = 3", "rows = 3\nlayers = 2", "MCM-T002"),
        ("rows = 3\ncols = 4", "rows = 1\ncols = 1", "MCM-T008"),
        ("unit_kib = 256", "unit_mib = 256", "MCM-T002"),
        ("unit_kib = 256", "unit_kib = 1099511627776", "MCM-T005"),
        ("banks = 4", "banks = 1", "MCM-T005"),
        ("element_bytes = 2", "element_bytes = 3", "MCM-T005"),
        ("fifo_flits = 4", "fifo_flits = 0", "MCM-T005"),
        ("window_flits = 16", "window_flits = -1", "MCM-T005"),
        ("clock_mhz = 1000", "clock_mhz = inf", "MCM-T005"),
        ('"fabric"', '"box"', "MCM-T005"),
        ("[network]", "[network", "MCM-T001"),
    ],
)
def test_faults(old: str, new: str, code: str) -> None:
    assert old in TEXT
    assert code in {found for found, _ in _faults(TEXT.replace(old, new))}


def test_flits_larger_than_a_memory_unit() -> None:
    text = TEXT.replace("unit_kib = 256", "unit_kib = 1")
    text = text.replace("flit_elements = 32", "flit_elements = 1024")
    assert [code for code, _ in _faults(text)] == ["MCM-T008"]


def test_a_unit_that_is_not_ours_is_put_right() -> None:
    with pytest.raises(CompileError) as caught:
        parse_fabric("mine.toml", TEXT.replace("unit_kib", "unit_mib"))
    hints = " ".join(d.hint or "" for d in caught.value.diagnostics)
    assert "unit_kib" in hints


def test_places_are_lines_of_the_file() -> None:
    (fault,) = _faults(TEXT.replace("banks = 4", "banks = 5000"))
    line = TEXT.splitlines().index("banks = 4") + 1
    assert f":{line}:" in str(fault[1])
