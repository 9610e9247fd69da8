"""Writes the pictures of pages that the documents show.

    python tools/page_pictures.py                  compiles what they show, which takes minutes
    python tools/page_pictures.py --folder FOLDER  keeps it there, and takes what is there already

Pages are opened in headless Chromium, light and without a zoom. What fonts a machine has decides
how a picture looks; figures are those of the compiles.
"""

from __future__ import annotations

import argparse
import base64
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "how-to" / "images"
MCMC = Path(sys.executable).with_name("mcmc")
NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--no-sandbox", "--disable-gpu")
WIDTH = 1280

MAX_BYTES = 150_000
"""Of a picture: they are loaded with the documents."""

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_MOST_COLOURS = 256
_PIXELS = """
async (address) => {
  const image = new Image();
  image.src = address;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height);
  const drawn = canvas.getContext("2d");
  drawn.drawImage(image, 0, 0);
  const { data } = drawn.getImageData(0, 0, image.width, image.height);
  let text = "";
  for (let at = 0; at < data.length; at += 8192)
    text += String.fromCharCode(...data.subarray(at, at + 8192));
  return [image.width, image.height, btoa(text)];
}
"""

COMPILED = ("compile", "zoo:bert-large", "--target", "mcm36", "--html", "-o")

PROJECT = """targets = ["mcm4", "mcm16"]
level = 0
html = true

[[models]]
files = ["zoo:bert-tiny", "zoo:gpt2-tiny", "zoo:stacked-rnn{steps=4,hidden=16}"]
min_throughput = 1000

[[models]]
files = "zoo:plain-cnn{image_size=16,stages=2,blocks=2,width=16}"
max_gap = "20%"

[[models]]
files = "zoo:gpt2"
targets = "mcm4"
expected_failure = { code = "MCM-P004", reason = "needs more than four chips" }
"""


@dataclass(frozen=True)
class Picture:
    """A picture.

    Attributes:
        name: of its file.
        page: that it shows, below the folder of all.
        part: selector of an element, or None for the top of the page.
        height: of the window in pixels.
    """

    name: str
    page: str
    part: str | None
    height: int


PICTURES = (
    Picture("report-answers.png", "bert-large.html", None, 1240),
    Picture("report-timeline.png", "bert-large.html", "#timeline", 900),
    Picture("build-index.png", "project/build/mcmc/index.html", None, 900),
)


def main() -> int:
    """Compiles, looks, and fails where a picture is larger than the documents take."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, help="for what is compiled")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = asked.folder or Path(name)
        make_pages(folder)
        IMAGES.mkdir(exist_ok=True)
        sizes = {one.name: write_picture(folder, one, IMAGES / one.name) for one in PICTURES}
    for picture, size in sizes.items():
        print(f"{picture:<24} {size:>8,} bytes")
    return 0 if all(size <= MAX_BYTES for size in sizes.values()) else 1


def make_pages(folder: Path) -> None:
    """Compiles what lacks of the pages."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "bert-large.html").is_file():
        subprocess.run([MCMC, *COMPILED, folder / "bert-large", "--force"], check=True)
    project = folder / "project"
    if not (project / "build" / "mcmc" / "index.html").is_file():
        project.mkdir(exist_ok=True)
        (project / "mcmc.toml").write_text(PROJECT, encoding="utf-8")
        # A threshold is missed, so that the index has something to tell.
        subprocess.run([MCMC, "build", project / "mcmc.toml"], check=False)


def write_picture(folder: Path, picture: Picture, path: Path) -> int:
    """Writes a picture and gives its size in bytes."""
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        sys.exit("Chromium is not installed")
    with sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=found, args=list(FLAGS))
        try:
            _look(running, (folder / picture.page).resolve().as_uri(), picture, path)
        finally:
            running.close()
    return path.stat().st_size


def _look(running: Any, address: str, picture: Picture, path: Path) -> None:
    size = {"width": WIDTH, "height": picture.height}
    page = running.new_page(viewport=size, color_scheme="light")
    page.goto(address)
    page.wait_for_selector("html[data-ready=yes]", timeout=60_000)
    place = page if picture.part is None else page.locator(picture.part)
    seen = base64.b64encode(place.screenshot(animations="disabled")).decode()
    width, height, pixels = running.new_page().evaluate(_PIXELS, f"data:image/png;base64,{seen}")
    flat = np.frombuffer(base64.b64decode(pixels), np.uint8)
    path.write_bytes(png_of_few_colours(flat.reshape(height, width, 4)[:, :, :3]))


def png_of_few_colours(pixels: npt.NDArray[np.uint8]) -> bytes:
    """A PNG with at most 256 colours, a third of the size of one with all.

    Args:
        pixels: [height, width, 3], red, green and blue; rounded as far as that takes.
    """
    height, width, _ = pixels.shape
    step = 1
    while True:
        # White stays white.
        rounded = 255 - (255 - pixels.astype(np.int64)) // step * step
        colours, at = np.unique(rounded @ [1 << 16, 1 << 8, 1], return_inverse=True)
        if colours.size <= _MOST_COLOURS:
            break
        step *= 2
    rows = np.zeros(
        (height, width + 1), np.uint8
    )  # each begins with the number of its filter: none
    rows[:, 1:] = at.reshape(height, width)
    palette = colours.astype(">u4").view(np.uint8).reshape(-1, 4)[:, 1:].tobytes()
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = ((b"IHDR", head), (b"PLTE", palette), (b"IDAT", zlib.compress(rows.tobytes(), 9)),
             (b"IEND", b""))  # fmt: skip
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )


if __name__ == "__main__":
    sys.exit(main())
