"""Writes the small models of real exporters that the tests compile.

Every module of `tools/exports` that has `EXPORTER` drives one exporter. An exporter that is not
installed is passed over and its models stay as they are, with the versions that wrote them.
Weights are seeded; what exporters note about the machine they ran on is removed.

    pip install -e '.[exports]'
    python tools/make_exports.py [NAME ...]
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import random
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from exports.anonymous import without_machine_traces
from exports.export import Export

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "data" / "exports"
MANIFEST = "manifest.json"
MODULES = (
    "torch_legacy",
    "torch_dynamo",
    "keras_torch",
    "sklearn_skl2onnx",
    "trees_onnxmltools",
    "jax_jax2onnx",
    "paddle_paddle2onnx",
    "onnxruntime_tools",
    "onnxscript_functions",
    "onnx_text",
)
MOST_BYTES = 300_000


def write_export(export: Export, folder: Path) -> tuple[str, ...]:
    """Writes one model, after all else went well, and returns the names of its files.

    Raises:
        ValueError: if it is larger than `MOST_BYTES`.
    """
    with TemporaryDirectory(prefix="mcm-export-") as name:
        path = Path(name) / f"{export.name}.onnx"
        random.seed(0)
        np.random.seed(0)
        export.write(path)
        without_machine_traces(path)
        files = sorted(Path(name).iterdir())
        for file in files:
            if file.stat().st_size > MOST_BYTES:
                raise ValueError(f"{file.name} has {file.stat().st_size} bytes")
        for file in files:
            (folder / file.name).write_bytes(file.read_bytes())
    return tuple(file.name for file in files)


def entry_of(export: Export, files: Sequence[str], module: Any) -> dict[str, Any]:
    """The manifest's entry of one model."""
    return {
        "file": f"{export.name}.onnx",
        "external_data": [name for name in files if name != f"{export.name}.onnx"],
        "exporter": module.EXPORTER,
        "versions": {package: version(package) for package in module.PACKAGES},
        "description": export.description,
        "dims": dict(export.dims),
        "shapes": {name: list(shape) for name, shape in export.shapes.items()},
        "target": export.target,
        "equality": export.equality,
        "constant_outputs": list(export.constant_outputs),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the exporters that are installed; 1 if a model could not be written."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="models to write; all of them by default")
    parser.add_argument("--output", type=Path, default=FOLDER)
    settings = parser.parse_args(arguments)
    settings.output.mkdir(parents=True, exist_ok=True)
    logging.disable(logging.WARNING)
    manifest = settings.output / MANIFEST
    entries: dict[str, Any] = {}
    if manifest.exists():
        entries = {e["file"]: e for e in json.loads(manifest.read_text("utf-8"))["models"]}
    failures = 0
    for name in MODULES:
        try:
            module = importlib.import_module(f"exports.{name}")
        except ImportError as error:
            print(f"{name}: passed over, {error}", file=sys.stderr)
            continue
        for export in module.exports():
            if settings.names and export.name not in settings.names:
                continue
            try:
                files = write_export(export, settings.output)
            except Exception as error:  # an exporter may raise anything; the others still run
                print(f"{export.name}: {type(error).__name__}: {error}", file=sys.stderr)
                failures += 1
                continue
            entries[f"{export.name}.onnx"] = entry_of(export, files, module)
            size = sum((settings.output / file).stat().st_size for file in files)
            print(f"{export.name}: {size} bytes")
    models = [entries[file] for file in sorted(entries)]
    manifest.write_text(json.dumps({"models": models}, indent=2) + "\n", encoding="utf-8")
    return 1 if failures else 0


def _fix_hashes() -> None:
    """Starts anew with fixed hashes of strings: some exporters name things in set order."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, *sys.argv])  # noqa: S606


if __name__ == "__main__":
    _fix_hashes()
    sys.exit(main())
