"""What `--strict` fails for: each thing that is not proven is one line."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from mcm_compiler.api import compile_model
from mcm_compiler.cli.main import cli
from mcm_compiler.contracts.verification import OutputComparison, Verification
from mcm_compiler.options import DEFAULT_PIPELINE, CompileOptions
from mcm_compiler.results.strictness import reasons_of_verification

EQUAL = OutputComparison("y", True, 0.0, 0.0)
SMALL = "zoo:plain-cnn{shape_only=true}"
UNVERIFIED = DEFAULT_PIPELINE.removesuffix(",verify")


@pytest.mark.parametrize(
    ("found", "reasons"),
    [
        (None, ["nothing was verified: the pipeline has no pass 'verify'"]),
        (Verification((0,), (EQUAL,)), []),
        (Verification((), (), skipped="no op"), ["equality was not checked: no op"]),
        (
            Verification((0,), (EQUAL,), random_outputs=("r", "s")),
            ["2 outputs not compared, random numbers decide: 'r', 's'"],
        ),
        (
            Verification((0,), (), random_outputs=("r",)),
            ["equality was not checked: every output depends on random numbers"],
        ),
    ],
)  # fmt: skip
def test_each_open_point_is_a_line(found: Verification | None, reasons: list[str]) -> None:
    assert list(reasons_of_verification(found)) == reasons


def _compile(*further: str) -> tuple[int, str]:
    arguments = ["compile", "zoo:bert-tiny{layers=1}", "--target", "mcm4", "-O0", "-o", "out"]
    result = CliRunner().invoke(cli, [*arguments, *further])
    return result.exit_code, result.stderr


def test_compile_and_check_have_an_exit_code_for_what_is_not_proven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _compile("--passes", UNVERIFIED)[0] == 0
    code, stderr = _compile("--passes", UNVERIFIED, "--force", "--strict", "--junit", "j.xml")
    assert code == 3
    assert "error[MCM-U051]: not proven: nothing was verified" in stderr
    # Written all the same, and a failure for whoever reads the JUnit file.
    assert sorted(os.listdir(tmp_path)) == ["j.xml", "out"]
    assert 'failures="1"' in Path("j.xml").read_text()
    assert CliRunner().invoke(cli, ["check", "out", "--strict"]).exit_code == 0
    assert _compile("--force", "--strict")[0] == 0


def test_many_models_end_with_3_only_if_nothing_else_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["compile", SMALL, "--target", "mcm4", "-O0", "-o", "out", "--strict", "--force"]
    many = CliRunner().invoke(cli, [*arguments[:2], "zoo:plain-cnn{shape_only=true,seed=1}",
                                    *arguments[2:], "--format", "json"])  # fmt: skip
    assert many.exit_code == 3, many.output
    assert [model["ok"] for model in json.loads(many.stdout)] == [False, False]
    worse = CliRunner().invoke(cli, [*arguments[:2], "missing.onnx", *arguments[2:]])
    assert worse.exit_code == 1
    strict = CliRunner().invoke(cli, ["check", str(next(Path("out").iterdir())), "--strict"])
    assert strict.exit_code == 3
    assert "error[MCM-U051]: not proven: equality was not checked" in strict.stderr


def test_the_library_tells_what_is_open() -> None:
    options = CompileOptions(level=0, passes=UNVERIFIED.replace(",emit", ""))
    (found,) = compile_model("zoo:bert-tiny{layers=1}", "mcm4", options).unproven
    assert found.code == "MCM-U051"
    assert found.at == "the model"


def test_a_bound_that_nobody_proves_again_is_open(tmp_path: Path) -> None:
    options = CompileOptions(level=0)
    result = compile_model("zoo:bert-tiny{layers=1}", "mcm4", options, output=tmp_path / "out")
    assert result.unproven == ()
    assert result.partition is not None
    word = dataclasses.replace(result.partition.bound, proof="unheard_of")
    partition = dataclasses.replace(result.partition, bound=word)
    (found,) = dataclasses.replace(result, partition=partition).unproven
    assert found.code == "MCM-U051"
    assert "no checker" in found.message
