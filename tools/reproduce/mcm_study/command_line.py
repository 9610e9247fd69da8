"""The command line that all `mcm_*.py` share, and where their results go."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from mcm_study.cells import Cell, KeptCells, Record
from mcm_study.measuring import Measurement, measure_cell, measure_cells
from mcm_study.methods import POLICIES, Method, Source, policy_card
from mcm_study.page import write_page

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "tools" / "reproduce" / "data"
DOCS = ROOT / "docs" / "results"
CELLS = DATA / "mcm_cells.jsonl"
VERSIONS = ("mcm-compiler", "jax", "numba", "numpy", "onnx", "optax", "ortools")


def parser_of(description: str | None, seeds: int) -> argparse.ArgumentParser:
    """The options that all scripts take."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=seeds, help=f"number of them ({seeds})")
    parser.add_argument("--workers", type=int, default=1, help="processes; 0: this one (1)")
    parser.add_argument(
        "--scheduler",
        metavar="URL",
        help="a Dask scheduler instead; its workers need tools/reproduce on PYTHONPATH",
    )
    parser.add_argument(
        "--only",
        metavar="TEXT",
        action="append",
        help="measure cells with this in their name, as in 'rl-no-prior |'; repeatable",
    )
    parser.add_argument("--fresh", action="store_true", help="again what older code measured")
    parser.add_argument("--cells", type=Path, default=CELLS, help="file that keeps the cells")
    parser.add_argument("--data", type=Path, default=DATA, metavar="FOLDER", help="of data files")
    parser.add_argument("--docs", type=Path, default=DOCS, metavar="FOLDER", help="of the page")
    parser.add_argument("--update", action="store_true", help="write data, plots and page")
    parser.add_argument("--render", action="store_true", help="measure nothing, write all of them")
    return parser


def run_experiment(
    options: argparse.Namespace,
    name: str,
    cells: Sequence[Cell],
    summarise: Callable[[Sequence[tuple[Cell, Record]]], dict[str, Any]],
    arguments: str,
    measure: Measurement = measure_cell,
) -> int:
    """Measures what is missing, and writes what there is.

    Args:
        options: from `parser_of`.
        name: of the script and of its data file.
        cells: all of the experiment.
        summarise: makes the data of what was found.
        arguments: of the command that measures all, for the page.
        measure: makes the record of a cell.

    Returns:
        The exit status: 1 where a cell was refused.
    """
    kept = KeptCells(options.cells)
    wanted = [c for c in cells if any(text in c.key for text in options.only or ("",))]
    refused = 0
    if not options.render:
        refused = measure_cells(
            wanted,
            measure,
            kept,
            workers=options.workers,
            scheduler=options.scheduler,
            fresh=options.fresh,
        )
    found = kept.found(cells)
    sources: set[Source] = {
        cell.method.weights for cell, _ in found if isinstance(cell.method, Method)
    }
    data = {
        "command": f"python tools/reproduce/{name}.py {arguments}".strip(),
        "cells": {"all": len(cells), "measured": len(found)},
        "code": sorted({record["code"] for _, record in found}),
        "versions": {package: metadata.version(package) for package in VERSIONS},
        "policies": {s: _policy(s) for s in POLICIES if s in sources},
        **summarise(found),
    }
    if not (options.update or options.render):
        print(json.dumps(data.get("bars", data), indent=1, ensure_ascii=False))
        return 1 if refused else 0
    options.data.mkdir(parents=True, exist_ok=True)
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    (options.data / f"{name}.json").write_text(_broken(text) + "\n", encoding="utf-8")
    write_page(options.data, options.docs)
    return 1 if refused else 0


def _policy(source: Source) -> dict[str, Any]:
    """What a reader must know of a shipped policy."""
    trained = policy_card(source).trained_on
    return {key: trained.get(key) for key in ("data_set", "samples", "seed", "target")}


def _broken(text: str) -> str:
    """Compact JSON with a line per object, so that differences can be read."""
    return text.replace("},", "},\n").replace(':{"', ':\n{"')
