"""How much memory a process that compiles many models keeps of each.

Each measurement is a process of its own, which compiles one model after the other (`mixed`: four
models in turn), checks some, and reads how much anonymous memory it has in use after the allocator
has given free memory back. The first 200 of 1,000 compiles load libraries and kernels;
`*_mib_per_compile` is the slope of a line through what was in use after each of the later ones.
With `--quick` there are fewer compiles of one kind.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from harness.bars import Bar, median_bar
from harness.children import run_child
from harness.command_line import Settings, run_script

MODEL = "zoo:plain-cnn{image_size=16,stages=1,blocks=1,width=16}"

OTHERS = ("zoo:bert-tiny", "zoo:stacked-rnn", "zoo:plain-cnn{image_size=32}")

KINDS = {
    "ring": "mcm4",
    "level_2": "mcm4",
    "fabric": "fabric-12",
    "placed": "box-2gpu",
    "checked": "mcm4",
    "mixed": "mcm4",
}
"""Targets of what is measured."""

WARM, MEASURED = 200, 800
QUICK_WARM, QUICK_MEASURED = 20, 40
EVERY = 10
"""Compiles between two readings."""

BAR_MIB = 0.01
"""Ten MiB for a thousand compiles."""

QUICK_BAR_MIB = 0.25
"""Few compiles do not tell a slope from the allocator's steps."""


def measure(settings: Settings) -> list[Bar]:
    """Measures each kind."""
    warm, count = (QUICK_WARM, QUICK_MEASURED) if settings.quick else (WARM, MEASURED)
    bars: list[Bar] = []
    for kind in ("checked",) if settings.quick else KINDS:
        done = run_child([sys.executable, __file__, "--child", kind, str(warm), str(count)])
        found = json.loads(done.stdout)
        bar = QUICK_BAR_MIB if settings.quick else BAR_MIB
        bars.append(median_bar(f"{kind}_mib_per_compile", [slope(found)], bar))
    return bars


def slope(readings: list[float]) -> float:
    """MiB per compile of the line with the least squared distances from the readings."""
    count = len(readings)
    middle, mean = (count - 1) / 2, sum(readings) / count
    above = sum((at - middle) * (value - mean) for at, value in enumerate(readings))
    below = sum((at - middle) ** 2 for at in range(count))
    return above / below / EVERY


def readings(work: Callable[[], object], warm: int, count: int) -> list[float]:
    """MiB in use after every so many of `count` runs of `work`, behind `warm` others."""
    found: list[float] = []
    for number in range(warm + count):
        work()
        if number >= warm and (number - warm) % EVERY == 0:
            found.append(anonymous_mib())
    return found


def anonymous_mib() -> float:
    """Memory of this process that no file backs, without what is free."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = (text for text in status.splitlines() if text.startswith("RssAnon:"))
    return int(line.split()[1]) / 1024


def compile_one(kind: str, model: str, folder: Path) -> None:
    """A compile, or for `placed` a placement; for `checked` a check against the model as well."""
    from mcm_compiler.api import compile_model
    from mcm_compiler.checking.check import check_folder
    from mcm_compiler.options import CompileOptions
    from mcm_compiler.placed.placing import place_model

    if kind == "placed":
        place_model(model, KINDS[kind], output=folder / "out", force=True)
        return
    options = CompileOptions(level=2 if kind == "level_2" else 0)
    compile_model(model, KINDS[kind], options, output=folder / "out", force=True)
    if kind == "checked":
        check_folder(folder / "out", model=model)


def main() -> int:
    """The script, or a process of a measurement."""
    if sys.argv[1:2] != ["--child"]:
        return run_script(__doc__, measure)
    kind, warm, count = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    with tempfile.TemporaryDirectory(prefix="mcm-bench-") as name:
        models = itertools.cycle((MODEL, *OTHERS) if kind == "mixed" else (MODEL,))
        found = readings(lambda: compile_one(kind, next(models), Path(name)), warm, count)
    print(json.dumps(found))
    return os.EX_OK


if __name__ == "__main__":
    sys.exit(main())
