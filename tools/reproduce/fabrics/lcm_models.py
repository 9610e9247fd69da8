"""What a flow of mappings is worth to a whole model: BERT-large on a ring of fabrics.

    python tools/reproduce/fabrics/lcm_models.py [--seeds 3] [--flows round-trips gnn]
    python tools/reproduce/fabrics/lcm_models.py --page      writes the table into the page

The model is partitioned once, a layer a chip; then each flow lays out all chips that differ, and
the simulator plays the ring. Flows have as many evaluations as `-O0` gives them, and those that are
worth it also fifty times as many; each chip's best mapping by the model is measured, no other: what
is compared are the models' own choices.

Each cell is added to `tools/reproduce/data/lcm_models.jsonl` as soon as it is there, and is not
run again. Cells of another lowering, judge or checkpoint are not counted.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from lcm_placers import FLOWS as PLACER_FLOWS
from lcm_placers import knows

# What writes pages is shared by all studies.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hier_study.page import ROOT, write_section

from mcm_compiler.api import load_target, run_passes
from mcm_compiler.contracts.chips import MAPPED_CHIPS
from mcm_compiler.contracts.program import SIMULATION
from mcm_compiler.contracts.target import Target
from mcm_compiler.diagnostics import Diagnostic
from mcm_compiler.options import DEFAULT_PIPELINE, CompileOptions
from mcm_compiler.pipeline.pass_manager import PassManager
from mcm_compiler.pipeline.passes import PassContext, parse_pipeline
from mcm_compiler.processes.one_thread import use_one_thread
from mcm_compiler.processes.staging import staging

OUT = Path(__file__).parents[1] / "data" / "lcm_models.jsonl"
PAGE = ROOT / "docs" / "results" / "fabrics.md"

MODEL, TARGET = "zoo:bert-large{shape_only=true}", "mcm36-fabric"
PUBLISHED = "heuristic as published"
TUNED = "round-trips"
NAMED = {flow.name: flow for flow in PLACER_FLOWS}
ONCE = (PUBLISHED, "heuristic", TUNED, "ridge", "gnn")
MANY = {name: f"{name}, 100,000 evaluations" for name in (TUNED, "ridge", "gnn")}
"""Names of flows with `MOST` evaluations."""

FLOWS = {name: NAMED[name] for name in ONCE} | {MANY[name]: NAMED[name] for name in MANY}
"""What is compared; `ridge` and `gnn` learned from blocks on `fabric-12`."""

MOST = 100_000
EVALUATIONS = dict.fromkeys(MANY.values(), MOST)
"""Where they are not those of `-O0`."""

MAPPING = "map_chips,lower,simulate"
"""The passes that depend on a flow."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs what is missing, or writes what is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--flows", nargs="*", default=[f for f in FLOWS if f != "heuristic"])
    parser.add_argument("--page", action="store_true")
    args = parser.parse_args(argv)
    # Registers `gnn`.
    importlib.import_module("mapping_network.plugin")

    use_one_thread()
    if not args.page:
        run(load_target(TARGET), args.flows, args.seeds)
    rows = recorded()
    print(model_table(rows))
    if args.page:
        write_section("models", model_table(rows), PAGE)
    return 0


def run(target: Target, flows: Sequence[str], seeds: int) -> None:
    """All cells that are not there, seed by seed."""
    options = CompileOptions(level=0, replicas=1)
    there = {(row["flow"], row["seed"]) for row in recorded()}
    missing = [(f, s) for s in range(seeds) for f in flows if (f, s) not in there]
    if not missing:
        return
    before = DEFAULT_PIPELINE[: DEFAULT_PIPELINE.index("," + MAPPING)]
    model, _, _ = run_passes(MODEL, target, replace(options, passes=before))
    for flow, seed in missing:
        asked = replace(options, mapping_model=FLOWS[flow].model, seed=seed)
        asked = replace(asked, samples=EVALUATIONS.get(flow))
        row = {"flow": flow, "seed": seed, "knows": knows(FLOWS[flow])}
        row |= mapped(model, target, asked)
        with OUT.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(flow, seed, row["throughput_per_s"], f"{row['cpu_s']} CPU-s", flush=True)


def mapped(model: ir.Model, target: Target, options: CompileOptions) -> dict[str, Any]:
    """Figures of the ring with all chips laid out by a flow."""
    begin = time.process_time()
    with staging(None) as stage:
        context = PassContext(target, options, stage, _unheard)
        PassManager(parse_pipeline(MAPPING)).run(model, context)
    chips = [chip for chip in MAPPED_CHIPS.get(model) if chip.like < 0]
    return {
        "throughput_per_s": round(1.0 / SIMULATION.get(model).period_s, 3),
        "over_bound": [round(chip.period_cycles / chip.bound_cycles, 4) for chip in chips],
        "period_cycles": [round(chip.period_cycles, 1) for chip in chips],
        "error": [round(chip.error, 4) for chip in chips],
        "cpu_s": round(time.process_time() - begin, 1),
    }


def _unheard(_: Diagnostic) -> None:
    """Notes are those of any compile."""


def recorded() -> list[dict[str, Any]]:
    """The cells that are there and count."""
    if not OUT.exists():
        return []
    rows = [json.loads(line) for line in OUT.read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if row["knows"] == knows(FLOWS[row["flow"]])]


def model_table(rows: Sequence[dict[str, Any]]) -> str:
    """A flow a line, compared with the published one and the tuned formula from the same seeds."""
    lines = [
        "| flow | inferences/s | over the published heuristic's | over those of `round-trips` |",
        "|---|---:|---:|---:|",
    ]
    published, tuned = (
        {row["seed"]: row for row in rows if row["flow"] == name} for name in (PUBLISHED, TUNED)
    )
    for flow in FLOWS:
        there = [row for row in rows if row["flow"] == flow]
        if there:
            lines.append(
                f"| {flow} | {np.mean([r['throughput_per_s'] for r in there]):,.0f} "
                f"| {_gains(there, published)} | {_gains(there, tuned)} |"
            )
    return "\n".join(lines)


def _gains(rows: Sequence[dict[str, Any]], base: dict[int, dict[str, Any]]) -> str:
    """Throughputs over others from the same seeds: geometric mean, least and most."""
    gains = [r["throughput_per_s"] / base[r["seed"]]["throughput_per_s"] for r in rows]
    return f"{np.exp(np.mean(np.log(gains))):.3f} ({min(gains):.3f} to {max(gains):.3f})"


if __name__ == "__main__":
    sys.exit(main())
