"""Replicas against throughput, where all chips share one channel to the host.

Compiles each model at -O2 for `mcm36` and for `mcm36-shared`, once for each number of equal
replicas that the package can have and once with the compiler's own choice, with all passes up to
the simulator, under the roofline. Writes `tools/reproduce/data/shared_host.json` and the table in
`docs/explanation/divisions-and-replicas.md`.
Nothing is random but the weights, which count for nothing here, and the seed of the compile, 0.

    python tools/reproduce/shared_host.py
    python tools/reproduce/shared_host.py --table-only
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from mcm_compiler import CompileOptions
from mcm_compiler.api import run_passes
from mcm_compiler.contracts.program import SIMULATION, SimulationResult
from mcm_compiler.contracts.replication import REPLICATION
from mcm_compiler.machines.machine import HOST, HOST_ROOT

DATA = Path(__file__).with_name("data") / "shared_host.json"
DOCUMENT = Path(__file__).parents[2] / "docs" / "explanation" / "divisions-and-replicas.md"
BEGIN, END = "<!-- shared-host:begin -->\n", "<!-- shared-host:end -->\n"
VERSIONS = ("mcm-compiler", "numpy", "onnx", "ortools")
PASSES = "simplify,fuse,annotate_cost,parallelize,partition,legalize,split,lower,simulate"
TARGETS = ("mcm36", "mcm36-shared")
COUNTS = (1, 2, 4, 9, 18, 36)
PRODUCT = "one product, 64 x 512 by 512 x 512"
MODELS = {PRODUCT: "", "MobileNetV2": "zoo:mobilenet-v2", "ResNet-50": "zoo:resnet50"}


def main(arguments: list[str]) -> int:
    """Measures unless told not to, and writes data and table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--table-only", action="store_true", help="take the data on record")
    if not parser.parse_args(arguments).table_only:
        DATA.write_text(json.dumps(measured(), indent=1) + "\n", encoding="utf-8")
    text = DOCUMENT.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    DOCUMENT.write_text(
        before + BEGIN + table(json.loads(DATA.read_text(encoding="utf-8"))) + END
        + rest.partition(END)[2],
        encoding="utf-8",
    )  # fmt: skip
    return 0


def measured() -> dict[str, Any]:
    """Throughput and busy share of the channel, by model, target and number."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        product = Path(folder) / "product.onnx"
        write_product(product)
        for name, source in MODELS.items():
            for target in TARGETS:
                for count in (*COUNTS, None):
                    found, _, _ = run_passes(
                        source or str(product),
                        target,
                        CompileOptions(
                            level=2, replicas=count, passes=PASSES, cost_model="roofline"
                        ),
                    )
                    replication, simulation = REPLICATION.get(found), SIMULATION.get(found)
                    rows.append(
                        {
                            "model": name,
                            "target": target,
                            "asked": count,
                            "pipelines": replication.replicas,
                            "throughput_per_s": round(replication.at_once / simulation.period_s, 1),
                            "shared_busy": round(_shared_busy(simulation), 4),
                        }
                    )
                    print(rows[-1], flush=True)
    return {"rows": rows, "versions": {name: metadata.version(name) for name in VERSIONS}}


def write_product(path: Path) -> None:
    """A model of one matrix product."""
    weight = np.random.default_rng(0).normal(size=(512, 512)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], "product")],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [64, 512])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [64, 512])],
        [numpy_helper.from_array(weight, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


def _shared_busy(simulation: SimulationResult) -> float:
    """Share of time for which the channel from the host is busy; 0 where there is none."""
    ends = (HOST_ROOT, HOST)
    busy = [k.busy_s for k in simulation.links if (k.source, k.destination) == ends]
    return sum(busy) / simulation.period_s


def table(data: dict[str, Any]) -> str:
    """The rows of one pipeline and of the chosen numbers as Markdown."""
    lines = [
        "| model | replicas | `mcm36` | `mcm36-shared` | channel from the host busy |",
        "|---|---:|---:|---:|---:|",
    ]
    by_place = {(r["model"], r["target"], r["asked"]): r for r in data["rows"]}
    for name in MODELS:
        chosen = [by_place[name, target, None]["pipelines"] for target in TARGETS]
        for count in sorted({1, *chosen}):
            apart, shared = (by_place[name, target, count] for target in TARGETS)
            figures = [
                f"**{r['throughput_per_s']:,.0f}/s**"
                if count == best
                else f"{r['throughput_per_s']:,.0f}/s"
                for r, best in zip((apart, shared), chosen, strict=True)
            ]
            busy = f"{shared['shared_busy']:.1%}".replace("%", " %")
            lines.append(f"| {name} | {count} | {figures[0]} | {figures[1]} | {busy} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
