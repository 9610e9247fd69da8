"""CPU time and memory of whole compiles at `-O1` of large graphs, and how they grow.

Transformers of 15 ops a layer, random graphs and fan-outs of 10,000, 30,000 and 100,000 ops, with
small weights, for mcm36. `*_cpu_s` and `*_gib` are the CPU seconds and the largest resident set of
one `mcmc compile` in a fresh process; `*_growth` is the CPU time of 100,000 ops over that of
10,000. `transformer_cut_spread` is the slowest of 40 evaluations of a transformer of 20,000 ops on
two chips, cut at places spread over it, over their median. `--quick` measures 10,000 ops alone.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from harness.bars import Bar, median_bar
from harness.children import MCMC, run_child
from harness.command_line import Settings, run_script

SIZES = (10_000, 30_000, 100_000)
WIDTH = 32
CUT_OPS, CUTS = 20_000, 40
GIB = float(1 << 30)

CPU_BARS_S = {10_000: 12.0, 30_000: 30.0, 100_000: 60.0}
GROWTH_BAR, GIB_BAR, SPREAD_BAR = 11.0, 2.0, 5.0


class _Graph:
    """A graph that is built op by op, on tensors of one shape."""

    def __init__(self) -> None:
        import onnx

        self._onnx = onnx
        self.nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._rng = np.random.default_rng(7)

    def op(self, kind: str, *read: str, **fields: Any) -> str:
        made = f"v{len(self.nodes)}"
        name = f"n{len(self.nodes)}"
        self.nodes.append(self._onnx.helper.make_node(kind, read, [made], name=name, **fields))
        return made

    def weight(self, *shape: int) -> str:
        name = f"w{len(self._weights)}"
        data = (self._rng.standard_normal(shape) / 8).astype(np.float32)
        self._weights.append(self._onnx.numpy_helper.from_array(data, name))
        return name

    def save(self, path: Path, output: str) -> None:
        helper, kind = self._onnx.helper, self._onnx.TensorProto.FLOAT
        ends = [helper.make_tensor_value_info(n, kind, [1, 16, WIDTH]) for n in ("x", output)]
        graph = helper.make_graph(self.nodes, path.stem, ends[:1], ends[1:], self._weights)
        opset = [helper.make_opsetid("", 17)]
        self._onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=10), path)


def write_transformer(path: Path, ops: int) -> None:
    """Layers of attention with one head, and of two products."""
    graph, x = _Graph(), "x"
    while len(graph.nodes) < ops:
        q, k, v, o, f, g = (graph.weight(WIDTH, WIDTH) for _ in range(6))
        scale = graph.weight(WIDTH)
        normed = graph.op("LayerNormalization", x, scale, axis=-1)
        keys = graph.op("Transpose", graph.op("MatMul", normed, k), perm=[0, 2, 1])
        scores = graph.op("Softmax", graph.op("MatMul", graph.op("MatMul", normed, q), keys))
        mixed = graph.op("MatMul", scores, graph.op("MatMul", normed, v))
        x = graph.op("Add", x, graph.op("MatMul", mixed, o))
        normed = graph.op("LayerNormalization", x, scale, axis=-1)
        inner = graph.op("Relu", graph.op("MatMul", normed, f))
        x = graph.op("Add", x, graph.op("MatMul", inner, g))
    graph.save(path, x)


def write_random(path: Path, ops: int) -> None:
    """Ops that each read one or two of the 40 values before; what none reads is summed up."""
    graph, rng = _Graph(), np.random.default_rng(7)
    weights = [graph.weight(WIDTH, WIDTH) for _ in range(8)]
    values, unread = ["x"], {"x": None}
    while len(graph.nodes) < ops:
        read = [values[int(i)] for i in len(values) - 1 - rng.integers(0, min(len(values), 40), 2)]
        kind = rng.choice(["MatMul", "Tanh", "Add"])
        read = [read[0], weights[int(rng.integers(8))]] if kind == "MatMul" else read
        read = read[:1] if kind == "Tanh" else read
        values.append(graph.op(str(kind), *read))
        for name in read:
            unread.pop(name, None)
        unread[values[-1]] = None
    graph.save(path, _summed(graph, list(unread)))


def write_fan_out(path: Path, ops: int) -> None:
    """Ops that all read one input, no two alike, and are summed up."""
    graph = _Graph()
    made = [graph.op("LeakyRelu", "x", alpha=(i + 1) / (4 * ops)) for i in range(ops)]
    graph.save(path, _summed(graph, made))


def _summed(graph: _Graph, terms: list[str]) -> str:
    while len(terms) > 1:
        groups = [terms[i : i + 64] for i in range(0, len(terms), 64)]
        terms = [graph.op("Sum", *group) for group in groups]
    return terms[0]


SHAPES: dict[str, Callable[[Path, int], None]] = {
    "transformer": write_transformer,
    "random": write_random,
    "fan_out": write_fan_out,
}


def measure(settings: Settings) -> list[Bar]:
    """All bars, or those of the least size where `settings.quick`."""
    bars: list[Bar] = []
    with tempfile.TemporaryDirectory(prefix="mcm-bench-") as name:
        folder = Path(name)
        for shape, write in SHAPES.items():
            cpu_s: dict[int, float] = {}
            for ops in SIZES[:1] if settings.quick else SIZES:
                model = folder / f"{shape}.onnx"
                write(model, ops)
                output = folder / "compiled"
                command = [MCMC, "compile", model, "-O1", "--target", "mcm36", "-o", output]
                child = run_child([*command, "--force"])
                cpu_s[ops] = child.cpu_s
                prefix = f"{shape}_{ops // 1000}k"
                bars.append(median_bar(f"{prefix}_cpu_s", [child.cpu_s], CPU_BARS_S[ops]))
                bars.append(median_bar(f"{prefix}_gib", [child.peak_rss_bytes / GIB], GIB_BAR))
            if len(cpu_s) > 1:
                growth = cpu_s[SIZES[-1]] / cpu_s[SIZES[0]]
                bars.append(median_bar(f"{shape}_growth", [growth], GROWTH_BAR))
        if not settings.quick:
            bars.append(_cut_spread(folder / "cut.onnx"))
    return bars


def _cut_spread(path: Path) -> Bar:
    from evaluator_cases.problems import prepare

    write_transformer(path, CUT_OPS)
    case = prepare(str(path))
    units = case.problem.num_units
    taken: list[float] = []
    for cut in np.linspace(1, units - 1, CUTS).astype(int):
        row = (np.arange(units) >= cut).astype(np.int32)[None]
        if not taken:
            case.evaluator.evaluate(row)
        start = time.process_time()
        case.evaluator.evaluate(row)
        taken.append(time.process_time() - start)
    spread = max(taken) / float(np.median(taken))
    return median_bar("transformer_cut_spread", [spread], SPREAD_BAR)


if __name__ == "__main__":
    sys.exit(run_script(__doc__, measure))
