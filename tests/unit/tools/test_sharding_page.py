"""The page of sharding rules says what the rules are."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def tool():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        yield importlib.import_module("render_sharding_rules")


def test_the_page_is_up_to_date(tool):
    page = (ROOT / "docs" / "reference" / "sharding-rules.md").read_text(encoding="utf-8")
    assert page == tool.render(), "run: python tools/render_sharding_rules.py"


def test_a_page_that_is_out_of_date_is_noticed(tool, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(tool, "PATH", tmp_path / "page.md")
    monkeypatch.setattr(tool, "render", lambda: "now\n")
    monkeypatch.setattr("sys.argv", ["render", "--check"])
    assert tool.main() == 1
    assert "out of date" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["render"])
    assert tool.main() == 0
    monkeypatch.setattr("sys.argv", ["render", "--check"])
    assert tool.main() == 0


def test_the_example_of_a_plug_in_is_the_one_that_is_tested(tool):
    shown = re.search(r"```toml\n(.*?)```", tool.INTRODUCTION, re.DOTALL)
    assert shown is not None
    plugin = ROOT / "tests" / "acme_passes"
    described = (plugin / "pyproject.toml").read_text(encoding="utf-8")
    assert set(shown.group(1).splitlines()) <= set(described.splitlines())
    code = re.search(
        r"```python\n(BLEND = .*?\n).*?(    width = .*?\n)```", tool.INTRODUCTION, re.DOTALL
    )
    assert code is not None
    source = (plugin / "acme_passes" / "sharding.py").read_text(encoding="utf-8")
    assert code.group(1) in source
    assert code.group(2) in source
