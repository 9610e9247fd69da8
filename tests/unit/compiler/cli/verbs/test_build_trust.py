"""`mcmc build` believes nothing of a cache that this installation did not sign."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import onnx
import onnx.parser
import pytest
from click.testing import CliRunner

from mcm_compiler.cli.main import cli
from mcm_compiler.components.target_loading import load_target
from tests.generators.mlp_files import write_network

NET = """<ir_version: 8, opset_import: ["": 17]>
net (float[1, 64] x) => (float[1, 64] y) { h = Sigmoid(x) y = Softmax(h) }"""
PROJECT = 'targets = "mcm4"\nlevel = 0\n[[models]]\nfiles = "models/*.onnx"\n'


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "project"
    (home / "models").mkdir(parents=True)
    monkeypatch.chdir(home)
    install(tmp_path / "installation", monkeypatch)
    onnx.save(onnx.parser.parse_model(NET), "models/net.onnx")
    Path("mcmc.toml").write_text(PROJECT)


def install(folder: Path, monkeypatch) -> None:
    """From now on the installation is the one whose state is in `folder`."""
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    from mcm_compiler.ci import signatures

    signatures.signer_apart_from.cache_clear()


def build(*arguments: str, code: int = 0):
    result = CliRunner().invoke(cli, ["build", "--jobs", "1", "--format", "json", *arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return json.loads(result.stdout)["cells"]


def summary(cell) -> tuple[bool, list[str], float]:
    told = [d["code"] for d in cell["diagnostics"]]
    return cell["cached"], told, cell["figures"]["throughput_per_s"]


def entry_folder() -> Path:
    (found,) = Path(".mcmc-cache/entries").glob("*/*")
    return found


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def repair_hashes(change_record=lambda record: None) -> None:
    """Makes every hash of the entry that of what is there now, as whoever changed it would."""
    folder = entry_folder()
    manifest = json.loads((folder / "output/manifest.json").read_text())
    for name in manifest["files"]:
        manifest["files"][name] = digest((folder / "output" / name).read_bytes())
    target = (folder / "output/target.toml").read_bytes()
    manifest["target_sha256"] = digest(target)
    (folder / "output/manifest.json").write_text(json.dumps(manifest))
    stored = json.loads((folder / "entry.json").read_text())
    change_record(stored["entry"]["record"])
    stored["entry"]["files"] = {
        path.name: {"sha256": digest(path.read_bytes()), "bytes": path.stat().st_size}
        for path in sorted((folder / "output").iterdir())
    }
    text = json.dumps(stored["entry"], sort_keys=True)
    stored["sha256"] = digest(text.encode())
    (folder / "entry.json").write_text(json.dumps(stored))


def ten_times(record) -> None:
    record["figures"]["throughput_per_s"] *= 10
    record["figures"]["period_s"] /= 10


def edit_json(name: str, change) -> None:
    path = entry_folder() / "output" / name
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def test_another_op_and_ten_times_the_throughput_are_not_believed() -> None:
    (first,) = build()
    true = summary(first)[2]
    for chip in entry_folder().glob("output/*.onnx"):
        model = onnx.load(chip, load_external_data=False)
        for node in model.graph.node:
            node.op_type = {"Softmax": "LogSoftmax"}.get(node.op_type, node.op_type)
        onnx.save(model, chip)

    def claim(report) -> None:
        report["throughput_per_s"] *= 10
        report["period_s"] /= 10

    edit_json("report.json", claim)
    repair_hashes(ten_times)
    made = {path.name: path.read_bytes() for path in Path("build/mcmc/net/mcm4").iterdir()}
    shutil.rmtree("build")
    assert summary(build()[0]) == (False, ["MCM-B014"], true)
    assert made == {p.name: p.read_bytes() for p in Path("build/mcmc/net/mcm4").iterdir()}
    assert summary(build()[0]) == (True, [], true)


def test_what_holds_is_proven_again_and_its_record_made_anew() -> None:
    true = summary(build()[0])[2]
    shutil.rmtree("build")

    def forge(record) -> None:
        ten_times(record)
        record["steps"] = record["steps"][:1]
        record["found"] = []

    repair_hashes(forge)
    (cell,) = build()
    assert summary(cell) == (True, ["MCM-B025"], true)
    assert {step["name"] for step in cell["check"]} >= {"source", "equality", "figures"}
    assert summary(build()[0]) == (True, [], true)


def test_a_folder_of_another_compile_is_not_that_of_the_cell() -> None:
    """It proves itself, and is faster: of a faster target, and of more pipelines."""
    Path("mcmc.toml").write_text(PROJECT.replace("level = 0", "level = 0\nreplicas = 1"))
    true = summary(build()[0])[2]
    text = load_target("mcm4").source_text.replace("overhead_ns = 150", "overhead_ns = 15")
    Path("t").mkdir()
    Path("t/mcm4.toml").write_text(text)
    for option in (["--target", "t/mcm4.toml", "--replicas", "1"], ["--target", "mcm4"]):
        arguments = ["compile", "models/net.onnx", "-O0", *option, "-o", "other", "--force"]
        assert CliRunner().invoke(cli, arguments).exit_code == 0
        report = json.loads(Path("other/report.json").read_text())
        assert report["throughput_per_s"] > true
        shutil.rmtree(entry_folder() / "output")
        shutil.copytree("other", entry_folder() / "output")
        repair_hashes(ten_times)
        (cell,) = build()
        assert summary(cell) == (False, ["MCM-B014"], true)
        assert "it is the result of another cell" in cell["diagnostics"][0]["message"]


def test_what_no_check_proves_is_compiled() -> None:
    Path("mcmc.toml").write_text(PROJECT + 'pins = { "*" = 0 }\n')
    true = summary(build()[0])[2]
    repair_hashes(ten_times)
    (cell,) = build()
    assert summary(cell) == (False, ["MCM-B014"], true)
    assert "does not prove the option 'pins'" in cell["diagnostics"][0]["message"]
    # Nor does anything prove that a compile fails.
    path = entry_folder() / "entry.json"
    stored = json.loads(path.read_text())
    stored["entry"] |= {"files": {}, "record": stored["entry"]["record"] | {"figures": None}}
    stored["sha256"] = digest(json.dumps(stored["entry"], sort_keys=True).encode())
    path.write_text(json.dumps(stored))
    assert summary(build()[0]) == (False, [], true)


def test_a_cache_of_another_machine_is_proven_once(tmp_path, monkeypatch) -> None:
    true = summary(build("--html")[0])[2]
    made = Path("build/mcmc/net/mcm4.html").read_bytes()
    (page,) = entry_folder().glob("page-*")
    page.write_bytes(b"forged")
    shutil.rmtree("build")
    install(tmp_path / "another", monkeypatch)
    result = CliRunner().invoke(cli, ["build", "--jobs", "1", "--html"])
    assert "cached, proven again" in result.output
    assert "1 from the cache (1 proven again)" in result.output
    assert Path("build/mcmc/net/mcm4.html").read_bytes() == made
    assert summary(build("--html")[0]) == (True, [], true)
    # The first machine did not sign this.
    install(tmp_path / "installation", monkeypatch)
    assert summary(build()[0]) == (True, ["MCM-B025"], true)


def test_names_of_external_data_are_believed_where_they_are_signed() -> None:
    write_network(Path("models/net.onnx"), external=True)
    Path("mcmc.toml").write_text(PROJECT + "dims = { batch = 1 }\n")
    build()
    (names,) = Path(".mcmc-cache/external").iterdir()
    signature = json.loads(names.read_text())["signature"]
    for seed, forged in enumerate(([], {"names": [], "signature": signature}), start=1):
        write_network(Path(f"{seed}.onnx"), external=True, seed=seed)
        mine = Path("models/net.onnx.data").read_bytes()
        names.write_text(json.dumps(forged))
        assert build()[0]["cached"]
        names.write_text(json.dumps(forged))
        Path("models/net.onnx.data").write_bytes(Path(f"{seed}.onnx.data").read_bytes())
        assert not build()[0]["cached"]
        Path("models/net.onnx.data").write_bytes(mine)


def test_pipes_and_links_in_a_cache_are_not_followed() -> None:
    true = summary(build()[0])[2]
    shutil.rmtree("build")
    chip = next(entry_folder().glob("output/*.onnx"))
    chip.unlink()
    os.mkfifo(chip)
    assert summary(build()[0]) == (False, ["MCM-B014"], true)
    shutil.rmtree("build")
    chip = next(entry_folder().glob("output/*.onnx"))
    chip.rename("elsewhere")
    chip.symlink_to(Path("elsewhere").absolute())
    assert summary(build()[0]) == (False, ["MCM-B014"], true)
    assert not any(path.is_symlink() for path in Path("build").rglob("*"))
    (entry_folder() / "entry.json").unlink()
    os.mkfifo(entry_folder() / "entry.json")
    assert summary(build()[0]) == (False, ["MCM-B014"], true)


def test_a_key_inside_the_project_is_none(monkeypatch) -> None:
    install(Path(".state").absolute(), monkeypatch)
    for told in ([], ["MCM-B025"]):
        result = CliRunner().invoke(cli, ["build", "--jobs", "1", "--format", "json"])
        found = json.loads(result.stdout)
        assert [d["code"] for d in found["cells"][0]["diagnostics"]] == told
        assert "MCM-B026" in [d["code"] for d in found["diagnostics"]]
    assert not Path(".state").exists()
