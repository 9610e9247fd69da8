from __future__ import annotations

import subprocess
import sys

import onnx_ir as ir
import pytest

from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.target import Target
from mcm_hardware import builtin_targets
from mcm_hardware.ring_target import RingTarget

GOOD = builtin_targets.mcm36().source_text


def faults(text: str) -> tuple[Diagnostic, ...]:
    with pytest.raises(CompileError) as caught:
        RingTarget.from_text("mine.toml", text)
    return caught.value.diagnostics


def replaced(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new, 1)


@pytest.mark.parametrize(
    ("make", "name", "chips", "mib"),
    [
        (builtin_targets.mcm4, "mcm4", 4, 64),
        (builtin_targets.mcm16, "mcm16", 16, 64),
        (builtin_targets.mcm36, "mcm36", 36, 64),
        (builtin_targets.mcm36_small, "mcm36-small", 36, 32),
    ],
)
def test_builtin_targets(make, name, chips, mib):
    target: Target = make()
    assert target.name == name
    limits = target.limits
    assert limits.num_chips == chips
    assert limits.sram_bytes == (mib * 2**20,) * chips
    assert (limits.link_bytes_per_s, limits.hop_latency_s) == (32e9, 1e-6)
    assert (limits.host_io, limits.host_bytes_per_s, limits.channel_slots) == ("any", 32e9, 2)
    assert str(chips) in target.summary
    assert RingTarget.from_text(name, target.source_text) == target


def test_units_of_the_chip():
    chip = builtin_targets.mcm36().spec.reference
    assert (chip.array.rows, chip.array.cols, chip.array.clock_hz) == (64, 64, 500e6)
    assert (chip.vector.lanes, chip.vector.clock_hz) == (128, 500e6)
    assert chip.sram_bytes_per_s == 256e9
    assert chip.launch_s == pytest.approx(150e-9)
    assert chip.storage.element_bits(ir.DataType.FLOAT) == 16
    assert chip.storage.element_bits(ir.DataType.INT64) == 32
    assert chip.storage.element_bits(ir.DataType.INT8) == 8


def test_not_toml_names_the_line():
    (fault,) = faults('family = "ring"\n\nnum chips = 3\n')
    assert fault.code == "MCM-T001"
    assert fault.at == "mine.toml:3"


def test_nested_without_end_is_not_toml():
    (fault,) = faults("x = " + "[" * 100_000)
    assert fault.code == "MCM-T001"


@pytest.mark.parametrize(
    ("old", "new", "code", "path", "hint"),
    [
        ("num_chips = 36", "num_chps = 36", "MCM-T002", "package.num_chps", "num_chips"),
        ("clock_mhz = 500", "clock_ghz = 0.5", "MCM-T002", "chip.mac_array.clock_ghz", "clock_mhz"),
        ("[link]", "[lnk]", "MCM-T002", "lnk", "did you mean"),
        ("sram_mib = 64", "", "MCM-T003", "chip.sram_mib", "[chip]"),
        ("num_chips = 36", 'num_chips = "36"', "MCM-T004", "package.num_chips", None),
        ("num_chips = 36", "num_chips = 36.5", "MCM-T004", "package.num_chips", None),
        ("num_chips = 36", "num_chips = true", "MCM-T004", "package.num_chips", None),
        ("lanes = 128", "lanes = []", "MCM-T004", "chip.vector_unit.lanes", None),
        ('host_io = "any"', "host_io = 1", "MCM-T004", "package.host_io", None),
        ("FLOAT = 16", 'FLOAT = "16"', "MCM-T004", "storage_bits.FLOAT", None),
        ("num_chips = 36", "num_chips = 0", "MCM-T005", "package.num_chips", "unit"),
        ("num_chips = 36", "num_chips = 5000", "MCM-T005", "package.num_chips", "unit"),
        ("rows = 64", "rows = -64", "MCM-T005", "chip.mac_array.rows", "unit"),
        ("sram_mib = 64", "sram_mib = 2097152", "MCM-T005", "chip.sram_mib", "unit"),
        ("sram_mib = 64", "sram_mib = nan", "MCM-T005", "chip.sram_mib", "unit"),
        ("sram_mib = 64", "sram_mib = 0x" + "f" * 5000, "MCM-T005", "chip.sram_mib", "unit"),
        ("latency_us = 1.0", "latency_us = -1.0", "MCM-T005", "link.hop_latency_us", "unit"),
        ("alignment_bytes = 64", "alignment_bytes = 48", "MCM-T005",
         "chip.buffer_alignment_bytes", None),
        ('host_io = "any"', 'host_io = "some"', "MCM-T005", "package.host_io", None),
        ('family = "ring"', 'family = "mesh"', "MCM-T005", "family", None),
        ("FLOAT = 16", "FLOAT = 17", "MCM-T005", "storage_bits.FLOAT", "16"),
        ("FLOAT = 16", "FLOAT32 = 16", "MCM-T006", "storage_bits.FLOAT32", "FLOAT"),
    ],
)  # fmt: skip
def test_one_fault(old, new, code, path, hint):
    text = replaced(old, new)
    found = [fault for fault in faults(text) if fault.code == code]
    assert len(found) == 1
    fault = found[0]
    assert f"'{path}'" in fault.at
    if new and not new.startswith("["):
        line = next(number for number, x in enumerate(text.splitlines(), 1) if new in x)
        assert fault.at.startswith(f"mine.toml:{line}:")
    if hint is not None:
        assert hint in fault.hint


def test_every_fault_is_found_at_once():
    text = replaced("num_chips = 36", "num_chips = 0").replace("rows = 64", "rowz = 64")
    text = text.replace("UINT64 = 32", "UINT65 = 32").replace("lanes = 128", "lanes = false")
    assert [fault.code for fault in faults(text)] == [
        "MCM-T005", "MCM-T002", "MCM-T004", "MCM-T006", "MCM-T003"
    ]  # fmt: skip


def test_empty_file_misses_every_required_key():
    found = faults("")
    assert {fault.code for fault in found} == {"MCM-T003"}
    assert len(found) == 17


def test_a_table_that_is_no_table_is_one_fault():
    text = "\n".join(x for x in GOOD.splitlines() if x not in ("[link]",))
    text = text.replace("[package]", "link = 3\n[package]", 1)
    codes = [fault.code for fault in faults(text) if "'link" in fault.at]
    assert codes == ["MCM-T004"]


def test_hostile_keys_are_printed_safely():
    (fault,) = faults(GOOD + '\n["\\u001b[31m"]\n')
    assert "\x1b" not in str(fault)


def test_listing_targets_loads_no_engine():
    code = (
        "import sys; from mcm_hardware.builtin_targets import mcm36; mcm36().limits;"
        "print([m for m in ('numba', 'onnxruntime', 'mcm_hardware.roofline') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
