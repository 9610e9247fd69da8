"""Packages of several kinds of chips: descriptions, times, placements, bounds, and faults."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from click.testing import CliRunner
from safetensors.numpy import load, save

from mcm_compiler.api import load_target
from mcm_compiler.artifact.layout import sha256_file
from mcm_compiler.certificate.files import read_certificate
from mcm_compiler.cli.main import cli
from mcm_compiler.components.cost_choice import with_cost_model
from mcm_compiler.components.cost_files import held_files
from mcm_compiler.contracts.partition import LowerBound
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.machines.kind_costs import KindCosts
from mcm_compiler.report.cost_section import coverage_facts
from mcm_compiler.variants.sensitivities import changed_target, changes_of, value_of
from mcm_hardware.families.package.package_target import TopologyPackage, mesh36, mixed16
from mcm_passes.mapping.machine.device_order import device_orders
from tests.generators.partition_problems import make_problem
from tests.oracles.shown_bounds import verify_bound

MIXED = mixed16().source_text
BEFORE, _, REST = MIXED.partition("[[chip]]")
KINDS, _, AFTER = f"[[chip]]{REST}".partition("[place]")
AFTER = AFTER[AFTER.index("# Rate of each link") :]
PLACE = '[place]\nsmall = ["8-15"]\n'


def package(kinds: str = KINDS, place: str = PLACE, rest: str = AFTER) -> TopologyPackage:
    return TopologyPackage.from_text("mine.toml", f"{BEFORE}{kinds}\n{place}\n{rest}")


def faults(kinds: str = KINDS, place: str = PLACE, rest: str = AFTER) -> list[tuple[str, str]]:
    with pytest.raises(CompileError) as caught:
        package(kinds, place, rest)
    return [(fault.code, fault.message) for fault in caught.value.diagnostics]


def matmul(size: int = 512) -> ir.Node:
    shape = ir.Shape([size, size])
    float32 = ir.TensorType(ir.DataType.FLOAT)
    inputs = [ir.Value(name=name, type=float32, shape=shape) for name in ("a", "b")]
    node = ir.Node("", "MatMul", inputs, name="m")
    node.outputs[0].type, node.outputs[0].shape = float32, shape
    return node


def test_mixed16_has_8_chips_of_each_kind_and_half_the_array_takes_twice_as_long():
    target = load_target("mixed16")
    assert target.machine.device_kind.tolist() == [0] * 8 + [1] * 8
    assert target.kind_names == ("big", "small")
    big, small = (target.cost_model_of(kind).node_cost(matmul()).seconds for kind in (0, 1))
    assert 1.9 < small / big <= 2.0
    assert target.cost_model().node_cost(matmul()).seconds == big
    shown = CliRunner().invoke(cli, ["targets", "show", "mixed16"])
    assert shown.exit_code == 0
    assert "small" in shown.output
    assert "8 to 15" in shown.output


def test_a_package_of_one_kind_is_the_package_without_kinds():
    lone = mesh36().source_text.replace("[chip]", '[[chip]]\nname = "only"')
    target = TopologyPackage.from_text("mesh36", lone)
    assert target.machine.device_kind is None
    assert target.kind_names == ()
    assert target.spec.chips == mesh36().spec.chips
    assert target.package_mm2 == mesh36().package_mm2
    assert target.energy == mesh36().energy


def test_kinds_inherit_through_others_in_any_order_and_their_own_numbers_win():
    more = '[[chip]]\nname = "tiny"\nlike = "small"\nsram_mib = 4\nlaunch_overhead_ns = 300\n'
    target = package(f"{more}\n{KINDS}", '[place]\nsmall = ["8-11"]\ntiny = [12, "13-15"]\n')
    tiny, big = target.spec.chips[12], target.spec.chips[0]
    assert tiny.array.rows == 32
    assert tiny.sram_bytes == 4 * 2**20
    assert tiny.launch_s == pytest.approx(300e-9)
    assert tiny.vector == big.vector
    assert target.kind_names == ("tiny", "big", "small")
    assert target.machine.device_kind.tolist() == [1] * 8 + [2] * 4 + [0] * 4


def test_overrides_change_chips_of_each_kind():
    override = '[[override]]\nchips = [3, "9-11"]\nspeed = 0.5\n'
    chips = package(rest=f"{override}\n{AFTER}").spec.chips
    assert [chips[place].speed for place in (3, 4, 9, 11, 12)] == [0.5, 1.0, 0.5, 0.5, 1.0]
    assert [chips[place].array.rows for place in (3, 9)] == [64, 32]


def test_energy_and_area_are_those_of_each_kind():
    own = "[chip.energy]\nmac_pj = 3.0\n\n[chip.area]\nmac_mm2 = 0.006\n"
    target = package(f"{KINDS}\n{own}")
    assert target.energy_on(0).mac_j == pytest.approx(1.5e-12)
    assert target.energy_on(8).mac_j == pytest.approx(3e-12)
    assert target.energy_on(8).sram_byte_j == target.energy_on(0).sram_byte_j
    assert target.package_mm2 - mixed16().package_mm2 == pytest.approx(8 * 64 * 32 * 0.003)


def test_keys_of_kinds_are_swept_and_scaled_by_the_name_of_the_kind():
    target = load_target("mixed16")
    assert value_of(target, "chip.small.mac_array.rows") == 32
    assert value_of(target, "chip.small.sram_mib") is None
    changed = changed_target(target, {"chip.small.sram_mib": 8}).target
    assert changed.limits.sram_bytes == (64 * 2**20,) * 8 + (8 * 2**20,) * 8
    twice = {one.resource.name: one for one in changes_of(target) if one.factor == 2.0}
    assert twice["compute array"].keys == {
        "chip.big.mac_array.rows": 128,
        "chip.small.mac_array.rows": 64,
    }
    assert twice["SRAM"].target.limits.sram_bytes == (128 * 2**20,) * 16
    with pytest.raises(CompileError, match="MCM-T002"):
        changed_target(target, {"chip.huge.sram_mib": 8})


FAULTS = [
    (KINDS.replace('name = "small"\n', ""), PLACE, "MCM-T003", "no name"),
    (KINDS.replace('"small"', '"big"'), PLACE, "MCM-T008", "two kinds have the name 'big'"),
    (KINDS.replace('"small"', '"a.b"'), PLACE, "MCM-T005", "no name of a kind"),
    (KINDS.replace('"small"', "3"), PLACE, "MCM-T004", "expected a text"),
    (KINDS.replace('"small"', '"mac_array"'), PLACE, "MCM-T008", "is a table of chips"),
    (KINDS.replace('like = "big"', 'like = "bigger"'), PLACE, "MCM-T008", "no kind of chip"),
    (KINDS.replace('like = "big"', 'like = "small"'), PLACE, "MCM-T008", "in a circle"),
    (
        KINDS.replace("sram_mib = 64", 'sram_mib = 64\nlike = "small"'),
        PLACE,
        "MCM-T008",
        "'big' -> 'small' -> 'big'",
    ),
    (KINDS.replace('like = "big"', ""), PLACE, "MCM-T003", "missing"),
    (KINDS.replace("rows = 32", "rows = 0"), PLACE, "MCM-T005", "not positive"),
    (KINDS.replace("rows = 32", "rowz = 32"), PLACE, "MCM-T002", "no such key"),
    (
        KINDS.replace('like = "big"', 'like = "big"\nbuffer_alignment_bytes = 128'),
        PLACE,
        "MCM-T008",
        "align",
    ),
    (KINDS.replace('like = "big"', 'like = "big"\nkind = "fabric"'), PLACE, "MCM-T002", "no such"),
    (KINDS, "", "MCM-T008", "nothing of 'big' and 'small'"),
    (KINDS, "[place]\nsmall = []\n", "MCM-T008", "names no chip"),
    (KINDS, "[place]\nsmall = [16]\n", "MCM-T005", "chips 0 to 15"),
    (KINDS, '[place]\nsmall = ["8-16"]\n', "MCM-T005", "no chip 16"),
    (KINDS, '[place]\nsmall = ["9-8"]\n', "MCM-T005", "holds no chip"),
    (KINDS, '[place]\nsmall = ["8..15"]\n', "MCM-T005", "no range"),
    (KINDS, "[place]\nsmall = [1.5]\n", "MCM-T004", "a whole number or a range"),
    (KINDS, "[place]\nsmall = [-1]\n", "MCM-T005", "no chip -1"),
    (KINDS, "[place]\nsmall = 3\n", "MCM-T004", "expected a list"),
    (KINDS, '[place]\nsmall = [8, "8-9"]\n', "MCM-T008", "named twice"),
    (KINDS, '[place]\nsmall = ["8-15"]\nbig = ["0-8"]\n', "MCM-T008", "'big' and 'small'"),
    (KINDS, '[place]\nsmall = ["8-15"]\nbig = ["0-6"]\n', "MCM-T008", "chip 7 is of no kind"),
    (KINDS, '[place]\nsmall = ["0-15"]\n', "MCM-T008", "no chip is left for the kind 'big'"),
    (KINDS, "[place]\nsmal = [8]\n", "MCM-T008", "no kind of chip 'smal'"),
]


def test_long_lists_of_ranges_are_refused_without_being_written_out():
    many = "[place]\nsmall = [" + '"0-999999", ' * 3000 + "]"
    before = BEFORE.replace("[4, 4]", "[4]")
    with pytest.raises(CompileError) as caught:
        TopologyPackage.from_text("mine.toml", f"{before}{KINDS}\n{many}\n{AFTER}")
    assert [fault.message for fault in caught.value.diagnostics] == [
        "a mesh has 2 dimensions, not 1"
    ]
    many = "[place]\nsmall = [" + '"0-15", ' * 5000 + "]"
    assert faults(place=many)[0][1] == "the list has 5000 entries, more than 4096"


@pytest.mark.parametrize(("kinds", "place", "code", "words"), FAULTS)
def test_faults_of_kinds_and_places_are_named(kinds, place, code, words):
    assert [
        message for found, message in faults(kinds, place) if found == code and words in message
    ]


def test_faults_of_a_kind_have_the_line_of_its_own_table():
    with pytest.raises(CompileError) as caught:
        package(KINDS.replace("rows = 32", "rows = 0"))
    (fault,) = caught.value.diagnostics
    line = int((fault.at or "").split(":")[1])
    assert (BEFORE + KINDS.replace("rows = 32", "rows = 0")).splitlines()[line - 1] == "rows = 0"


def test_a_place_without_kinds_and_kinds_on_a_ring_are_refused():
    with pytest.raises(CompileError, match="all chips are of one kind"):
        TopologyPackage.from_text("mine", f"{mesh36().source_text}\n[place]\nbig = [1]\n")
    ring = load_target("mcm4").source_text.replace("[chip]", '[[chip]]\nname = "only"')
    with pytest.raises(CompileError, match="MCM-T004"):
        type(load_target("mcm4")).from_text("mine", ring)


def test_energy_of_a_kind_needs_the_energy_of_links():
    own = "[chip.energy]\nmac_pj = 3.0\n"
    bare = AFTER[: AFTER.index("# Nominal energy")] + AFTER[AFTER.index("# Bits that one") :]
    assert any("no energy" in message for _, message in faults(f"{KINDS}\n{own}", rest=bare))


AREA = AFTER[AFTER.index("[area]") : AFTER.index("# Bits that one")]
OWN_AREA = "chip_mm2 = 2.0\n"


@pytest.mark.parametrize(
    ("kinds", "area"),
    [
        (f"{KINDS}\n[chip.area]\n{OWN_AREA}", ""),
        (f"{KINDS}\n[chip.area]\n{OWN_AREA}", "[area]\n"),
        (f'{KINDS}\n[[chip]]\nname = "tiny"\nlike = "small"\narea = {{ mac_mm2 = 1.0 }}\n', ""),
    ],
)
def test_the_area_of_a_package_has_that_of_each_kind(kinds, area):
    place = '[place]\nsmall = ["8-15"]\n'
    if "tiny" in kinds:
        place = '[place]\nsmall = ["8-14"]\ntiny = [15]\n'
    rest = AFTER.replace(AREA, area)
    assert faults(kinds, place, rest)[0][0] == "MCM-T008"
    assert "'big' have no area" in faults(kinds, place, rest)[0][1]
    both = kinds.replace("sram_mib = 64\n", f"sram_mib = 64\narea = {{ {OWN_AREA.strip()} }}\n")
    assert package(both, place, rest).package_mm2 >= 16 * 2.0


@pytest.mark.parametrize(("chips", "measured"), [((0,), 1), ((8,), 0), ((3, 8, 9), 1)])
def test_measured_times_count_as_measured_on_the_first_kind_alone(chips, measured):
    table = b"op_type,inputs,type,seconds\nMatMul,512x512;512x512,float,1e-3\n"
    read = held_files({"times.csv": table})
    target = with_cost_model(package(), "table{file=times.csv,factor=1}", read)
    graphs = {chip: ir.Graph([], [], nodes=[matmul()]) for chip in chips}
    found = coverage_facts(target, graphs, ())
    assert (found["ops"], found["measured_ops"]) == (len(chips), measured)
    assert (found["measured_share"] == 1.0) == (measured == len(chips))


def compiled(tmp_path: Path, target: str, model: str = "zoo:gpt2-tiny", *more: str):
    path, out = tmp_path / "mine.toml", tmp_path / "out"
    path.write_text(target)
    words = ["compile", model, "--target", str(path), "-o", str(out), *more]
    return CliRunner().invoke(cli, words), out


def test_an_op_that_one_kind_lacks_runs_on_the_other_kind_alone(tmp_path):
    lacking = KINDS.replace('like = "big"', 'like = "big"\nunsupported_ops = ["Softmax"]')
    found, out = compiled(tmp_path, f"{BEFORE}{lacking}\n[place]\nbig = [5]\n{AFTER}")
    assert found.exit_code == 0, found.output
    program = json.loads((out / "program.json").read_text())
    runs = {
        c["chip"]: " ".join(n for k in c["kernels"] for n in k["nodes"]) for c in program["chips"]
    }
    assert [chip for chip, names in runs.items() if "Softmax" in names] == [5]
    assert len(runs) > 1
    checked = CliRunner().invoke(cli, ["check", str(out)])
    assert checked.exit_code == 0, checked.output


def test_an_op_that_no_kind_runs_goes_to_the_host_or_is_refused(tmp_path):
    lists = 'unsupported_ops = ["Softmax"]'
    lacking = KINDS.replace("sram_mib = 64", f"sram_mib = 64\n{lists}")
    text = f"{BEFORE}{lacking}\n{PLACE}\n{AFTER}"
    found, _ = compiled(tmp_path, text, "zoo:gpt2-tiny", "-O0")
    assert found.exit_code == 0, found.output
    assert "MCM-T033" in found.output
    refused, _ = compiled(tmp_path, text, "zoo:gpt2-tiny", "--fallback", "error", "--force")
    assert refused.exit_code != 0
    assert "MCM-T030" in refused.output


def test_times_of_a_kind_that_were_altered_are_found(tmp_path):
    found, out = compiled(tmp_path, MIXED, "zoo:gpt2-tiny", "-O0")
    assert found.exit_code == 0, found.output
    path = out / "certificate.safetensors"
    arrays = dict(load(path.read_bytes()))
    assert arrays["kind.unit_s"].size == 2 * arrays["unit.work_s"].size
    manifest = json.loads((out / "manifest.json").read_text())
    for name, factor, code in (("kind.unit_s", 1.01, "MCM-V070"), ("kind.price", 2.0, "")):
        altered = {**arrays, name: arrays[name] * np.float64(factor)}
        path.write_bytes(save(altered))
        manifest["files"][path.name] = sha256_file(path)
        (out / "manifest.json").write_text(json.dumps(manifest))
        checked = CliRunner().invoke(cli, ["check", str(out)])
        assert (checked.exit_code == 0) == (not code), checked.output
        assert code in checked.output


@pytest.mark.parametrize(("price", "unit_us"), [(5e-324, 6e5), (2e-323, 1.3e5), (1.7e308, 2e6)])
def test_prices_of_any_size_prove_no_more_than_others(price, unit_us):
    kinds, units = 2, 8
    problem = make_problem([unit_us] * units, [(u, u + 1) for u in range(units - 1)], chips=16)
    costs = KindCosts.of(
        ("big", "small"),
        np.tile(problem.compute_s, (kinds, 1)),
        np.tile(problem.relay_s, (kinds, 1)),
        np.ones((kinds, units), np.bool_),
        np.full(kinds, price),
    )
    fast = replace(problem.limits, chip_speed=(2.0,) * 16)
    mixed = replace(problem, given_machine=mixed16().machine, kinds=costs, limits=fast)
    bound_s = units * unit_us * 1e-6 / (16 * 2.0)
    for factor, shown in ((1.0, True), (1.01, False), (1.3, False)):
        claim = LowerBound(bound_s * factor, "", "fractional_work")
        assert verify_bound(mixed, claim) == shown


def test_resnet50_on_mixed16_is_within_a_fifth_of_the_bound_that_the_certificate_proves(tmp_path):
    out = tmp_path / "out"
    words = ["compile", "zoo:resnet50", "--target", "mixed16", "-o", str(out), "--replicas", "1"]
    assert CliRunner().invoke(cli, [*words, "-O1"]).exit_code == 0
    certificate = read_certificate(out)
    claim = certificate.claim("pipeline")
    assert claim is not None
    assert claim.proof == "fractional_work"
    assert certificate.period_s <= 1.2 * claim.seconds
    assert verify_bound(certificate.problem, LowerBound(claim.seconds, "", claim.proof))


def test_devices_are_walked_over_from_each_kind_both_ways():
    machine, problem = mixed16().machine, make_problem([1, 1], [(0, 1)], chips=16)
    costs = KindCosts.of(
        ("big", "small"),
        np.tile(problem.compute_s, (2, 1)),
        np.tile(problem.relay_s, (2, 1)),
        np.ones((2, 2), np.bool_),
        np.ones(2),
    )
    mixed = replace(problem, given_machine=machine, kinds=costs)
    walks = [order.device for order in device_orders(mixed)]
    assert {tuple(sorted(walk)) for walk in walks} == {tuple(range(16))}
    kinds = {tuple(machine.device_kind[walk]) for walk in walks}
    assert {(0,) * 8 + (1,) * 8, (1,) * 8 + (0,) * 8} <= kinds
    assert len(device_orders(replace(mixed, kinds=None))) == 1
