from __future__ import annotations

import subprocess
import sys

import onnx_ir as ir
import pytest

from mcm_compiler.components.target_loading import target_from_text
from mcm_compiler.contracts.target import Target
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_hardware.descriptions.description_reader import MAX_FAULTS
from mcm_hardware.families.ring import ring_target
from mcm_hardware.families.ring.ring_machine import RingSpec
from mcm_hardware.families.ring.ring_target import RingTarget

GOOD = ring_target.mcm36().source_text


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
        (ring_target.mcm4, "mcm4", 4, 64),
        (ring_target.mcm16, "mcm16", 16, 64),
        (ring_target.mcm36, "mcm36", 36, 64),
        (ring_target.mcm36_small, "mcm36-small", 36, 32),
        (ring_target.mcm36_stream, "mcm36-stream", 36, 24),
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
    chip = ring_target.mcm36().spec.reference
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
        ("sram_mib = 64", "sram_kib = 65536", "MCM-T002", "chip.sram_kib", "sram_mib', in MiB"),
        ("sram_mib = 64", "sram_bytes = 65536", "MCM-T002", "chip.sram_bytes", "sram_mib"),
        ("launch_overhead_ns", "launch_overhead_us", "MCM-T002", "chip.launch_overhead_us",
         "'launch_overhead_ns', in nanoseconds"),
        ("hop_latency_us", "hop_latency_s", "MCM-T002", "link.hop_latency_s", "hop_latency_us"),
        ("sram_bandwidth_gb_per_s", "sram_bandwidth_gbps", "MCM-T002", "chip.sram_bandwidth_gbps",
         "'sram_bandwidth_gb_per_s', in 10^9 bytes per second"),
        ("sram_bandwidth_gb_per_s", "sram_bandwidth_tb_per_s", "MCM-T002",
         "chip.sram_bandwidth_tb_per_s", "sram_bandwidth_gb_per_s"),
        ("sram_mib = 64", "", "MCM-T003", "chip.sram_mib", "[chip]"),
        ("num_chips = 36", 'num_chips = "36"', "MCM-T004", "package.num_chips", None),
        ("num_chips = 36", "num_chips = 36.5", "MCM-T004", "package.num_chips", None),
        ("num_chips = 36", "num_chips = true", "MCM-T004", "package.num_chips", None),
        ("lanes = 128", "lanes = []", "MCM-T004", "chip.vector_unit.lanes", None),
        ('host_io = "any"', "host_io = 1", "MCM-T004", "package.host_io", None),
        ("FLOAT = 16", 'FLOAT = "16"', "MCM-T004", "storage_bits.FLOAT", None),
        ("num_chips = 36", "num_chips = 0", "MCM-T005", "package.num_chips", None),
        ("num_chips = 36", "num_chips = 5000", "MCM-T005", "package.num_chips", None),
        ("rows = 64", "rows = -64", "MCM-T005", "chip.mac_array.rows", None),
        ("sram_mib = 64", "sram_mib = 2097152", "MCM-T005", "chip.sram_mib", "MiB"),
        ("sram_mib = 64", "sram_mib = nan", "MCM-T005", "chip.sram_mib", "MiB"),
        ("sram_mib = 64", "sram_mib = 0x" + "f" * 5000, "MCM-T005", "chip.sram_mib", "MiB"),
        ("latency_us = 1.0", "latency_us = -1.0", "MCM-T005", "link.hop_latency_us",
         "microseconds"),
        ("alignment_bytes = 64", "alignment_bytes = 48", "MCM-T005",
         "chip.buffer_alignment_bytes", None),
        ('host_io = "any"', 'host_io = "some"', "MCM-T005", "package.host_io", None),
        ("rows = 64", "rows = 0", "MCM-T005", "chip.mac_array.rows", None),
        ("clock_mhz = 500", "clock_mhz = 1e999", "MCM-T005", "chip.mac_array.clock_mhz", "MHz"),
        ("[link]\nbandwidth_gb_per_s = 32", "[link]\nbandwidth_gb_per_s = 0", "MCM-T005",
         "link.bandwidth_gb_per_s", "10^9"),
        ("cols = 64", 'cols = 64\ndataflow = "row_stationary"', "MCM-T005",
         "chip.mac_array.dataflow", None),
        ("hop_latency_us = 1.0", 'hop_latency_us = 1.0\nswitching = "wormhole"', "MCM-T005",
         "link.switching", None),
        ("channel_slots = 2", "channel_slots = 2\nspill = true", "MCM-T004", "package.spill", None),
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
        changed = new.splitlines()[-1]
        line = next(number for number, x in enumerate(text.splitlines(), 1) if changed in x)
        assert fault.at.startswith(f"mine.toml:{line}:")
    if hint is not None:
        assert hint in fault.hint
    # A key in another unit, or misspelt, is not missing besides.
    if code != "MCM-T003":
        assert faults(text) == (fault,)


