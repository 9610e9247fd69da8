"""The scripts in shells for real, where they are installed; bash is wherever tests run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from mcm_compiler.cli.main import cli
from mcm_compiler.cli.shell_scripts import SHELLS, script

ASK_BASH = """\
compopt() {{ options+=" $2"; }}
{script}
COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:'
COMP_LINE='{line}' COMP_POINT=${{#COMP_LINE}}
COMP_WORDS=({words}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
options=
_mcmc_completion mcmc
printf '%s\\n' "${{COMPREPLY[@]}}" "options:$options"
"""


def _run(shell: str, code: str, folder: Path) -> list[str]:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    program = folder / "bin" / "mcmc"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\nfrom mcm_compiler.console import main\nmain()\n", encoding="utf-8"
    )
    program.chmod(0o755)
    env = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(folder)}
    done = subprocess.run(
        [shell, "-c", code], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("line", "words", "offered"),
    [
        # bash takes words apart at colons, and replaces what stands behind the last one.
        ("mcmc compile zoo:mobi", "mcmc compile zoo : mobi", ["mobilenet-v2", "options:"]),
        ("mcmc compile x --target=mcm1", "mcmc compile x --target = mcm1",
         ["mcm16", "mcm1.toml", "options: default"]),
        ("mcmc opt x --passes simplify,fu", "mcmc opt x --passes simplify,fu",
         ["simplify,fuse", "options:"]),
        ("mcmc opt x --passes onnx", "mcmc opt x --passes onnx", ["onnx_ir.", "options: nospace"]),
        ("mcmc nonsens", "mcmc nonsens", ["options:"]),
    ],
)  # fmt: skip
def test_bash_completes(line: str, words: str, offered: list[str], tmp_path: Path) -> None:
    (tmp_path / "mcm1.toml").touch()
    code = ASK_BASH.format(script=script("bash", cli), line=line, words=words)
    assert _run("bash", code, tmp_path) == offered


def test_fish_completes_pipelines_whole(tmp_path: Path) -> None:
    code = script("fish", cli) + 'complete -C "mcmc opt x --passes simplify,fu"\n'
    assert _run("fish", code, tmp_path) == ["simplify,fuse"]


def test_zsh_takes_the_script(tmp_path: Path) -> None:
    code = f"autoload -U compinit; compinit -u\n{script('zsh', cli)}\nprint $_comps[mcmc]\n"
    assert _run("zsh", code, tmp_path) == ["_mcmc_completion"]


def test_zsh_and_fish_get_what_they_ask_for() -> None:
    env = {"COMP_WORDS": "mcmc compile zoo:mobi", "COMP_CWORD": "2"}
    asked = CliRunner().invoke(cli, [], env={**env, "_MCMC_COMPLETE": "zsh_complete"})
    assert asked.stdout.splitlines() == ["plain", "zoo:mobilenet-v2", "_"]
    env["COMP_CWORD"] = "zoo:mobi"
    asked = CliRunner().invoke(cli, [], env={**env, "_MCMC_COMPLETE": "fish_complete"})
    assert asked.stdout.splitlines() == ["plain,zoo:mobilenet-v2"]


@pytest.mark.parametrize("shell", SHELLS)
def test_nothing_is_printed_amid_a_line(shell: str) -> None:
    assert "2>/dev/null" in script(shell, cli)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_verb_prints_the_script(shell: str) -> None:
    printed = CliRunner().invoke(cli, ["completion", shell])
    assert printed.stdout == script(shell, cli)
    as_json = CliRunner().invoke(cli, ["completion", shell, "--format", "json"])
    assert "_MCMC_COMPLETE" in as_json.stdout
    assert CliRunner().invoke(cli, ["completion", "csh"]).exit_code == 2
