"""The page of a report: its size, how soon it is there, and how smoothly it moves.

    python tools/bench/report_page.py                 BERT-large, and a model of 100,000 ops
    python tools/bench/report_page.py --quick --json  a page of 100,000 boxes without a compile
    python tools/bench/report_page.py --update        writes tools/bench/data/report_page.json

Pages are opened in headless Chromium, without a GPU. A page is there when all its views are drawn.
Frames are counted while it scrolls, while its graph is zoomed, and while that is moved: seen whole,
where each box is some pixels, and near, where boxes have names. Messages of its console are
counted, too. CPU-seconds are those of making the page from its folder.
"""

from __future__ import annotations

import gc
import shutil
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from harness.bars import Bar, as_json, median_bar
from harness.command_line import Settings, run_script

from mcm_compiler.api import compile_model
from mcm_compiler.options import CompileOptions
from mcm_compiler.page.contents import Page, Section, View, page_bytes
from mcm_compiler.page.folder_page import written_folder_page
from mcm_compiler.page.graph_view import graph_data, graph_part
from mcm_compiler.page.timeline_view import Row, timeline_data

OPS = 100_000
CHIPS = 36
DATA = Path(__file__).parent / "data" / "report_page.json"

UNVERIFIED = "simplify,fuse,annotate_cost,parallelize,partition,legalize,split,lower,simulate,emit"
"""The passes but the comparison in onnxruntime, which says nothing of pages."""

_FRAMES = """
([act, seconds]) => new Promise((done) => {
  const canvas = document.querySelector(".graph canvas");
  const acts = {
    scroll: (frame) => scrollBy({ top: frame % 120 < 60 ? 60 : -60, behavior: "instant" }),
    move: (frame) => canvas.dispatchEvent(
      new KeyboardEvent("keydown", { key: frame % 40 < 20 ? "ArrowRight" : "ArrowLeft" })),
    zoom: (frame) => canvas.dispatchEvent(
      new KeyboardEvent("keydown", { key: frame % 20 < 10 ? "+" : "-" })),
  };
  let frames = 0;
  let start = null;
  const step = (now) => {
    start ??= now;
    if (now - start >= 1000 * seconds) return done((1000 * frames) / (now - start));
    acts[act](frames);
    frames += 1;
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})
"""


def measure(asked: Settings) -> list[Bar]:
    """The bars."""
    gc.set_threshold(100_000, 20, 20)  # as the command line does
    bars: list[Bar] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if not asked.quick:
            content, seconds = _compiled_page("zoo:bert-large", folder / "bert", {})
            bars.append(median_bar("bert_large_page_mib", [len(content) / 2**20], 3.0))
            bars.append(median_bar("bert_large_page_cpu_s", [seconds], 5.0))
        page = folder / "large.html"
        if asked.quick:
            page.write_bytes(page_bytes(random_page(OPS)))
        else:
            model = folder / "large.onnx"
            write_large_model(model, OPS)
            content, seconds = _compiled_page(
                str(model), folder / "out", {"level": 0, "replicas": 1, "passes": UNVERIFIED}
            )
            page.write_bytes(content)
            bars.append(median_bar("large_page_cpu_s", [seconds], 15.0))
        bars += browser_bars(page, asked.repetitions)
    if asked.update:
        DATA.write_text(as_json(bars, ops=OPS) + "\n", encoding="utf-8")
    return bars


def _compiled_page(model: str, folder: Path, options: dict[str, Any]) -> tuple[bytes, float]:
    """The page of a compile for `mcm36`, and the CPU-seconds that making it took."""
    compile_model(model, "mcm36", CompileOptions(**options), output=folder)
    gc.collect()
    start = time.process_time()
    content = written_folder_page(folder)
    return content, time.process_time() - start


