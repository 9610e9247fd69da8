"""`requirements.lock` pins versions and names no index."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def lock() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lock_tool", ROOT / "tools" / "lock.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_project_itself_is_not_pinned(lock: ModuleType) -> None:
    freeze = "zlib-ng==1.0\nmcm-compiler @ file:///somewhere\n# a remark\nAttrs==26.1.0\n"
    assert lock.pins_of(freeze, "mcm-compiler") == ["Attrs==26.1.0", "zlib-ng==1.0"]


def test_what_has_no_version_is_refused(lock: ModuleType) -> None:
    with pytest.raises(ValueError, match="-e git"):
        lock.pins_of("-e git+https://example.org/x#egg=x\n", "mcm-compiler")


def test_the_lock_holds_pins_and_remarks_alone() -> None:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert pins
    assert [p for p in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", p)] == []


def test_every_dependency_is_in_the_lock() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [
        *project["project"]["dependencies"],
        *project["project"]["optional-dependencies"]["dev"],
        *project["build-system"]["requires"],
    ]
    pinned = {
        _normal(line.partition("==")[0])
        for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    }
    names = [_normal(re.split(r"[\[<>=!~; ]", requirement)[0]) for requirement in wanted]
    assert [name for name in names if name not in pinned] == []


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
