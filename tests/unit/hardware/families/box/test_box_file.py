"""Descriptions of boxes: every fault has its place, and numbers arrive in base units."""

from __future__ import annotations

import numpy as np
import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.machines.machine import HOST
from mcm_hardware.families.box.box_file import parse_box
from mcm_hardware.families.box.box_package import BoxPackage

TEXT = """
family = "box"
[copy]
host_bandwidth_gb_per_s = 8
device_bandwidth_gb_per_s = 6
latency_us = 20
[kind.mine]
role = "gpu"
memory_mib = 100
reserved_memory_mib = 20
memory_bandwidth_gb_per_s = 50
peak_tflop_per_s = 3
launch_overhead_us = 2
unsupported_ops = ["Softmax"]
[[device]]
kind = "mine"
count = 2
[[device]]
kind = "haswell"
[[device]]
kind = "k40"
"""


def _faults(text: str) -> list[tuple[str, str | None]]:
    with pytest.raises(CompileError) as caught:
        parse_box("box.toml", text)
    return [(d.code, d.at) for d in caught.value.diagnostics]


def test_numbers_of_a_box() -> None:
    spec = parse_box("mine", TEXT)
    box = spec.box
    assert box.kinds == ("mine", "haswell", "k40")
    assert box.devices == ("gpu:0", "gpu:1", "cpu:0", "gpu:2")
    assert box.kind_of.tolist() == [0, 0, 1, 2]
    assert box.host == 2
    assert box.memory_bytes[0] == 80 * 2**20
    assert box.copy_bytes_per_s[0].tolist() == [np.inf, 6e9, 8e9, 6e9]
    assert box.copy_latency_s[2].tolist() == pytest.approx([20e-6, 20e-6, 0.0, 20e-6])
    mine = spec.kinds[0]
    assert (mine.flops_per_s, mine.memory_bytes_per_s) == (3e12, 50e9)
    assert mine.launch_s == pytest.approx(2e-6)
    assert mine.support is not None
    assert mine.support.ops == {"Softmax"}


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('kind = "k40"', 'kind = "k41"', "MCM-D003"),
        ("count = 2", "count = 0", "MCM-T005"),
        ("count = 2", "count = 63", "MCM-T005"),
        ("latency_us = 20", "latency_us = 20\nspeed = 1", "MCM-T002"),
        ("latency_us = 20", "", "MCM-T003"),
        ('role = "gpu"', "", "MCM-T003"),
        ('role = "gpu"', 'role = "gpu"\ncolour = 1', "MCM-T002"),
        ("reserved_memory_mib = 20", "reserved_memory_mib = 200", "MCM-T008"),
        ('["Softmax"]', '["Softmx"]', "MCM-T016"),
        ("[kind.mine]", '[kind."a b"]', "MCM-T005"),
        ("[copy]", "[copy]\nfoo = [", "MCM-T001"),
    ],
)
def test_faults(old: str, new: str, code: str) -> None:
    assert code in {found for found, _ in _faults(TEXT.replace(old, new))}


def test_a_box_needs_devices() -> None:
    assert ("MCM-T003", "box.toml: 'device'") in _faults(TEXT.partition("[[device]]")[0])


def test_places_are_lines_of_the_file() -> None:
    (fault,) = _faults(TEXT.replace('"k40"', '"k41"'))
    line = TEXT.splitlines().index('kind = "k40"') + 1
    assert f":{line}:" in str(fault[1])


LINK = """
[[link]]
between = ["gpu:0", "gpu:1"]
bandwidth_gb_per_s = 50
latency_us = 9
[[link]]
between = ["gpu:2", "cpu:0"]
bandwidth_gb_per_s = 12
"""


def test_links_join_pairs_of_devices() -> None:
    box = parse_box("mine", TEXT + LINK).box
    assert box.copy_bytes_per_s[:2, :2].tolist() == [[np.inf, 50e9], [50e9, np.inf]]
    assert box.copy_latency_s[0, 1] == box.copy_latency_s[1, 0] == pytest.approx(9e-6)
    assert box.copy_bytes_per_s[2, 3] == box.copy_bytes_per_s[3, 2] == 12e9
    assert box.copy_latency_s[3, 2] == pytest.approx(20e-6)
    assert box.copy_bytes_per_s[0, 3] == 6e9
    shown = BoxPackage.from_text("mine", TEXT + LINK).details()
    assert shown["copy"]["device_bandwidth_gb_per_s"] == 6
    assert shown["link gpu:0 - gpu:1"] == {"bandwidth_gb_per_s": 50, "latency_us": 9}


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('"gpu:1"]', '"gpu:9"]', "MCM-T008"),
        ('"gpu:1"]', '"gpu:0"]', "MCM-T008"),
        ('"gpu:1"]', '"gpu:1", "gpu:2"]', "MCM-T008"),
        ("bandwidth_gb_per_s = 12", "", "MCM-T003"),
        ("latency_us = 9", "latency_us = -9", "MCM-T005"),
        ("latency_us = 9", "latency_ns = 9", "MCM-T002"),
    ],
)
def test_faults_of_links(old: str, new: str, code: str) -> None:
    faults = _faults(TEXT + LINK.replace(old, new))
    assert {found for found, _ in faults} == {code}
    assert all("'link." in (at or "") for _, at in faults)


def test_a_box_is_a_machine_with_a_channel_for_each_pair() -> None:
    box = parse_box("mine", TEXT + LINK).box
    machine, devices = box.machine, range(box.num_devices)
    assert (machine.family, machine.num_devices, machine.num_channels) == ("box", 4, 12)
    assert machine.reaches.all()
    assert machine.memory_bytes.tolist() == box.memory_bytes.tolist()
    for a in devices:
        assert (machine.route(HOST, a), machine.route(a, HOST)) == ((), ())
        for b in devices:
            if a == b:
                assert machine.route(a, b) == ()
                assert (box.copy_bytes_per_s[a, b], box.copy_latency_s[a, b]) == (np.inf, 0.0)
                continue
            (channel,) = machine.route(a, b)
            assert machine.channel_ends[channel].tolist() == [a, b]
            assert machine.channel_bytes_per_s[channel] == box.copy_bytes_per_s[a, b]
            assert machine.channel_latency_s[channel] == box.copy_latency_s[a, b]
    with pytest.raises(ValueError, match="read-only"):
        box.copy_bytes_per_s[0, 1] = 1.0