def test_every_fault_is_found_at_once():
    text = replaced("num_chips = 36", "num_chips = 0").replace("rows = 64", "rowz = 64")
    text = text.replace("UINT64 = 32", "UINT65 = 32").replace("lanes = 128", "lanes = false")
    assert [fault.code for fault in faults(text)] == [
        "MCM-T005", "MCM-T002", "MCM-T004", "MCM-T006"
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


def spec_of(text: str) -> RingSpec:
    return RingTarget.from_text("mine.toml", text).spec


def test_keys_with_defaults():
    spec = spec_of(GOOD)
    assert spec.switching == "store_and_forward"
    assert spec.reference.array.dataflow == "output_stationary"
    assert (spec.stream_bytes_per_s, spec.stream_latency_s) == (0.0, 0.0)
    assert spec.chips == (spec.reference,) * 36
    assert spec.physical == tuple(range(36))
    assert spec.hop_latency_s == (1e-6,) * 35


def test_keys_that_may_be_left_out_are_read():
    text = replaced("cols = 64", 'cols = 64\ndataflow = "weight_stationary"')
    text = text.replace("hop_latency_us = 1.0", 'hop_latency_us = 1.0\nswitching = "cut_through"')
    spec = spec_of(text)
    assert spec.reference.array.dataflow == "weight_stationary"
    assert spec.switching == "cut_through"


MEMORY = "[off_package_memory]\nbandwidth_gb_per_s = 8\nlatency_us = 0.5\n"


def test_streamed_weights():
    target = RingTarget.from_text(
        "mine.toml", replaced("channel_slots = 2", 'channel_slots = 2\nspill = "stream"') + MEMORY
    )
    assert target.limits.stream_bytes_per_s == target.spec.stream_bytes_per_s == 8e9
    assert target.spec.stream_latency_s == 5e-7


OVERRIDES = """
[[override]]
chips = [3, 0]
sram_mib = 24.5
speed = 0.5
[[override]]
chips = [1, 35]
off = true
[[override]]
chips = [2]
speed = 2
off = false
"""


def test_chips_that_differ_or_are_off():
    target = RingTarget.from_text("mine.toml", GOOD + OVERRIDES)
    spec = target.spec
    assert spec.num_chips == 34
    assert spec.physical == (0, *range(2, 35))
    assert [chip.speed for chip in spec.chips[:4]] == [0.5, 2.0, 0.5, 1.0]
    assert [chip.sram_bytes / 2**20 for chip in spec.chips[:4]] == [24.5, 64, 24.5, 64]
    # A chip that is off in between adds its hop; one at the end adds none.
    assert spec.hop_latency_s == (2e-6, *(1e-6,) * 32)
    assert spec.reference == ring_target.mcm36().spec.reference
    limits = target.limits
    assert limits.num_chips == 34
    assert limits.chip_speed[:3] == (0.5, 2.0, 0.5)
    assert limits.sram_bytes[:2] == (spec.chips[0].sram_bytes, 64 * 2**20)


def test_overrides_may_stand_in_one_line():
    text = "override = [{ chips = [0], off = true }, { chips = [1], speed = 0.5 }]\n" + GOOD
    assert spec_of(text).physical == tuple(range(1, 36))
    (fault,) = faults(text.replace("speed = 0.5", "speed = 0"))
    assert fault.at == "mine.toml:1: 'override.speed'"


@pytest.mark.parametrize(
    ("tail", "code", "line", "message"),
    [
        ("[[override]]\nchips = [3]", "MCM-T008", 1, "changes nothing"),
        ("[[override]]\nchips = [3]\noff = false", "MCM-T008", 1, "changes nothing"),
        ("[[override]]\nchips = []\nspeed = 2", "MCM-T008", 2, "no chip"),
        ("[[override]]\nspeed = 2", "MCM-T003", 1, "missing"),
        ("[[override]]\nchips = [36]\nspeed = 2", "MCM-T005", 2, "chips 0 to 35"),
        ("[[override]]\nchips = [\n0,\n-1]\nspeed = 2", "MCM-T005", 4, "no chip -1"),
        ("[[override]]\nchips = [1, 2.0]\nspeed = 2", "MCM-T004", 2, "whole number"),
        ("[[override]]\nchips = 3\nspeed = 2", "MCM-T004", 2, "a list"),
        ("[[override]]\nchips = [3]\nspeed = 0", "MCM-T005", 3, "not positive"),
        ("[[override]]\nchips = [3]\nspeed = 1e4", "MCM-T005", 3, "not a sensible"),
        ("[[override]]\nchips = [3]\nsram_mib = nan", "MCM-T005", 3, "not a finite"),
        ("[[override]]\nchips = [3]\noff = 1", "MCM-T004", 3, "true or false"),
        ("[[override]]\nchips = [3]\nsram_gib = 1", "MCM-T002", 3, "no such key"),
        ("[[override]]\nchips = [3]\noff = true\nspeed = 2", "MCM-T008", 4, "has no speed"),
        ("[[override]]\nchips = [3, 3]\nspeed = 2", "MCM-T008", 2, "chip 3 is overridden twice"),
        ("[[override]]\nchips = [3]\nspeed = 2\n[[override]]\nchips = [3]\noff = true",
         "MCM-T008", 5, "chip 3 is overridden twice"),
        (f"[[override]]\nchips = {list(range(36))}\noff = true", "MCM-T008", 3, "all 36 chips"),
        ("[override]\nchips = [3]\nspeed = 2", "MCM-T004", 1, "[[override]]"),
        (MEMORY, "MCM-T008", 1, "nothing uses"),
    ],
)  # fmt: skip
def test_faults_of_overrides_and_memory(tail, code, line, message):
    (fault,) = faults(f"{GOOD}\n{tail}\n")
    assert (fault.code, fault.at.split(":")[1]) == (code, str(GOOD.count("\n") + 1 + line))
    assert message in fault.message


def test_streaming_needs_a_memory_to_stream_from():
    text = replaced("channel_slots = 2", 'channel_slots = 2\nspill = "stream"')
    (fault,) = faults(text)
    assert fault.code == "MCM-T008"
    assert "'package.spill'" in fault.at
    assert "[off_package_memory]" in fault.hint
    missing = faults(text + "[off_package_memory]\nbandwidth_gb_per_s = 8\n")
    assert [(f.code, "'off_package_memory.latency_us'" in f.at) for f in missing] == [
        ("MCM-T003", True)
    ]


def test_dots_in_a_key_are_no_tables():
    (fault,) = faults('"chip.sram_mib" = 3\n' + GOOD)
    assert fault.code == "MCM-T002"


HOSTILE = {
    "many keys": 'family = "ring"\n' + "".join(f"k{i} = 1\n" for i in range(4000)),
    "many tables": 'family = "ring"\n' + "".join(f"[t{i}]\n" for i in range(4000)),
    "many types": GOOD + "".join(f"t{i} = 1\n" for i in range(4000)),
    "many overrides": GOOD + "[[override]]\n" * 4000,
    "long list": GOOD + "[[override]]\noff = true\nchips = [" + "1," * 20_000 + "]",
    "long key": GOOD + "k" * 200_000 + " = 1",
    "huge whole number": GOOD.replace("num_chips = 36", "num_chips = 0x" + "f" * 200_000),
    "huge speed": GOOD + "[[override]]\nchips = [1]\nspeed = 0x" + "f" * 100_000,
    "huge place": GOOD + "[[override]]\nchips = [0x" + "f" * 100_000 + "]\nspeed = 2",
    "minus zero": GOOD.replace("num_chips = 36", "num_chips = -0"),
    "date": GOOD.replace("num_chips = 36", "num_chips = 1979-05-27T07:32:00Z"),
    "array of tables": GOOD.replace("[chip.mac_array]", "[[chip.mac_array]]"),
    "table for a list": GOOD + "[[override]]\nspeed = 2\n[override.chips]\n",
    "table for a number": GOOD + "[link.hop_latency_us.x]\n",
    "NUL in a key": GOOD + '"\\u0000" = 1\n',
    "no key": GOOD + '"" = 1\n',
    "direction marks": GOOD + '"\\u202e" = 1\n',
    "surrogate": GOOD + "\ud800",
    "all levels": 'family = "ring"\n' + ("a." * 31 + "b = 1\n") * 100,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_descriptions_are_diagnosed(text):
    with pytest.raises(CompileError) as caught:
        target_from_text("mine", text)
    found = caught.value.diagnostics
    assert 1 <= len(found) <= MAX_FAULTS + 1
    for fault in found:
        assert fault.code.startswith("MCM-T")
        assert not {"\x00", "\x1b", "\u202e"} & set(str(fault))


def test_faults_that_are_not_listed_are_counted():
    *listed, rest = faults('family = "ring"\n' + "".join(f"k{i} = 1\n" for i in range(1000)))
    assert len(listed) == MAX_FAULTS
    assert rest.code == "MCM-T007"
    assert rest.message.startswith(str(1000 + 16 - MAX_FAULTS))


def test_details_are_the_keys_and_what_follows_from_them():
    details = RingTarget.from_text("mine", GOOD + OVERRIDES).details()
    assert details["package"]["num_chips"] == 36
    assert details["package"]["spill"] == "none"
    assert details["chip.mac_array"]["dataflow"] == "output_stationary"
    assert details["chips 0, 3"] == {"sram_mib": 24.5, "speed": 0.5}
    assert details["chips 2"] == {"sram_mib": 64.0, "speed": 2.0}
    assert details["chips 4 to 34"] == {"sram_mib": 64.0, "speed": 1.0}
    assert details["chips 1, 35"] == {"off": True}
    assert details["bytes_per_element"]["FLOAT"] == 2
    assert details["bytes_per_element"]["INT4"] == 0.5
    derived = details["derived"]
    assert derived["usable_chips"] == 34
    assert derived["array_tera_ops_per_s"] == pytest.approx(4.096)
    assert derived["package_array_tera_ops_per_s"] == pytest.approx(4.096 * (31 + 2 + 1))
    assert derived["package_sram_mib"] == 32 * 64 + 2 * 24.5
    assert derived["package_hop_latency_us"] == pytest.approx(34)


def test_listing_targets_loads_no_engine():
    code = (
        "import sys; from mcm_hardware.families.ring.ring_target import mcm36; mcm36().limits;"
        "heavy = 'numba', 'onnxruntime', 'mcm_hardware.chip.roofline'; "
        "print([m for m in heavy if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
