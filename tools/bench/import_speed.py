"""How long the import of a large model takes, and how much memory.

The model is a chain of residual blocks (four ops and a weight each), written to a file; a fresh
process imports it. `import_100k_s` and `import_100k_rss_gib` are for 100,000 nodes, without and
with the interpreter and its libraries. `import_growth` compares it with 10,000 nodes: 1 is linear.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from harness.bars import Bar, median_bar
from harness.children import run_child
from harness.command_line import Settings, run_script
from onnx import TensorProto, helper, numpy_helper

GIB = float(1 << 30)
WIDTH = 8
PROGRAM = """
import gc, pathlib, sys, time
from mcm_compiler.ir.reading.importer import import_onnx
gc.set_threshold(100_000, 20, 20)  # as the command line does
import_onnx(pathlib.Path(sys.argv[1]))
start = time.perf_counter()
import_onnx(pathlib.Path(sys.argv[2]))
print(time.perf_counter() - start)
"""
"""Imports a small model first, so that loading libraries is not part of the figure."""


def measure(settings: Settings) -> list[Bar]:
    """All bars; where `settings.quick`, with one run of the large model."""
    with tempfile.TemporaryDirectory(prefix="mcm-bench-") as name:
        folder = Path(name)
        sizes = (1_000, 10_000, 100_000)
        files = {size: _write(folder / f"{size}.onnx", size) for size in sizes}
        small = [_import(folder, files[1_000])[0] for _ in range(settings.repetitions)]
        middle = [_import(folder, files[10_000])[0] for _ in range(settings.repetitions)]
        runs = [_import(folder, files[100_000]) for _ in range(1 if settings.quick else 3)]
    large = [seconds for seconds, _ in runs]
    growth = statistics.median(large) / statistics.median(middle) / 10
    early = statistics.median(middle) / statistics.median(small) / 10
    return [
        median_bar("import_100k_s", large, 20.0),
        median_bar("import_100k_rss_gib", [rss for _, rss in runs], 2.0),
        median_bar("import_growth", [growth], 1.5),
        median_bar("import_growth_1k_to_10k", [early], 1.5),
    ]


def _import(folder: Path, path: Path) -> Sequence[float]:
    """Seconds of the import, and the peak of the process's resident set in GiB."""
    command = [sys.executable, "-c", PROGRAM, folder / "1000.onnx", path]
    child = run_child(command)
    return float(child.stdout), child.peak_rss_bytes / GIB


def _write(path: Path, num_nodes: int) -> Path:
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []
    rng = np.random.default_rng(0)
    for block in range(num_nodes // 4):
        before = f"block.{block - 1}/out" if block else "x"
        name = f"block.{block}"
        array = rng.standard_normal((WIDTH, WIDTH)).astype(np.float32)
        weights.append(numpy_helper.from_array(array, f"{name}/weight"))
        for op, inputs, output in (
            ("MatMul", [before, f"{name}/weight"], "product"),
            ("Relu", [f"{name}/product"], "positive"),
            ("Add", [f"{name}/positive", before], "sum"),
            ("Tanh", [f"{name}/sum"], "out"),
        ):
            nodes.append(helper.make_node(op, inputs, [f"{name}/{output}"], f"{name}/{op}"))
    value = helper.make_tensor_value_info
    last = f"block.{num_nodes // 4 - 1}/out"
    graph = helper.make_graph(
        nodes,
        "blocks",
        [value("x", TensorProto.FLOAT, [1, WIDTH])],
        [value(last, TensorProto.FLOAT, [1, WIDTH])],
        weights,
    )
    opset = [helper.make_opsetid("", 17)]
    path.write_bytes(
        helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()
    )
    return path


if __name__ == "__main__":
    sys.exit(run_script(__doc__, measure))
