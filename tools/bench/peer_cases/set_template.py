"""SET, a scheduler of layers on tiled accelerators, and our compiler on the template of SET.

Its program knows 16 networks and reads no ONNX, so that it cannot answer the models of the table.
Both are compared on its own template instead: the target `tests/data/targets/set36.toml` states
what differs. The program is built from its public repository, outside of this one.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from mcm_compiler import CompileOptions
from mcm_compiler.api import run_passes
from mcm_compiler.contracts.cost import NODE_COST
from mcm_compiler.contracts.program import SIMULATION
from mcm_compiler.contracts.replication import REPLICATION
from mcm_compiler.diagnostics import CompileError

ROOT = Path(__file__).resolve().parents[3]
TARGET = ROOT / "tests" / "data" / "targets" / "set36.toml"
VARIABLE = "MCM_SET"
BATCH, CORES, MULTIPLIERS, LINK, ROUNDS = 64, 36, 1024, 64, 100
"""Inferences of a batch, the template, and the search of SET's own example."""

SKIPPED = (
    "SET is skipped: its program is not installed from a registry. Build it from "
    "github.com/SET-Scheduling-Project/SET-ISCA2023 and give the path of stschedule by --set or "
    f"{VARIABLE}"
)
NETWORKS = {"ResNet-50": "resnet", "GoogLeNet": "goog", "VGG-19": "vgg"}
PASSES = "simplify,fuse,annotate_cost"


def measured(program: Path | None) -> list[dict[str, Any]]:
    """Cycles over those of multipliers that are always busy, of both, for each network."""
    rows: list[dict[str, Any]] = []
    for network, known_as in NETWORKS.items():
        whole, _, _ = run_passes(_model(network), TARGET, CompileOptions(passes=PASSES))
        products = [n for n in whole.graph if n.op_type in ("Conv", "Gemm", "MatMul")]
        least = sum(NODE_COST.get(node).flops for node in products) / 2 / (CORES * MULTIPLIERS)
        row: dict[str, Any] = {"network": network, "least_cycles": least}
        if program is not None:
            start = time.perf_counter()
            row["set"] = cycles_of(program, known_as) / BATCH / least
            row["set_s"] = round(time.perf_counter() - start, 1)
        rows.append(row | _ours(network, least))
        print(row, file=sys.stderr, flush=True)
    return rows


def cycles_of(program: Path, network: str) -> float:
    """Cycles of a batch in the best of the schedules that the program finds."""
    size = ("polar", "6", "6", "3", str(LINK), "0", str(ROUNDS), "0")
    command = [program.resolve(), "--args", "run", network, str(BATCH), *size]
    with tempfile.TemporaryDirectory(prefix="mcm-set-") as folder:
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        texts = [path.read_text("utf-8") for path in Path(folder).glob("*_summary.txt")]
    return min(float(re.findall(r"^Latency: (\S+)", text, re.MULTILINE)[0]) for text in texts)


def _ours(network: str, least: float) -> dict[str, Any]:
    """Simulated, in the steady state; a cycle of the template is 1 ns."""
    start = time.process_time()
    passes = f"{PASSES},parallelize,partition,legalize,split,lower,simulate"
    try:
        found, _, _ = run_passes(_model(network), TARGET, CompileOptions(passes=passes))
    except CompileError as error:
        return {"refused": error.diagnostics[0].code}
    replication = REPLICATION.get(found)
    copies = replication.replicas * getattr(replication, "round", 1)
    period_s = SIMULATION.get(found).period_s / copies
    return {"ours": period_s * 1e9 / least, "ours_s": round(time.process_time() - start, 1)}


def _model(network: str) -> Any:
    if network == "GoogLeNet":
        sys.path.insert(0, str(ROOT))
        from tests.generators.googlenet import GoogLeNet

        return GoogLeNet(shape_only=True).build()
    return {"ResNet-50": "zoo:resnet50{shape_only=true}", "VGG-19": "zoo:vgg19{shape_only=true}"}[
        network
    ]


def lines(rows: list[dict[str, Any]]) -> list[str]:
    """The table of the page."""
    table = ["| network | SET | ours | SET, s | ours, CPU s |", "|---|---:|---:|---:|---:|"]
    for row in rows:
        program = f"{row['set']:.2f}" if "set" in row else "not run"
        ours = f"{row['ours']:.2f}" if "ours" in row else f"refused ({row['refused']})"
        spent = [str(row.get(key, "-")) for key in ("set_s", "ours_s")]
        table.append(f"| {' | '.join((row['network'], program, ours, *spent))} |")
    return table
