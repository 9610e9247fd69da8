"""What a family of packages gets from `ChipsPackage`, on a mesh that has nothing else."""

from __future__ import annotations

import pytest

from mcm_compiler.contracts.target import ChipModel, EvaluatesBatches, Lowers, Simulates, Wire
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.machines.machine import HOST
from mcm_hardware.families.ring.ring_target import mcm36
from tests.generators.small_mesh import SmallMesh, small_mesh

RING_TEXT = mcm36().source_text
TEXT = (
    RING_TEXT.replace('family = "ring"', 'family = "small_mesh"')
    .replace("num_chips = 36\n", "")
    .replace('host_io = "any"\n', "")
    .replace("hop_latency_us", "latency_us")
) + "\n[mesh]\nrows = 2\ncolumns = 3\n"


def faults(text: str) -> list[tuple[str, str]]:
    with pytest.raises(CompileError) as caught:
        SmallMesh.from_text("mine", text)
    return [(d.code, d.message) for d in caught.value.diagnostics]


def test_a_description_has_the_chip_of_all_packages_and_keys_of_the_family():
    mesh = SmallMesh.from_text("mine", TEXT)
    ring = mcm36().spec
    assert mesh.spec.reference == ring.reference
    assert (mesh.spec.rows, mesh.spec.columns, mesh.spec.num_chips) == (2, 3, 6)
    assert mesh.spec.link_bytes_per_s == ring.link_bytes_per_s
    assert mesh.machine is mesh.machine
    assert mesh == SmallMesh.from_text("mine", TEXT)


def test_overrides_count_the_chips_of_the_family():
    text = TEXT + "[[override]]\nchips = [5]\nsram_mib = 1\nspeed = 0.5\n"
    machine = SmallMesh.from_text("mine", text).machine
    assert machine.memory_bytes.tolist()[4:] == [mcm36().spec.reference.sram_bytes, 2**20]
    assert machine.speed.tolist() == [1.0] * 5 + [0.5]
    text = TEXT + "[[override]]\nchips = [6]\nspeed = 0.5\n"
    assert faults(text) == [("MCM-T005", "there is no chip 6: the package has chips 0 to 5")]


def test_faults_are_those_of_the_family():
    assert faults(TEXT.replace("rows = 2\n", "")) == [("MCM-T003", "the key is missing")]
    assert faults(TEXT + "depth = 3\n") == [("MCM-T002", "a small mesh has no such key")]
    assert faults(TEXT.replace("rows = 2", "rows = 9")) == [
        ("MCM-T005", "9 is not a sensible value; the greatest is 8")
    ]
    spill = TEXT.replace("channel_slots", 'spill = "stream"\nchannel_slots')
    assert faults(spill) == [("MCM-T008", "there is no off-package memory to stream from")]
    codes = {code for code, _ in faults(RING_TEXT.replace('"ring"', '"small_mesh"'))}
    assert codes == {"MCM-T002", "MCM-T003"}


def test_a_family_may_need_all_chips():
    text = TEXT + "[[override]]\nchips = [1]\noff = true\n\n[[override]]\nchips = [2]\nspeed = 2\n"
    assert faults(text) == [("MCM-T008", "a small mesh has no way around a chip that is off")]
    # Whatever else an override may be is told once.
    assert faults("override = 3\n" + TEXT) == [
        ("MCM-T004", "expected tables [[override]], found a whole number")
    ]


def test_details_have_the_keys_of_the_family():
    details = SmallMesh.from_text("mine", TEXT).details()
    assert details["mesh"] == {"rows": 2, "columns": 3}
    assert details["chips 0 to 5"]["speed"] == 1.0
    assert details["derived"]["usable_chips"] == 6
    assert "package_hop_latency_us" not in details["derived"]


def test_it_lowers_and_simulates_and_evaluates_no_batches():
    mesh = small_mesh()
    assert isinstance(mesh, Lowers)
    assert isinstance(mesh, Simulates)
    assert not isinstance(mesh, EvaluatesBatches)
    assert mesh.cost_model().name == "cycles"
    assert mesh.summary == "6 chips, small_mesh"
    assert mesh.limits.num_chips == 6


def test_a_model_over_a_corner_of_the_mesh(model):
    head = model("g (float[64] x) => (float[64] a) { a = Relu(x) }")
    tail = model("g (float[64] a) => (float[64] y) { y = Neg(a) }")
    mesh = small_mesh()
    program = mesh.lower(
        [ChipModel(0, tail, ("a",), ("y",)), ChipModel(5, head, ("x",), ("a",))],
        [Wire("x", HOST, (5,)), Wire("a", 5, (0,)), Wire("y", 0, (HOST,))],
    )
    assert program.target == "small"
    assert program.overflows == ()
    assert [(t.source, t.destination) for t in program.transfers] == [(HOST, 5), (5, 0), (0, HOST)]
    result = mesh.simulator().run(program)
    size = mesh.spec.reference.storage.value_bytes(head.graph.inputs[0])
    assert {(k.source, k.destination): k.bytes_per_inference for k in result.links} == {
        (HOST, 5): size, (5, 4): size, (4, 3): size, (3, 0): size, (0, HOST): size
    }  # fmt: skip
    # A link takes 128 s. The way of three with 0.5 s of latency each asks for a fourth buffer.
    assert result.period_s == pytest.approx(128.0)
    assert max(t.slots for t in program.transfers) > 2


def test_weights_stream_where_memory_has_a_channel(model):
    weights = ", ".join(f"float[16,16] w{i} = {{{','.join('1' * 256)}}}" for i in range(6))
    body = "a0 = MatMul(x, w0) " + "".join(f"a{i} = MatMul(a{i - 1}, w{i}) " for i in range(1, 5))
    source = model(
        f"g (float[1,16] x) => (float[1,16] y) <{weights}> {{ {body} y = MatMul(a4, w5) }}"
    )
    chips, wires = (
        [ChipModel(1, source, ("x",), ("y",))],
        [Wire("x", HOST, (1,)), Wire("y", 1, (HOST,))],
    )
    text = TEXT.replace("sram_mib = 64", f"sram_mib = {3 / 1024}")
    tight = SmallMesh.from_text("tight", text)
    (overflow,) = tight.lower(chips, wires).overflows
    assert any("stream weights" in lever.action for lever in overflow.levers)
    streaming = SmallMesh.from_text(
        "streaming",
        text.replace("channel_slots", 'spill = "stream"\nchannel_slots')
        + "[off_package_memory]\nbandwidth_gb_per_s = 1\nlatency_us = 1\n",
    )
    program = streaming.lower(chips, wires)
    assert program.overflows == ()
    assert any(t.source == -2 for t in program.transfers)
    assert streaming.simulator().run(program).period_s > 0
