"""Dispatch, exit codes, and what a user never sees: a stack trace."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from typing import Any

import click
import pytest
from click.testing import CliRunner

from mcm_compiler.cli.main import all_verbs, cli, command_of
from mcm_compiler.cli.verbs import listings
from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity
from mcm_compiler.registry import REGISTRIES

HEAVY = ("onnx", "onnx_ir", "onnxruntime", "numpy", "numba", "rich", "jsonschema")


def _invoke(*args: str, **extra: Any) -> Any:
    return CliRunner().invoke(cli, list(args), **extra)


def _fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr("mcm_compiler.report.versions.versions", fail)


@pytest.mark.parametrize("args", [["--help"], [], ["--version"], ["nonsense"]])
def test_dispatch_imports_nothing_heavy(args: list[str]) -> None:
    code = (
        "import sys\n"
        "from mcm_compiler.cli.main import main\n"
        f"sys.argv = ['mcmc', *{args!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"loaded = [m for m in {HEAVY!r} if m in sys.modules]\n"
        "assert not loaded, loaded\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_help_lists_all_verbs() -> None:
    result = _invoke("--help")
    assert result.exit_code == 0
    for verb in all_verbs():
        (line,) = [row for row in result.stdout.splitlines() if row.startswith(f"  {verb} ")]
        assert line.endswith(".")
        assert "..." not in line
    assert "Usage: mcmc" in result.stdout


@pytest.mark.parametrize("verb", all_verbs())
def test_every_verb_has_a_command_with_help_and_formats(verb: str) -> None:
    command = command_of(verb)
    assert isinstance(command, click.Command)
    result = _invoke(verb, "--help")
    assert result.exit_code == 0
    assert f"Usage: mcmc {verb}" in result.stdout
    assert "--format" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_a_plug_in_brings_a_verb() -> None:
    @click.command(help="Count floors. There are few.")
    def floors() -> None:
        click.echo("3 floors")

    REGISTRIES["verb"].add("floors", floors, "acme")
    try:
        assert _invoke("floors").stdout == "3 floors\n"
        assert "Did you mean floors?" in _invoke("flors").stderr
        assert any(
            line.split() == ["floors", "Count", "floors."]
            for line in _invoke("--help").stdout.splitlines()
        )
    finally:
        REGISTRIES["verb"].remove("floors")


def test_a_verb_that_cannot_be_imported_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    verbs = REGISTRIES["verb"]
    known = verbs.get

    def get(name: str) -> object:
        if name == "lifts":
            raise CompileError.of("MCM-X003", "verb 'lifts' cannot be imported", at="acme")
        return known(name)

    monkeypatch.setattr(verbs, "get", get)
    verbs.add("lifts", None, "acme")
    verbs.add("stairs", "no command", "acme")
    try:
        for words, code in ((["--help"], 0), ([], 2)):
            shown = _invoke(*words)
            assert shown.exit_code == code
            assert "lifts        MCM-X003: cannot be used; `mcmc lifts` shows why." in shown.output
            assert "stairs       MCM-X008: cannot be used" in shown.output
            assert "zoo          List the models of the zoo" in shown.output
        assert _invoke("version").exit_code == 0
        found = {item.value: item.help for item in cli.shell_complete(click.Context(cli), "")}
        assert found["zoo"] == "List the models of the zoo, or write one to a file."
        assert "MCM-X003" in (found["lifts"] or "")
        assert "verb 'lifts' cannot be imported" in _invoke("lifts").stderr
        assert "'stairs'" in _invoke("stairs").stderr
    finally:
        verbs.remove("lifts")
        verbs.remove("stairs")


def test_without_a_verb_the_help_is_shown() -> None:
    result = _invoke()
    assert result.exit_code == 2
    assert "Usage: mcmc" in result.output


def test_an_unknown_verb_is_wrong_usage_with_the_nearest_one() -> None:
    result = _invoke("complie")
    assert result.exit_code == 2
    assert "There is no verb 'complie'. Did you mean compile?" in result.stderr


@pytest.mark.parametrize("args", [["version", "--nonsense"], ["--nonsense"], ["check"]])
def test_wrong_usage_exits_with_2(args: list[str]) -> None:
    result = _invoke(*args)
    assert result.exit_code == 2
    assert "Usage: mcmc" in result.stderr
    assert result.stdout == ""


def test_diagnostics_go_to_stderr_and_exit_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    _fail_with(
        monkeypatch,
        CompileError(
            [
                Diagnostic("ACME-003", "too big", "node 'x'", "shard it"),
                Diagnostic("ACME-010", "odd", severity=Severity.WARNING),
            ]
        ),
    )
    result = _invoke("version")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == (
        "error[ACME-003]: too big\n  at: node 'x'\n  hint: shard it\nwarning[ACME-010]: odd\n"
    )


def test_diagnostics_as_json_go_to_stdout(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Diagnostic("ACME-003", "too big", "node 'x'", "shard it")
    _fail_with(monkeypatch, CompileError(found))
    result = _invoke("version", "--format", "json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {"diagnostics": [found.to_dict()]}
    assert result.stderr == ""


def test_control_characters_in_diagnostics_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    _fail_with(monkeypatch, CompileError(Diagnostic("ACME-003", "a\x1b[2Jb\nerror[X]: c")))
    assert _invoke("version").stderr == "error[ACME-003]: a\\x1b[2Jb\\nerror[X]: c\n"


def test_colours_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    _fail_with(monkeypatch, CompileError(Diagnostic("ACME-003", "too big")))
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b" not in _invoke("version").stderr
    assert "\x1b[31m" in _invoke("version", color=True).stderr
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in _invoke("version", color=True).stderr


def test_an_internal_error_is_one_diagnostic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MCMC_DEBUG", raising=False)
    _fail_with(monkeypatch, RuntimeError("lost my mind"))
    result = _invoke("version")
    assert result.exit_code == 1
    assert result.stderr.startswith("error[MCM-U099]: internal error: RuntimeError: lost my mind\n")
    assert "MCMC_DEBUG=1" in result.stderr
    assert "Traceback" not in result.stderr
    found = json.loads(_invoke("version", "--format", "json").stdout)
    assert found["diagnostics"][0]["code"] == "MCM-U099"


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENAMETOOLONG, errno.ENOSPC, errno.EIO])
def test_what_the_system_refuses_is_no_internal_error(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.delenv("MCMC_DEBUG", raising=False)
    _fail_with(monkeypatch, OSError(number, os.strerror(number), "/far/away"))
    (found,) = json.loads(_invoke("version", "--format", "json").stdout)["diagnostics"]
    assert found["code"] == "MCM-U053"
    assert os.strerror(number) in found["message"]
    assert found["at"] == "'/far/away'"
    assert found["hint"]


@pytest.mark.parametrize("error", [OSError(errno.EACCES, "no"), FileNotFoundError(2, "no", "x")])
def test_other_errors_of_the_system_are_faults_of_ours(
    monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    monkeypatch.delenv("MCMC_DEBUG", raising=False)
    _fail_with(monkeypatch, error)
    assert "MCM-U099" in _invoke("version").stderr


def test_foreign_code_that_ends_the_program_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MCMC_DEBUG", raising=False)
    _fail_with(monkeypatch, SystemExit(0))
    result = _invoke("version", "--format", "json")
    assert result.exit_code == 1
    (found,) = json.loads(result.stdout)["diagnostics"]
    assert found["code"] == "MCM-U099"
    assert "sys.exit(0)" in found["message"]


class _Own(BaseException):
    def __str__(self) -> str:
        raise ValueError("nothing to say")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (_Own(), "_Own, whose text raises ValueError"),
        (GeneratorExit("over"), "GeneratorExit: over"),
        (SystemExit(["code"]), "sys.exit(['code'])"),
    ],
    ids=["own", "generator", "code"],
)
def test_what_is_no_exception_is_told_as_well(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, told: str
) -> None:
    monkeypatch.delenv("MCMC_DEBUG", raising=False)
    _fail_with(monkeypatch, error)
    result = _invoke("version", "--format", "json")
    assert result.exit_code == 1
    (found,) = json.loads(result.stdout)["diagnostics"]
    assert found["code"] == "MCM-U099"
    assert told in found["message"]


def test_a_signal_leaves_with_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    _fail_with(monkeypatch, SystemExit(143))
    result = _invoke("version")
    assert (result.exit_code, result.stderr) == (143, "")


def test_debug_shows_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCMC_DEBUG", "1")
    error = RuntimeError("lost my mind")
    _fail_with(monkeypatch, error)
    assert _invoke("version").exception is error


def test_debug_shows_the_cause_of_a_diagnosed_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCMC_DEBUG", "1")
    error = CompileError(Diagnostic("MCM-X006", "pass 'p' failed"))
    error.__cause__ = ZeroDivisionError("by nothing")
    _fail_with(monkeypatch, error)
    result = _invoke("version")
    assert result.exit_code == 1
    assert "ZeroDivisionError: by nothing" in result.stderr
    assert "error[MCM-X006]" in result.stderr


def test_a_verb_that_cannot_be_imported_is_an_internal_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MCMC_DEBUG", raising=False)
    monkeypatch.setitem(sys.modules, "mcm_compiler.cli.verbs.listings", None)
    result = _invoke("version")
    assert result.exit_code == 1
    assert "MCM-U099" in result.stderr


def test_an_interrupt_exits_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    _fail_with(monkeypatch, KeyboardInterrupt())
    result = _invoke("version")
    assert result.exit_code == 130
    assert result.stderr.split() == ["interrupted"]


def test_an_interrupt_by_signal_shows_no_trace() -> None:
    code = (
        "import os, signal, sys\n"
        "import mcm_compiler.report.versions as v\n"
        "v.versions = lambda: os.kill(os.getpid(), signal.SIGINT)\n"
        "from mcm_compiler.cli.main import main\n"
        "sys.argv = ['mcmc', 'version']\nmain()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stderr.split() == ["interrupted"]


def test_what_is_left_at_the_end_is_not_looked_at_once_more() -> None:
    code = (
        "import atexit, gc, sys\n"
        "from mcm_compiler.cli.main import main\n"
        "atexit.register(lambda: print(gc.get_freeze_count() > 0))\n"
        "freeze = gc.freeze\n"
        "gc.freeze = lambda: (freeze(), print('frozen'))\n"
        "sys.argv = ['mcmc', 'version']\nmain()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-2:] == ["frozen", "True"]


def test_a_reader_that_exits_ends_the_command_silently() -> None:
    read, write = os.pipe()
    os.close(read)
    code = "import sys; from mcm_compiler.cli.main import main; sys.argv[1:] = ['explain']; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=write, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_names_that_the_terminal_cannot_encode_are_escaped() -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "mcm_compiler", "explain", "MCM-é"],
        capture_output=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 1
    assert b"MCM-\\xe9" in done.stderr


def test_version_tells_what_a_result_depends_on() -> None:
    data = json.loads(_invoke("version", "--format", "json").stdout)
    assert data["python"] == f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert data["onnxruntime"]
    lines = _invoke("version").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(data)
    assert listings.version.help
