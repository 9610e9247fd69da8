"""A plain wheel becomes one of a platform: tag, pins, record, and the file of kernels."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib
import pickle
import zipfile
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[3] / "tools"
MADE_FOR = {"numba": "9.8.7", "llvmlite": "6.5.4"}
METADATA = """\
Metadata-Version: 2.4
Name: mcm-compiler
Requires-Dist: numba>=0.61
Requires-Dist: numpy>=2.0

Requires-Dist: numba is a line of the readme.
"""


@pytest.fixture
def tools(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    return lambda name: importlib.import_module(f"wheel_kernels.{name}")


@pytest.fixture
def plain(tmp_path):
    path = tmp_path / "mcm_compiler-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mcm_compiler/__init__.py", "")
        folder = "mcm_compiler-1.0.dist-info"
        archive.writestr(f"{folder}/METADATA", METADATA)
        archive.writestr(f"{folder}/WHEEL", "Root-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{folder}/RECORD", "mcm_compiler/__init__.py,,\n")
    return path


def test_wheel_of_a_platform(tools, plain, tmp_path):
    repacking = tools("repacking")
    made = repacking.repacked(plain, tmp_path, b"kernels", "linux_x86_64", MADE_FOR)
    python = repacking.python_tag()
    assert made.name == f"mcm_compiler-1.0-{python}-{python}-linux_x86_64.whl"
    with zipfile.ZipFile(made) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    folder = "mcm_compiler-1.0.dist-info"
    assert content["mcm_compiler/compiled_kernels.bin"] == b"kernels"
    metadata = content[f"{folder}/METADATA"].decode()
    assert "Requires-Dist: llvmlite==6.5.4\nRequires-Dist: numba==9.8.7\n" in metadata
    assert metadata.endswith("numba is a line of the readme.\n")
    wheel = content[f"{folder}/WHEEL"].decode().splitlines()
    assert wheel == ["Root-Is-Purelib: false", f"Tag: {python}-{python}-linux_x86_64"]
    rows = {row[0]: row for row in csv.reader(content[f"{folder}/RECORD"].decode().splitlines())}
    assert rows.keys() == content.keys()
    for name, data in content.items():
        if name != f"{folder}/RECORD":
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert rows[name][1:] == [f"sha256={digest}", str(len(data))]
    again = repacking.repacked(plain, tmp_path, b"kernels", "linux_x86_64", MADE_FOR)
    assert again.read_bytes() == made.read_bytes()


def test_only_a_plain_wheel_that_asks_for_numba(tools, plain, tmp_path):
    repacking = tools("repacking")
    made = repacking.repacked(plain, tmp_path, b"", "linux_x86_64", MADE_FOR)
    with pytest.raises(ValueError, match="is not tagged"):
        repacking.repacked(made, tmp_path, b"", "linux_x86_64", MADE_FOR)
    bare = tmp_path / "bare-1.0-py3-none-any.whl"
    with zipfile.ZipFile(bare, "w") as archive:
        for name in ("METADATA", "WHEEL", "RECORD"):
            archive.writestr(f"bare-1.0.dist-info/{name}", "Name: bare\n")
    with pytest.raises(ValueError, match="does not ask for numba"):
        repacking.repacked(bare, tmp_path, b"", "linux_x86_64", MADE_FOR)


def test_every_strategy_that_learns_nothing_is_filled(tools):
    from mcm_compiler.components.extras import extra_of
    from mcm_compiler.registry import STRATEGIES

    names = {
        row.name for row in STRATEGIES.registrations() if row.origin.startswith("mcm-compiler")
    }
    plain = {name for name in names if not extra_of(STRATEGIES.get(name))}
    # These run others, and are given their answer.
    assert plain - {"portfolio", "manual"} == set(tools("filling").STRATEGIES)


@pytest.mark.parametrize(
    "fault", [b"cgone_module\nGone\n.", b"cpathlib\nGone\n.", b"cgone.a\nb\n."]
)
def test_an_index_with_a_type_that_moved_is_left_out(tools, tmp_path, fault):
    from mcm_compiler.arrays.kernel_cache import kept_version

    (tmp_path / "pack/__pycache__").mkdir(parents=True)
    (tmp_path / "pack/one.py").write_text("")
    index = tmp_path / "pack/__pycache__/one.f-1.py311.nbi"
    index.write_bytes(pickle.dumps(kept_version()) + fault)
    assert tools("harvest").harvested([tmp_path / "pack"], {"numba": ""}) == {}
