"""The boxes that come with the compiler."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from mcm_compiler.cli.main import cli
from mcm_compiler.components.target_loading import (
    load_cluster,
    load_package,
    load_plannable,
    load_target,
    package_from_text,
)
from mcm_compiler.contracts.boxes.box import BoxTarget
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.placed.device_costs import load_box
from mcm_compiler.registry import TARGETS

NAMES = [r.name for r in TARGETS.registrations() if r.name.startswith("box-")]


@pytest.mark.parametrize("name", NAMES)
def test_every_box_loads_and_is_what_its_text_says(name: str) -> None:
    target = load_box(name)
    again = package_from_text(name, target.source_text)
    assert isinstance(again, BoxTarget)
    assert again.details() == target.details()
    assert target.details()["copy"]["latency_us"] > 0  # type: ignore[operator]
    assert name.startswith(f"box-{target.box.num_devices - 1}gpu") or "gpu:1" not in (
        target.box.devices
    )


def test_numbers_of_the_k40() -> None:
    target = load_box("box-2gpu")
    assert target.box.devices == ("cpu:0", "gpu:0", "gpu:1")
    assert target.box.memory_bytes[1] == pytest.approx(11.2 * 2**30)
    assert target.details()["k40"]["peak_tflop_per_s"] == pytest.approx(2.6)


def test_a_cluster_is_no_box() -> None:
    with pytest.raises(CompileError) as caught:
        load_box("config-a")
    assert caught.value.diagnostics[0].code == "MCM-D002"
    assert "box-2gpu" in (caught.value.diagnostics[0].hint or "")
    assert not isinstance(load_package("config-a"), BoxTarget)


@pytest.mark.parametrize(
    ("load", "code"),
    [(load_target, "MCM-D001"), (load_plannable, "MCM-D001"), (load_cluster, "MCM-S041")],
)
def test_a_box_is_nothing_else(load: Callable[[str], object], code: str) -> None:
    with pytest.raises(CompileError) as caught:
        load("box-2gpu")
    assert [d.code for d in caught.value.diagnostics] == [code]


def test_the_command_line_lists_shows_and_validates_boxes(tmp_path: Path) -> None:
    runner = CliRunner()
    listed = runner.invoke(cli, ["targets", "--format", "json"])
    numbers = {row["name"]: row for row in json.loads(listed.stdout)["targets"]}["box-2gpu"]
    assert numbers["box"]["devices"] == ["cpu:0", "gpu:0", "gpu:1"]
    shown = runner.invoke(cli, ["targets", "show", "box-2gpu"])
    assert "peak_tflop_per_s           2.6" in shown.stdout
    file = tmp_path / "mine.toml"
    file.write_text(load_box("box-4gpu").source_text, encoding="utf-8")
    valid = runner.invoke(cli, ["targets", "validate", str(file)])
    assert "is valid: 1 x haswell with 120.0 GiB usable, 4 x k40" in valid.stdout
    file.write_text(load_box("box-4gpu").source_text.replace("k40", "k41"), encoding="utf-8")
    wrong = runner.invoke(cli, ["targets", "validate", str(file)])
    assert wrong.exit_code != 0
    assert "MCM-D003" in wrong.output
