"""The pictures of pages are there, small, and shown; one can be made anew."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from mcm_compiler.page.contents import Answer, Page
from mcm_compiler.page.html import page_bytes
from tests.generators.browser import browser

ROOT = Path(__file__).parents[3]
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("page_pictures")


def test_the_pictures_are_there_small_and_shown(tool) -> None:
    named = [picture.name for picture in tool.PICTURES]
    assert sorted(path.name for path in tool.IMAGES.iterdir()) == sorted(named)
    for name in named:
        data = (tool.IMAGES / name).read_bytes()
        assert data.startswith(PNG)
        assert len(data) <= tool.MAX_BYTES
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown = {
        (page.parent / place).resolve()
        for page in pages
        for place in re.findall(r"!\[[^\]]+\]\(([^)]+\.png)\)", page.read_text(encoding="utf-8"))
    }
    assert {tool.IMAGES / name for name in named} <= shown


def test_a_picture_is_made_of_a_page(tool, tmp_path) -> None:
    with browser():
        pass  # skips where there is none
    answers = (Answer("Does it fit?", "yes"),)
    (tmp_path / "page.html").write_bytes(page_bytes(Page("net on mcm4", answers=answers)))
    sizes = []
    for part in (None, ".answer"):
        picture = tool.Picture("x.png", "page.html", part, 300)
        sizes.append(tool.write_picture(tmp_path, picture, tmp_path / "x.png"))
        assert (tmp_path / "x.png").read_bytes().startswith(PNG)
    assert sizes[0] > sizes[1] > 500
