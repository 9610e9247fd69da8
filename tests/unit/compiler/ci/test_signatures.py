"""Keys of an installation: one, private, and apart from what others write."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mcm_compiler.ci.signatures import signer_apart_from


@pytest.fixture
def key(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    signer_apart_from.cache_clear()
    yield tmp_path / "state" / "mcmc" / "cache-key"
    signer_apart_from.cache_clear()


def signature(*apart: Path) -> str:
    signer_apart_from.cache_clear()
    return signer_apart_from(*apart).sign("kind", {"a": [1, 2.5, "x"]})


def test_a_key_is_made_once_and_is_private(key) -> None:
    first = signature()
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
    assert signature() == first
    signer = signer_apart_from()
    assert signer.holds(first, "kind", {"a": [1, 2.5, "x"]})
    for forged in (first[:-1], "", None, 1, "ü", first.upper()):
        assert not signer.holds(forged, "kind", {"a": [1, 2.5, "x"]})
    assert not signer.holds(first, "another kind", {"a": [1, 2.5, "x"]})
    assert os.listdir(key.parent) == [key.name]


@pytest.mark.parametrize(
    "change",
    [
        lambda key: key.chmod(0o640),
        lambda key: key.write_bytes(b"short"),
        lambda key: (key.rename(key.with_name("x")), key.symlink_to("x")),
        lambda key: (key.unlink(), os.mkfifo(key)),
    ],
)
def test_a_key_that_others_may_know_is_replaced(key, change) -> None:
    first = signature()
    change(key)
    assert signature() not in ("", first)
    assert stat.S_IMODE(key.lstat().st_mode) == 0o600
    assert stat.S_ISREG(key.lstat().st_mode)


def test_there_is_no_key_where_none_may_be(key, tmp_path, monkeypatch) -> None:
    assert signature(tmp_path) == ""
    assert "inside the project" in signer_apart_from(tmp_path).reason
    (tmp_path / "link").symlink_to(tmp_path / "cache" / "state")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "link"))
    assert signature(tmp_path / "cache") == ""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert signature() == ""
    assert signer_apart_from().reason
    assert not signer_apart_from().holds("", "kind")


def test_processes_that_begin_at_once_share_a_key(key) -> None:
    script = (
        "from mcm_compiler.ci.signatures import signer_apart_from;"
        "print(signer_apart_from().sign('x'))"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    assert len({process.communicate()[0] for process in running}) == 1
