"""The documents show what the project does: commands, links and examples."""

from __future__ import annotations

import dataclasses
import json
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema
import pytest

from mcm_compiler.contracts.levels import Level, load_level
from mcm_compiler.diagnostics.catalog import catalog
from mcm_compiler.options import DEFAULT_PIPELINE
from mcm_passes.mapping.search.named import strategy_of

ROOT = Path(__file__).parents[3]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def test_the_demo_runs_the_commands_of_the_readme() -> None:
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ndemo:")[2]
    commands = re.findall(r"^\t(mcmc .*)$", recipe.partition("\n\n")[0], flags=re.MULTILINE)
    readme = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(commands) == 3
    assert [command for command in commands if command not in readme] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8"))
    local = [link for link in links if not link.startswith(("http://", "https://", "mailto:"))]
    assert [link for link in local if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_diagnostic_codes_exist(document: Path) -> None:
    codes = re.findall(r"MCM-[A-Z]\d{3}", document.read_text(encoding="utf-8"))
    assert sorted(set(codes) - set(catalog())) == []


@pytest.mark.parametrize(
    ("document", "example"),
    [
        ("docs/how-to/writing-a-pass.md", "count_ops.py"),
        ("docs/how-to/kernel-times.md", "memory_bound.py"),
        ("docs/how-to/plug-ins.md", "op_cost.py"),
        ("docs/how-to/plug-ins.md", "fusion_rule.py"),
        ("docs/how-to/plug-ins.md", "one_chip.py"),
        ("docs/how-to/plug-ins.md", "half_speed.py"),
    ],
)
def test_the_example_in_the_text_is_the_file_that_is_tested(document: str, example: str) -> None:
    text = (ROOT / "docs" / "how-to" / "examples" / example).read_text(encoding="utf-8")
    assert f"{text}```" in (ROOT / document).read_text(encoding="utf-8")


def test_the_target_in_the_text_is_the_built_in_one() -> None:
    text = (ROOT / "docs" / "how-to" / "writing-a-target.md").read_text(encoding="utf-8")
    shown = tomllib.loads(text.partition("```toml\n")[2].partition("```")[0])
    builtin = ROOT / "hardware" / "mcm_hardware" / "families" / "ring" / "targets" / "mcm36.toml"
    assert shown == tomllib.loads(builtin.read_text(encoding="utf-8"))


def test_the_table_of_target_keys_is_that_of_the_schema() -> None:
    script = runpy.run_path(str(ROOT / "tools" / "render_target_keys.py"))
    page = (ROOT / "docs" / "reference" / "target-keys.md").read_text(encoding="utf-8")
    assert page == script["with_table"](page)


def test_the_schemas_are_those_of_the_records() -> None:
    script = runpy.run_path(str(ROOT / "tools" / "render_schemas.py"))
    for name in script["RECORDS"]:
        page = (ROOT / "docs" / "reference" / "schema" / name).read_text(encoding="utf-8")
        assert page == script["render"](name), "run: python tools/render_schemas.py"
        jsonschema.Draft202012Validator.check_schema(json.loads(page))


def test_the_page_of_commands_is_that_of_the_command_line() -> None:
    # In a process of its own: click keeps the help option of the first context that it meets.
    command = [sys.executable, str(ROOT / "tools" / "render_commands.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_readme_is_short_and_pictures_are_those_of_the_data() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.split()) <= 1000
    guide = (ROOT / "docs" / "how-to" / "report-page.md").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:docs|\.\.)/images/([\w-]+\.svg)", readme + guide))
    script = runpy.run_path(str(ROOT / "tools" / "readme_pictures.py"))
    made = script["pictures"]()
    assert named == set(made)
    for name, text in made.items():
        assert (ROOT / "docs" / "images" / name).read_text(encoding="utf-8") == text
        assert min(map(float, re.findall(r'font-size="([\d.]+)"', text))) >= 11
    # The text that stands for the chart has the figures of the chart.
    shown = re.findall(r">([\d.]+)x", made["peers-light.svg"])
    alt = re.findall(r'alt="Periods[^"]*"', readme)[0]
    assert set(re.findall(r"\d+\.\d+", alt)) <= set(shown)


def test_the_table_of_a_shared_host_is_that_of_its_data() -> None:
    script = runpy.run_path(str(ROOT / "tools" / "reproduce" / "shared_host.py"))
    data = json.loads(script["DATA"].read_text(encoding="utf-8"))
    page = script["DOCUMENT"].read_text(encoding="utf-8")
    assert script["BEGIN"] + script["table"](data) + script["END"] in page


def test_every_pass_of_the_default_pipeline_is_described() -> None:
    architecture = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    described = set(re.findall(r"^\| `([a-z_]+)` \|", architecture, flags=re.MULTILINE))
    assert sorted(set(DEFAULT_PIPELINE.split(",")) - described) == []


def test_the_level_in_the_text_is_one(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "explanation" / "partitioning.md").read_text(encoding="utf-8")
    path = tmp_path / "patient.toml"
    path.write_text(page.partition("```toml\n")[2].partition("```")[0], encoding="utf-8")
    level = load_level(str(path))
    assert (level.effort_s, level.most_evaluations) == (20.0, 100_000)
    assert strategy_of(level.strategy).members == ("dp", "cpsat", "local_search")
    keys = set(re.findall(r"^\| `([a-z_]+)` \| [^|]+ \| [^|]+ \|$", page, flags=re.MULTILINE))
    assert {field.name for field in dataclasses.fields(Level)} - {"name"} <= keys
