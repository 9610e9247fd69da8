from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from mcm_compiler.artifact import layout
from mcm_compiler.checking.entry.gate import OpenedFolder
from mcm_compiler.contracts.fabrics.target import MappedChip, UnitChoice
from mcm_compiler.diagnostics import CompileError
from mcm_hardware.families.ring.ring_target import mcm4
from mcm_passes.families.fabric.mapping_files import (
    check_mappings,
    read_mapped,
    read_mappings,
    write_mappings,
)
from tests.generators.fabric_targets import FakeFabrics, cycles, product_chip
from tests.generators.small_fabric import legal_mappings

TARGET = FakeFabrics()
CHIPS = [product_chip(0), product_chip(1)]


@pytest.fixture
def folder(tmp_path):
    problem = TARGET.mapping_problem(CHIPS[0].model, UnitChoice())
    judge, fabric = TARGET.mapping_judge(), TARGET.fabric
    mapping = legal_mappings(problem, fabric, 1, np.random.default_rng(0))
    found = judge.measure(problem, fabric, mapping)
    first = MappedChip(
        0, problem, mapping, float(found.period_cycles[0]), float(found.latency_cycles[0]),
        judge.bound_cycles(problem, fabric), float(found.error[0]), "drawn",
    )  # fmt: skip
    write_mappings(tmp_path, (first, replace(first, chip=1, like=0)), TARGET)
    return tmp_path


def manifest_of(folder, chips=(0, 1)):
    files = {path.name: "" for path in folder.iterdir()}
    return files, chips


def code(act) -> str:
    with pytest.raises(CompileError) as caught:
        act()
    return caught.value.diagnostics[0].code


def changed(folder, change) -> str:
    path = folder / layout.mapping_file(0)
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    return code(lambda: check_mappings(folder, manifest_of(folder)[0], CHIPS, TARGET))


def test_what_was_written_is_read_and_holds(folder):
    names = manifest_of(folder)[0]
    assert [one.like for one in read_mapped(folder, names, CHIPS, TARGET)] == [-1, 0]
    assert "1 mapping measured again" in check_mappings(folder, names, CHIPS, TARGET)


def test_tampering_is_found(folder):
    path = folder / layout.mapping_file(0)
    good = path.read_text()

    def other_units(data):
        data["units"]["cycles"][2] += 1

    def two_on_a_site(data):
        data["units"]["site"][3] = data["units"]["site"][2]

    for wanted, change in (
        ("MCM-M025", other_units),
        ("MCM-M026", two_on_a_site),
        ("MCM-M027", lambda data: data.update(period_cycles=data["period_cycles"] - 1)),
        ("MCM-M027", lambda data: data.update(latency_cycles=1.0)),
        ("MCM-M028", lambda data: data.update(physics="another")),
        ("MCM-M028", lambda data: data.update(lowering="another")),
        ("MCM-A005", lambda data: data.update(schema_version=9)),
        ("MCM-A005", lambda data: data["units"].update(site=[-1])),
        ("MCM-A005", lambda data: data.update(period_cycles="fast")),
        ("MCM-M024", lambda data: data.update(chips=[0])),
        ("MCM-M024", lambda data: data.update(chips=[0, 0, 1])),
    ):
        path.write_text(good)
        assert changed(folder, change) == wanted


def test_chips_with_other_units_and_targets_without_fabrics_are_told(folder):
    files = manifest_of(folder)[0]
    slower = FakeFabrics(changes={"product": cycles(9)})
    assert code(lambda: check_mappings(folder, files, CHIPS, slower)) == "MCM-M025"
    opened = OpenedFolder(folder, SimpleNamespace(files=manifest_of(folder)[0]))
    opened.__dict__["target"] = mcm4()
    assert code(lambda: opened.mapped) == "MCM-M024"
    assert read_mappings(folder, {}, ()) == ()
