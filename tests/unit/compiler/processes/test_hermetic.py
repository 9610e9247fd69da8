"""What `import mcm_compiler` sets for onnxruntime and numba."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcm_compiler.processes import hermetic
from mcm_compiler.processes.hermetic import private_kernels


def _after_import(**environment: str) -> list[str]:
    code = (
        "import os, mcm_compiler;"
        "print(os.environ.get('ORT_DISABLE_TELEMETRY'), os.environ.get('NUMBA_CACHE_DIR'))"
    )
    clean = {k: v for k, v in os.environ.items() if k not in ("ORT_DISABLE_TELEMETRY",)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=clean | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_telemetry_is_off_unless_a_user_says_otherwise(tmp_path: Path) -> None:
    own = str(tmp_path)
    assert _after_import(NUMBA_CACHE_DIR=own) == ["1", own]
    assert _after_import(NUMBA_CACHE_DIR=own, ORT_DISABLE_TELEMETRY="0") == ["0", own]


def test_an_installation_that_can_be_written_keeps_its_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    hermetic._place_kernels(str(tmp_path))  # pyright: ignore[reportPrivateUsage]
    assert "NUMBA_CACHE_DIR" not in os.environ


def test_one_that_cannot_has_a_private_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(hermetic, "_writable", lambda _folder: False)
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/nowhere")
    hermetic._place_kernels("/nowhere")  # pyright: ignore[reportPrivateUsage]
    folder = tmp_path / f".mcmc-kernels-{os.geteuid()}"
    assert os.environ["NUMBA_CACHE_DIR"] == str(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert private_kernels() == str(folder)


@pytest.mark.parametrize("taken", ["link", "open to others", "file"])
def test_a_name_that_others_could_have_taken_is_not_trusted(
    taken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    name = tmp_path / f".mcmc-kernels-{os.geteuid()}"
    if taken == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        name.symlink_to("elsewhere")
    elif taken == "file":
        name.touch()
    else:
        name.mkdir()
        name.chmod(0o777)
    first, second = private_kernels(), private_kernels()
    assert first is not None
    assert second is not None
    assert len({str(name), first, second}) == 3
    assert all(Path(folder).stat().st_mode & 0o777 == 0o700 for folder in (first, second))
