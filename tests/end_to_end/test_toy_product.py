"""A product from outside: targets with a search, a check, a report section and a page view."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import onnx.parser
import onnx_ir as ir
import pytest
from acme_mesh.package import MeshPackage
from acme_mesh.targets import mesh16

from mcm_compiler.additions import Addition
from mcm_compiler.api import compile_model
from mcm_compiler.artifact import layout
from mcm_compiler.checking.check import check_folder
from mcm_compiler.contracts.program import LoweredProgram
from mcm_compiler.contracts.target import ChipModel, Wire
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.options import CompileOptions
from mcm_compiler.page.contents import Section
from mcm_compiler.page.folder_page import written_folder_page
from mcm_compiler.registry import ADDITIONS, TARGET_FAMILIES

NAME = "acme_floors"


class FloorTarget(MeshPackage):
    addition: ClassVar[str] = NAME

    def lower_mapped(
        self, chips: Sequence[ChipModel], wires: Sequence[Wire], mapped: Sequence[Any]
    ) -> LoweredProgram:
        assert [one.chip for one in mapped] == [chip.chip for chip in chips]
        return self.lower(chips, wires)


def floors_from_text(name: str, text: str) -> FloorTarget:
    plain = MeshPackage.from_text(name, text.replace(NAME, "acme_mesh"))
    return FloorTarget(name, plain.spec, text)


@dataclass(frozen=True)
class Floor:
    chip: int
    floor: int


def search(
    chips: Sequence[ChipModel], target: object, options: CompileOptions, progress: object
) -> tuple[Floor, ...]:
    return tuple(Floor(chip.chip, len(chip.model.graph) % 3) for chip in chips)


def write(folder: Path, mapped: Sequence[Floor], target: object) -> None:
    for one in mapped:
        (folder / layout.mapping_file(one.chip)).write_text(json.dumps(asdict(one)))


def read(folder: Path, files: Collection[str], *_: object) -> tuple[Floor, ...]:
    names = sorted(filter(layout.is_mapping_file, files))
    return tuple(Floor(**json.loads((folder / name).read_text())) for name in names)


def check(folder: Path, files: Collection[str], chips: Sequence[ChipModel], target: object) -> str:
    for one, chip in zip(read(folder, files), chips, strict=True):
        if one.floor != len(chip.model.graph) % 3:
            raise CompileError.of("MCM-M025", "another floor", at=f"chip {one.chip}")
    return "all floors again"


FLOORS = Addition(
    search,
    write,
    read,
    check,
    facts=lambda target, mapped: {"floors": [one.floor for one in mapped]},
    lines=lambda report: ["", "## Floors", "", *(f"- {n}" for n in report[NAME]["floors"])],
    page_section=lambda report: Section("floors", "Floors of chips"),
    busy_with=lambda report, chip: ("elevator", ["it goes up and down"]),
)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    text = '<ir_version: 10, opset_import: ["": 21]> g (float[8] x) => (float[8] y)'
    model = onnx.parser.parse_model(text + "{ a = Exp(x) b = Neg(a) c = Exp(b) y = Neg(c) }")
    ADDITIONS.add(NAME, FLOORS, "acme")
    TARGET_FAMILIES.add(NAME, floors_from_text, "acme")
    try:
        target = floors_from_text("floors", mesh16().source_text.replace("acme_mesh", NAME))
        options = CompileOptions(level="0", replicas=1)
        compile_model(ir.from_proto(model), target, options, output=tmp_path / "out")
        yield tmp_path / "out"
    finally:
        ADDITIONS.remove(NAME)
        TARGET_FAMILIES.remove(NAME)


def test_a_product_from_outside_is_searched_checked_and_shown(folder: Path) -> None:
    report = json.loads((folder / layout.REPORT).read_text())
    floors: list[int] = report[NAME]["floors"]
    assert floors
    assert "\n## Floors\n\n- " in (folder / layout.REPORT_TEXT).read_text()
    assert report["verdict"]["limit"]["engine"] == "elevator"
    assert b"Floors of chips" in written_folder_page(folder)
    steps = {step.name: step.detail for step in check_folder(folder).steps if step.holds}
    assert steps["mappings"] == "all floors again"
    assert "figures" in steps

    name = layout.mapping_file(0)
    (folder / name).write_text(json.dumps({"chip": 0, "floor": floors[0] + 1}))
    manifest = json.loads((folder / layout.MANIFEST).read_text())
    manifest["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / layout.MANIFEST).write_text(json.dumps(manifest))
    failed = [step.name for step in check_folder(folder).steps if not step.holds]
    assert "mappings" in failed