def write_large_model(path: Path, ops: int) -> None:
    """Products of small matrices, each of the one before and one of the last sixty."""
    import onnx
    from onnx import TensorProto, helper

    rng = np.random.default_rng(0)
    back = rng.integers(2, 60, ops)
    names = ["x", *(f"y{i}" for i in range(ops))]
    nodes = [
        helper.make_node(
            "MatMul",
            [names[i], names[max(i + 1 - int(back[i]), 0)]],
            [names[i + 1]],
            name=f"/block.{i // 100}/layer.{i // 10 % 10}/MatMul_{i}",
        )
        for i in range(ops)
    ]
    ends = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [8, 8]) for n in (names[0], names[-1])
    ]
    graph = helper.make_graph(nodes, "large", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 21)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)


def random_page(boxes: int) -> Page:
    """A page of a random graph and a timeline of its boxes, without a compile."""
    rng = np.random.default_rng(0)
    ends = np.repeat(np.arange(1, boxes, dtype=np.int32), 2)
    starts = np.maximum(ends - rng.integers(1, 60, ends.size, np.int32), 0).astype(np.int32)
    chips = (np.arange(boxes) * CHIPS // boxes).astype(np.int32)
    seconds = rng.exponential(1e-6, boxes)
    names = [f"/block.{i // 100}/layer.{i // 10 % 10}/MatMul_{i}" for i in range(boxes)]
    data = graph_data(names, ["MatMul"] * boxes, seconds, chips, starts, ends)
    data |= {"place": "chip", "placeNames": [f"chip {chip}" for chip in range(CHIPS)]}
    rows: list[Row] = []
    for chip in range(CHIPS):
        own = np.flatnonzero(chips == chip)
        begin = np.cumsum(seconds[own]) - seconds[own]
        rows.append(Row(f"chip {chip}", "chip", begin, seconds[own], own, np.full(own.size, chip)))
    span = max(float((row.begin_s + row.length_s).max()) for row in rows)
    timeline = View("timeline", timeline_data(rows, names, span), "Timeline")
    sections = (Section("timeline", "Timeline", (), timeline), graph_part(f"{boxes:,} boxes", data))
    return Page("A random graph", sections=sections)


def browser_bars(path: Path, rounds: int) -> list[Bar]:
    """How soon the page is there, and frames per second while it moves."""
    opened: list[float] = []
    frames: dict[str, list[float]] = {
        name: [] for name in ("scroll", "zoom", "move_whole", "move_near")
    }
    messages: list[float] = []
    with _browser() as browser:
        for _ in range(rounds):
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            told = _complaints_of(page)
            start = time.perf_counter()
            page.goto(path.as_uri())
            page.wait_for_selector("html[data-ready=yes]", timeout=60_000)
            page.wait_for_selector(".graph canvas", timeout=60_000)
            opened.append(time.perf_counter() - start)
            page.wait_for_timeout(500)
            frames["scroll"].append(page.evaluate(_FRAMES, ["scroll", 2]))
            page.locator(".graph canvas").scroll_into_view_if_needed()
            frames["zoom"].append(page.evaluate(_FRAMES, ["zoom", 2]))
            frames["move_whole"].append(page.evaluate(_FRAMES, ["move", 2]))
            for _ in range(6):
                page.locator(".graph button[aria-label='Zoom in']").click()
            frames["move_near"].append(page.evaluate(_FRAMES, ["move", 2]))
            messages.append(len(told))
            page.close()
    return [
        median_bar("large_page_open_s", opened, 3.0),
        median_bar("large_page_console_messages", messages, 1),
        *(
            median_bar(f"large_page_{name}_fps", samples, 30.0, "above")
            for name, samples in frames.items()
        ),
    ]


def _complaints_of(page: Any) -> list[str]:
    """Messages of the console and errors of the script, which come while the page is used."""
    told: list[str] = []

    def tell(message: Any) -> None:
        told.append(str(message))

    page.on("console", tell)
    page.on("pageerror", tell)
    return told


@contextmanager
def _browser() -> Generator[Any]:
    from playwright.sync_api import sync_playwright

    names = ("chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        sys.exit("Chromium is not installed")
    with sync_playwright() as driver:
        running = driver.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            yield running
        finally:
            running.close()


if __name__ == "__main__":
    sys.exit(run_script(__doc__, measure, can_update=True))
