"""The pictures of pages are there, small, and shown; one can be made anew."""

from __future__ import annotations

import importlib
import re
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from mcm_compiler.page.contents import Answer, Page, page_bytes
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


@pytest.mark.parametrize("colours", [2, 256, 5000])
def test_a_picture_has_few_colours_and_white_stays_white(tool, colours) -> None:
    rng = np.random.default_rng(colours)
    palette = rng.integers(0, 256, (colours, 3), np.uint8)
    palette[0] = 255
    pixels = palette[rng.integers(0, colours, (40, 30))]
    pixels[0, 0] = 255
    data = tool.png_of_few_colours(pixels)
    length, kind = struct.unpack(">I4s", data[33:41])
    assert (kind, data[16:24]) == (b"PLTE", struct.pack(">II", 30, 40))
    assert length <= 3 * 256
    table = np.frombuffer(data[41 : 41 + length], np.uint8).reshape(-1, 3)
    start = data.index(b"IDAT") + 4
    rows = np.frombuffer(zlib.decompress(data[start:-16]), np.uint8).reshape(40, 31)
    assert not rows[:, 0].any()
    read = table[rows[:, 1:]].astype(int)
    assert (read[0, 0] == 255).all()
    assert np.abs(read - pixels).max() <= (0 if colours <= 256 else 63)


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
