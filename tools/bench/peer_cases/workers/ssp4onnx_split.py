"""Simple Split for ONNX: consecutive pieces of about equal weights.

Runs in the environment of ssp4onnx: `python ssp4onnx_split.py REQUEST.json ANSWER.json`.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any


def main(request: Path, answer: Path) -> None:
    """Splits the model of the request at a size of weights."""
    onnx: Any = importlib.import_module("onnx")
    ssp4onnx: Any = importlib.import_module("ssp4onnx")
    asked = json.loads(request.read_text(encoding="utf-8"))
    start = time.process_time()
    files: list[str] = ssp4onnx.split(
        input_onnx_file_path=asked["model"],
        auto_split_max_size=f"{asked['kilobytes']}KB",
        output_dir=asked["out"],
        non_verbose=True,
    )
    cpu_s = time.process_time() - start
    told: list[dict[str, Any]] = []
    for file in files:
        graph = onnx.load(file, load_external_data=False).graph
        told.append({"file": file, "ops": [node.name for node in graph.node]})
    answer.write_text(json.dumps({"pieces": told, "cpu_s": cpu_s}), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
