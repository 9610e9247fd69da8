"""Folders with cost models of devices: their files lie there, and a check needs no other file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from mcm_compiler.artifact.layout import sha256_file
from mcm_compiler.cli.main import cli
from mcm_compiler.placed.device_costs import device_choices
from mcm_compiler.placed.folder_check import check_placement_folder
from mcm_compiler.placed.folder_reading import open_placement
from mcm_compiler.text.spec_text import print_value
from tests.generators.changed_folders import errors, rehash
from tests.generators.placed_models import place_small

TABLE = """node,op_type,inputs,type,seconds
op_c,,,,4e-5
,Tanh,64x128,float,1.5e-5
"""
GPU, CPU = "cost_model.k40.file.csv", "cost_model.haswell.file.csv"
GPU_TIMES = f"table{{file={GPU},factor=1.0}}"
TIMES = {"op_a": 7e-6, "op_z": 1e-5, "of another model": 1.0}


@pytest.fixture(scope="module")
def placed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("priced")
    (folder / "my times.csv").write_text(TABLE)
    model = f"table{{file={print_value(folder / 'my times.csv')},factor=1}}"
    place_small(folder / "out", cost_models={"k40": model}, times={"haswell": TIMES})
    (folder / "my times.csv").unlink()
    return folder / "out"


@pytest.fixture
def folder(placed: Path, tmp_path: Path) -> Path:
    return shutil.copytree(placed, tmp_path / "out")


def test_tables_lie_in_the_folder_with_their_hashes(placed: Path) -> None:
    assert (placed / GPU).read_text() == TABLE
    assert (placed / CPU).read_text() == "node,seconds\nop_a,7e-06\nop_z,1e-05\n"
    opened = open_placement(placed)
    for name in (CPU, GPU):
        assert opened.manifest.files[name] == sha256_file(placed / name)
    text = (placed / "target.toml").read_text()
    assert f'k40 = "{GPU_TIMES}"' in text
    assert f'haswell = "table{{file={CPU},factor=' in text
    assert list(opened.record.cost_models) == ["haswell", "k40"]
    assert {kind: choice.text for kind, choice in device_choices(opened.target).items()} == dict(
        opened.record.cost_models
    )


def test_the_report_names_the_cost_models(placed: Path) -> None:
    text = (placed / "report.md").read_text()
    assert f"| cost model | {GPU_TIMES} | of k40 |" in text
    shown = CliRunner().invoke(cli, ["report", str(placed), "--full"])
    assert GPU_TIMES in shown.stdout


@pytest.mark.parametrize("verb", ["check", "simulate", "report"])
def test_verbs_need_no_other_file(placed: Path, verb: str) -> None:
    result = CliRunner().invoke(cli, [verb, str(placed)])
    assert result.exit_code == 0, result.output
    assert "MCM-" not in result.stderr


def test_the_step_takes_the_measured_times(placed: Path) -> None:
    found = check_placement_folder(placed, seeds=(0,))
    assert found.holds
    step = place_small(None, cost_models={"k40": f"table{{file={placed / GPU},factor=1}}"})
    record = open_placement(placed).record
    gpu = next(device for device in record.devices if device.kind == "k40")
    assert gpu.busy_s == pytest.approx(4e-5 + 1.5e-5)
    assert step.results.busy_s[0, 1] == gpu.busy_s


def test_files_of_the_folder_can_be_given_again(placed: Path, tmp_path: Path) -> None:
    models = {
        kind: f"table{{file={print_value(placed / name)}{more}}}"
        for kind, name, more in (("haswell", CPU, ""), ("k40", GPU, ",factor=1"))
    }
    place_small(tmp_path / "again", cost_models=models)
    names = sorted(path.name for path in placed.iterdir())
    assert sorted(path.name for path in (tmp_path / "again").iterdir()) == names
    described = {"target.toml", "manifest.json"}  # the kinds stand there in the order of the asking
    for name in set(names) - described:
        assert (tmp_path / "again" / name).read_bytes() == (placed / name).read_bytes(), name


@pytest.mark.parametrize("verb", ["check", "simulate", "report"])
def test_a_changed_table_is_found_by_its_hash(folder: Path, verb: str) -> None:
    (folder / GPU).write_text(TABLE.replace("4e-5", "5e-5"))
    assert errors(folder, verb) == ["MCM-A008"]
    (folder / GPU).unlink()
    assert errors(folder, verb) == ["MCM-A006"]


@pytest.mark.parametrize(
    ("name", "old", "new", "code"),
    [
        (GPU, "4e-5", "5e-5", "MCM-D080"),
        (GPU, "4e-5", "nan", "MCM-C005"),
        (GPU, "4e-5", "-1", "MCM-C005"),
        (GPU, "node,", "nodes,", "MCM-C005"),
        (CPU, "1e-05", "2e-05", "MCM-D080"),
        (CPU, "node", "\0", "MCM-C005"),
        ("target.toml", f'k40 = "{GPU_TIMES}"', "", "MCM-D080"),
        ("target.toml", GPU, CPU, "MCM-D080"),
        ("target.toml", 'haswell = "table', 'k80 = "table', "MCM-D070"),
        ("target.toml", GPU_TIMES, "tabel", "MCM-U003"),
        ("placement.json", f'"k40": "{GPU_TIMES}"', '"k40": "cycles"', "MCM-D080"),
        ("placement.json", f'"k40": "{GPU_TIMES}"', '"k40": 3', "MCM-A005"),
    ],
)
def test_what_was_changed_with_its_hash_is_found(
    folder: Path, name: str, old: str, new: str, code: str
) -> None:
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new))
    rehash(folder)
    assert code in errors(folder)


@pytest.mark.parametrize("verb", ["check", "simulate"])
@pytest.mark.parametrize("path", ["../t.csv", "/etc/passwd", f"./{GPU}", "unlisted.csv", ".."])
def test_a_stored_description_names_no_file_but_those_of_the_manifest(
    folder: Path, path: str, verb: str
) -> None:
    (folder.parent / "t.csv").write_text(TABLE)
    target = folder / "target.toml"
    target.write_text(target.read_text().replace(GPU, path))
    rehash(folder)
    assert set(errors(folder, verb)) == {"MCM-C004"}


def test_a_link_instead_of_the_table_is_refused(folder: Path) -> None:
    (folder / GPU).rename(folder.parent / "t.csv")
    (folder / GPU).symlink_to(folder.parent / "t.csv")
    assert errors(folder) == ["MCM-A006"]


def test_a_placement_without_cost_models_has_no_files_of_any(tmp_path: Path) -> None:
    place_small(tmp_path / "out")
    assert not list((tmp_path / "out").glob("cost_model*"))
    assert open_placement(tmp_path / "out").record.cost_models == {}
    assert "cost model" not in (tmp_path / "out" / "report.md").read_text()
