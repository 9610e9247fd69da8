"""`mcmc explore` in processes of its own: killed at any moment, it goes on to the same bytes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.end_to_end.conftest import Mcmc

_MODEL = "zoo:plain-cnn{image_size=16,stages=2,blocks=2,width=8,batch=2,classes=10}"


_ARGUMENTS = (
    "explore", _MODEL, "--target", "mcm4", "-O0", "--sweep", "package.num_chips=1..4",
    "--json", "out.json", "--jobs", "1",
)  # fmt: skip


def _lines(journal: Path) -> int:
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def test_a_killed_command_resumes_to_the_same_bytes(mcmc: Mcmc, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    done = mcmc(*_ARGUMENTS, cwd=whole)
    assert done.returncode == 0, done.stderr
    expected = (whole / "out.json").read_bytes()
    assert [path.name for path in whole.iterdir()] == ["out.json"]

    killed = tmp_path / "killed"
    killed.mkdir()
    journal = killed / "out.json.part"
    command = [sys.executable, "-m", "mcm_compiler", *_ARGUMENTS]
    with subprocess.Popen(
        command, cwd=killed, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        while process.poll() is None and _lines(journal) < 2:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
    time.sleep(0.5)  # those that end with it
    if (killed / "out.json").exists():  # it was faster than the kill
        assert (killed / "out.json").read_bytes() == expected
        return
    assert "MCM-U063" in mcmc(*_ARGUMENTS, cwd=killed).stderr
    again = mcmc(*_ARGUMENTS, "--resume", cwd=killed)
    assert again.returncode == 0, again.stderr
    assert (killed / "out.json").read_bytes() == expected
    assert [path.name for path in killed.iterdir()] == ["out.json"]


def test_hostile_arguments_are_told(mcmc: Mcmc, tmp_path: Path) -> None:
    for arguments, code in (
        (["--sweep", "chip.sram_mb=1"], "MCM-U062"),
        (["--sweep", "chip.sram_mib"], "MCM-U061"),
        (["--sweep", "chip.sram_mib=1", "--sweep", "chip.sram_mib=2"], "MCM-U061"),
        (["--sweep", "chip.sram_mib=64", "--front", "speed"], "'speed' is not one of"),
        (["--sweep", "chip.sram_mib=64", "--resume"], "--resume needs --json"),
    ):
        done = mcmc("explore", _MODEL, *arguments, cwd=tmp_path)
        assert done.returncode in (1, 2)
        assert code in done.stderr
    assert not list(tmp_path.iterdir())
