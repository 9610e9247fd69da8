"""`mcmc explore` in processes of its own: killed at any moment, it goes on to the same bytes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

_MODEL = "zoo:plain-cnn{image_size=16,stages=2,blocks=2,width=8,batch=2,classes=10}"


def _command(*more: str) -> list[str]:
    sweep = "package.num_chips=1..4"
    return [
        sys.executable, "-m", "mcm_compiler", "explore", _MODEL, "--target", "mcm4", "-O0",
        "--sweep", sweep, "--json", "out.json", "--jobs", "1", *more,
    ]  # fmt: skip


def _lines(journal: Path) -> int:
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def test_a_killed_command_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    done = subprocess.run(_command(), cwd=whole, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = (whole / "out.json").read_bytes()
    assert [path.name for path in whole.iterdir()] == ["out.json"]

    killed = tmp_path / "killed"
    killed.mkdir()
    journal = killed / "out.json.part"
    with subprocess.Popen(
        _command(), cwd=killed, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        while process.poll() is None and _lines(journal) < 2:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
    time.sleep(0.5)  # those that end with it
    if (killed / "out.json").exists():  # it was faster than the kill
        assert (killed / "out.json").read_bytes() == expected
        return
    refused = subprocess.run(_command(), cwd=killed, capture_output=True, check=False)
    assert b"MCM-U063" in refused.stderr
    again = subprocess.run(_command("--resume"), cwd=killed, capture_output=True, check=False)
    assert again.returncode == 0, again.stderr
    assert (killed / "out.json").read_bytes() == expected
    assert [path.name for path in killed.iterdir()] == ["out.json"]


def test_hostile_arguments_are_told(tmp_path: Path) -> None:
    for arguments, code in (
        (["--sweep", "chip.sram_mb=1"], b"MCM-U062"),
        (["--sweep", "chip.sram_mib"], b"MCM-U061"),
        (["--sweep", "chip.sram_mib=1", "--sweep", "chip.sram_mib=2"], b"MCM-U061"),
        (["--sweep", "chip.sram_mib=64", "--front", "speed"], b"'speed' is not one of"),
        (["--sweep", "chip.sram_mib=64", "--resume"], b"--resume needs --json"),
    ):
        command = [sys.executable, "-m", "mcm_compiler", "explore", _MODEL, *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode in (1, 2)
        assert code in done.stderr
        assert b"Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())
