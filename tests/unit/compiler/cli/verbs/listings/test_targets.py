"""`mcmc targets show` and `validate`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mcm_compiler.cli.main import cli
from mcm_hardware.families.ring.ring_target import mcm36

ROOT = Path(__file__).parents[6]
DOCUMENT = (ROOT / "docs" / "how-to" / "writing-a-target.md").read_text(encoding="utf-8")
EXAMPLE = DOCUMENT.partition('```toml title="my-package.toml"\n')[2].partition("```")[0]


def _invoke(*args: str) -> Any:
    return CliRunner().invoke(cli, ["targets", *args])


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = Path("my-package.toml")
    path.write_text(EXAMPLE, encoding="utf-8")
    return path


def test_show_prints_every_number_by_section() -> None:
    result = _invoke("show", "mcm36")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == f"mcm36: {mcm36().summary}"
    assert "chip.mac_array" in lines
    assert "  dataflow   output_stationary" in lines
    assert re.search(r"^  package_array_tera_ops_per_s +147\.456$", result.stdout, re.MULTILINE)
    assert re.search(r"^  FLOAT +2$", result.stdout, re.MULTILINE)


def test_show_as_json() -> None:
    data = json.loads(_invoke("show", "mcm36-small", "--format", "json").stdout)
    assert (data["name"], data["limits"]["num_chips"]) == ("mcm36-small", 36)
    assert data["details"]["chip"]["sram_mib"] == 32
    assert data["details"]["derived"]["package_sram_mib"] == 36 * 32
    assert data["details"]["chips 0 to 35"] == {"sram_mib": 32.0, "speed": 1.0}


def test_show_prints_the_source() -> None:
    assert _invoke("show", "mcm36", "--toml").stdout == mcm36().source_text
    assert _invoke("show", "mcm36", "--toml", "--format", "json").exit_code == 2


def test_show_a_file(example: Path) -> None:
    result = _invoke("show", str(example))
    assert result.exit_code == 0
    sections = result.stdout.split("\n\n")
    assert "chips 3, 4\n  sram_mib  24\n  speed     0.8" in sections
    assert "chips 17\n  off  true" in sections


def test_show_what_does_not_exist() -> None:
    result = _invoke("show", "mcm63")
    assert (result.exit_code, "error[MCM-U003]" in result.stderr) == (1, True)
    result = _invoke("show", "none.toml", "--format", "json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["diagnostics"][0]["code"] == "MCM-T001"


def test_validate_says_what_the_package_is(example: Path) -> None:
    result = _invoke("validate", str(example))
    assert result.exit_code == 0
    assert result.stdout.startswith("my-package.toml is valid: 35 chips")


def test_validate_finds_all_faults(example: Path) -> None:
    text = EXAMPLE.replace(
        "clock_mhz = 500\n\n[[override]]", "clock_mhz = 0\n\n[[override]]"
    ).replace("[link]\nbandwidth_gb", "[link]\nbandwidth_mb")
    example.write_text(text, encoding="utf-8")
    result = _invoke("validate", str(example))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.count("error[") == 2
    assert "my-package.toml:24: 'chip.vector_unit.clock_mhz'" in result.stderr
    assert "write it as 'bandwidth_gb_per_s', in 10^9 bytes per second" in result.stderr


def test_validate_as_json(example: Path) -> None:
    data = json.loads(_invoke("validate", str(example), "--format", "json").stdout)
    assert (data["valid"], data["limits"]["num_chips"]) == (True, 35)
    assert data["limits"]["stream_bytes_per_s"] == 8e9
    example.write_text(EXAMPLE.replace("rows = 64", "rows = 0"), encoding="utf-8")
    result = _invoke("validate", str(example), "--format", "json")
    assert result.exit_code == 1
    assert [d["code"] for d in json.loads(result.stdout)["diagnostics"]] == ["MCM-T005"]


def test_validate_takes_files_only() -> None:
    result = _invoke("validate", "mcm36")
    assert (result.exit_code, "error[MCM-T001]" in result.stderr) == (1, True)


def test_the_format_belongs_behind_the_word() -> None:
    assert _invoke("--format", "json", "show", "mcm36").exit_code == 2
    assert _invoke("shw", "mcm36").exit_code == 2
