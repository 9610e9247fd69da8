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
from mcm_compiler.machines.machine import OFF_PACKAGE_ROOT

ROOT = Path(__file__).resolve().parents[3]
TARGET = ROOT / "tests" / "data" / "targets" / "set36.toml"
VARIABLE = "MCM_SET"
BATCH, CORES, MULTIPLIERS, LINK, ROUNDS = 64, 36, 1024, 64, 100
"""Inferences of a batch, the template, and the search of SET's own example."""

SKIPPED = (
    "SET's program is not run: it is not installed from a registry. Build it from "
    "github.com/SET-Scheduling-Project/SET-ISCA2023 and give the path of stschedule by --set or "
    f"{VARIABLE}; --set without a path measures ours next to the figures on record"
)
NETWORKS = {"GoogLeNet": "goog", "ResNet-50": "resnet", "VGG-19": "vgg"}
ON_RECORD = {"ResNet-50": 2.38, "GoogLeNet": 2.04, "VGG-19": 1.08}
"""What SET's program computed where it was built: this template, batch 64, its full search."""
DIVIDED = {"ResNet-50": (0.13, 4), "GoogLeNet": (0.13, 14), "VGG-19": (0.145, 8)}
"""Share of a chip that a weight may take, and rows of a tile of the lowest images that are cut."""
HEADS = "| network | SET | ours | 64 alone | chips busy | reads | options | SET, s | ours, CPU s |"
PASSES = "simplify,fuse,annotate_cost"


def measured(program: Path | None) -> list[dict[str, Any]]:
    """Cycles over those of multipliers that are always busy, of both, for each network."""
    rows: list[dict[str, Any]] = []
    for network, known_as in NETWORKS.items():
        whole, _, _ = run_passes(_model(network), TARGET, CompileOptions(passes=PASSES))
        products = [n for n in whole.graph if n.op_type in ("Conv", "Gemm", "MatMul")]
        least = sum(NODE_COST.get(node).flops for node in products) / 2 / (CORES * MULTIPLIERS)
        row: dict[str, Any] = {"network": network, "least_cycles": least}
        if program is None:
            row["set_on_record"] = ON_RECORD[network]
        else:
            start = time.perf_counter()
            row["set"] = cycles_of(program, known_as) / BATCH / least
            row["set_s"] = round(time.perf_counter() - start, 1)
        rows.append(row | _ours(network, least))
        print(rows[-1], file=sys.stderr, flush=True)
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
    fraction, rows = DIVIDED[network]
    divided = f"parallelize{{fraction={fraction},tile_rows={rows}}}"
    passes = f"{PASSES},{divided},partition,legalize,split,lower,simulate"
    options = CompileOptions(replicas=CORES, level=0, seed=0, passes=passes)
    row: dict[str, Any] = {"passes": divided, "replicas": CORES, "seed": options.seed}
    try:
        found, _, _ = run_passes(_model(network), TARGET, options)
    except CompileError as error:
        return row | {"refused": error.diagnostics[0].code}
    played = SIMULATION.get(found)
    reads = (k.busy_s for k in played.links if k.source == OFF_PACKAGE_ROOT)
    parts = {"ours": played.period_s, "ours_busy": played.chips[0].busy_s, "ours_reads": sum(reads)}
    each = REPLICATION.get(found).at_once
    # A batch alone takes whole rounds of all replicas.
    parts["ours_batch"] = played.period_s * -(-BATCH // CORES) * CORES / BATCH
    row |= {name: round(seconds * 1e9 / each / least, 3) for name, seconds in parts.items()}
    return row | {"ours_s": round(time.process_time() - start, 1)}


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
    table = [HEADS, "|---|---:|---:|---:|---:|---:|---|---:|---:|"]
    for row in rows:
        program = f"{row['set']:.2f}" if "set" in row else f"{row['set_on_record']:.2f} (on record)"
        ours = f"{row['ours']:.2f}" if "ours" in row else f"refused ({row['refused']})"
        shown = ("ours_batch", "ours_busy", "ours_reads")
        parts = [f"{row[key]:.2f}" if key in row else "-" for key in shown]
        options = f"`{row['passes'].removeprefix('parallelize')}`"
        spent = [str(row.get(key, "-")) for key in ("set_s", "ours_s")]
        table.append(f"| {' | '.join((row['network'], program, ours, *parts, options, *spent))} |")
    return table
