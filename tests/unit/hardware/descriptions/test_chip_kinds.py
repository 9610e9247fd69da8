"""Kinds of chips that are plug-ins: what fails is named, not the family of the package."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from mcm_compiler.components.target_loading import load_target
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.registry import CHIP_KINDS
from mcm_hardware.descriptions.target_schema import Key


class Odd:
    """Fails where it is told to."""

    name = "test_odd"
    at = ""

    def __init__(self) -> None:
        self._fail("made")

    @property
    def keys(self) -> dict[str, Key]:
        self._fail("keys")
        return {}

    def check(self, reader: Any, values: Any) -> None:
        self._fail("check")

    def chip(self, values: Any, storage: Any) -> Any:
        self._fail("chip")

    def package(self, plain: Any, values: Any) -> Any:
        self._fail("package")

    def _fail(self, at: str) -> None:
        if at == self.at:
            raise RuntimeError("lost")


@pytest.fixture(autouse=True)
def odd() -> Generator[None]:
    CHIP_KINDS.add("test_odd", Odd, "odd.py")
    yield
    CHIP_KINDS.remove("test_odd")


TEXT = """
family = "ring"

[package]
chips = 2

[chip]
kind = "test_odd"
"""


@pytest.mark.parametrize("at", ["made", "keys"])
def test_a_kind_that_fails_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    monkeypatch.setattr(Odd, "at", at)
    path = tmp_path / "mine.toml"
    path.write_text(TEXT)
    with pytest.raises(CompileError) as caught:
        load_target(str(path))
    (found,) = caught.value.diagnostics
    assert found.code == "MCM-X007"
    assert found.message == "chip kind 'test_odd' failed: RuntimeError: lost"
    assert "odd.py" in str(found.at)
