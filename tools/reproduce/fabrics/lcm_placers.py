"""Flows beside each other: measured periods of held-out blocks at equal CPU time.

    python tools/reproduce/fabrics/lcm_placers.py [--blocks 24] [--seeds 5] [--limit "1 s"]
    python tools/reproduce/fabrics/lcm_placers.py --limit "20000 evaluations"
    python tools/reproduce/fabrics/lcm_placers.py --limit "10 s" --kind long
    python tools/reproduce/fabrics/lcm_placers.py --table      prints the recorded tables
    python tools/reproduce/fabrics/lcm_placers.py --page       writes the table into the page
    python tools/reproduce/fabrics/lcm_placers.py --write      sets `auto`

A flow is a mapping model in the same annealer; all of its CPU time counts, measurements among it.
`random` asks `round-trips` about random mappings. The table has the geometric mean, over blocks and
seeds, of the measured period over that of `heuristic` as published (with no term for wires, and
nothing measured), and over that of the best flow without a network, with 95 % intervals by
bootstrap over blocks, and the same over the bound that no mapping can beat.

Each cell is added to `tools/reproduce/data/lcm_placers.jsonl` as soon as it is there, and is not
run again: a stopped run goes on where it was. Cells of another lowering, judge or checkpoint are
not counted.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numba
import numpy as np
from lcm_study.blocks import HELD_OUT, blocks
from lcm_study.flow_table import Compared, compared, table, winners

# What writes pages is shared by all studies.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from hier_study.page import ROOT, write_section
from mapping_network.layout import RECORDED_NETWORK

from mcm_compiler.contracts.fabrics.fabric import Fabric, MappingProblem
from mcm_compiler.contracts.fabrics.mappers import MapperRequest
from mcm_compiler.contracts.fabrics.models import MappingModel
from mcm_compiler.processes.one_thread import use_one_thread
from mcm_compiler.processes.staging import write_whole
from mcm_compiler.registry import MAPPERS, MAPPING_MODELS
from mcm_compiler.text import spec_text
from mcm_hardware.families.fabric.fabric_package import fabric_12
from mcm_hardware.families.fabric.layout.rules import lowering_hash
from mcm_hardware.families.fabric.measuring.player import ENOUGH, FlitJudge
from mcm_models.mapping_model.data_set import make_of
from mcm_passes.families.fabric.formulas.ridge import SHIPPED_RIDGE
from mcm_passes.families.fabric.learning.auto import FLOWS as FLOWS_FILE
from mcm_passes.families.fabric.learning.collecting import MOST_HOPS

OUT = Path(__file__).parents[1] / "data" / "lcm_placers.jsonl"
BEFORE = OUT.with_name("lcm_before_its_round.safetensors")
"""The network before it learned from its own optima."""

PAGE = ROOT / "docs" / "results" / "fabrics.md"
JUDGE = FlitJudge(enough=ENOUGH)
MOST_CYCLES = 1000
"""Bound of the blocks, in cycles."""


@dataclass(frozen=True)
class Kind:
    """Held-out blocks, and who measures them.

    Attributes:
        beyond: cycles that the bound of each exceeds.
        most: that it has at most.
        judge: of the search, and of what it found.
    """

    beyond: float
    most: float
    judge: FlitJudge


KINDS = {
    "short": Kind(0, MOST_CYCLES, JUDGE),
    "long": Kind(MOST_CYCLES, 50_000, FlitJudge(most_hops=MOST_HOPS, enough=ENOUGH)),
}
"""A play of a long block whose state does not come back ends as those of the data set."""

WARM_S = 0.2
"""CPU time of a search that compiles what a flow needs before its first cell."""

WINNERS_LIMIT = "1 s"
"""By whose cells `auto` is set."""


@dataclass(frozen=True)
class Flow:
    """A mapper with a model.

    Attributes:
        name: in the table.
        model: text form of the mapping model.
        measurements: at most.
        mapper: text form of the mapper.
        learned: the checkpoint of its network, or None where it has none.
        fitted: whether coefficients in it were fitted to measurements.
    """

    name: str
    model: str
    measurements: int = 6
    mapper: str = "annealing"
    learned: Path | None = None
    fitted: bool = False


MANY = 10_000
"""Measurements of flows that refine what measured best until their time is over."""

CORRECTED = "corrected-annealing"
"""The plug-in's mapper: walks by the formula first, then by the network."""

BASE = "heuristic as published, nothing measured"
FLOWS = (
    Flow(BASE, "heuristic{wire=0}", 0),
    Flow("heuristic as published", "heuristic{wire=0}"),
    Flow("heuristic", "heuristic"),
    Flow("wire-length", "wire-length"),
    Flow("busiest", "busiest"),
    Flow("round-trips, nothing measured", "round-trips", 0),
    Flow("round-trips", "round-trips"),
    Flow("ridge", "ridge", fitted=True),
    Flow("random", "round-trips", mapper="random"),
    Flow("gnn, nothing measured", "gnn", 0, CORRECTED, RECORDED_NETWORK),
    Flow("gnn alone", "gnn", learned=RECORDED_NETWORK),
    Flow("gnn before its rounds", f"gnn{{checkpoint={BEFORE}}}", 6, CORRECTED, BEFORE),
    Flow("gnn", "gnn", 6, CORRECTED, RECORDED_NETWORK),
    Flow("round-trips, refined", "round-trips", MANY),
    Flow("ridge, refined", "ridge", MANY, fitted=True),
    Flow("gnn, refined", "gnn", MANY, CORRECTED, RECORDED_NETWORK),
)

SHOWN = (
    BASE,
    "heuristic",
    "round-trips",
    "ridge",
    "gnn",
    "round-trips, refined",
    "ridge, refined",
    "gnn, refined",
)
"""Flows in the table of the page."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs what is missing; prints or writes what is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=24)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--limit", default=WINNERS_LIMIT, help='"1 s" or "20000 evaluations"')
    parser.add_argument("--kind", choices=KINDS, default="short", help="of blocks")
    parser.add_argument("--flows", nargs="*", default=None, help="all if none is named")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args(argv)
    use_one_thread()
    if not (args.table or args.page or args.write):
        run(args.kind, args.blocks, args.seeds, args.limit, args.flows)
    rows = recorded()
    print(flow_table(rows, [flow.name for flow in FLOWS]))
    if args.write:
        write_winner(rows)
    if args.page:
        write_section("flows", flow_table(rows, SHOWN), PAGE)
    return 0


def run(kind: str, count: int, seeds: int, limit: str, names: Sequence[str] | None) -> None:
    """All cells that are not there, seed by seed, so that a part of them is a smaller table."""
    fabric = fabric_12().fabric
    there = {
        (row["limit"], row["flow"], row["block"], row["seed"])
        for row in recorded()
        if row["kind"] == kind
    }
    most, beyond = KINDS[kind].most, KINDS[kind].beyond
    found = blocks(fabric, HELD_OUT, count, most_cycles=most, beyond_cycles=beyond)
    problems = list(found)
    warm: set[str] = set()
    for seed in range(seeds):
        for problem in problems:
            for flow in FLOWS:
                wanted = names is None or flow.name in names
                if not wanted or (limit, flow.name, problem.name, seed) in there:
                    continue
                if flow.name not in warm:
                    cell(flow, fabric, problem, seed, f"{WARM_S} s", kind)
                    warm.add(flow.name)
                row = cell(flow, fabric, problem, seed, limit, kind)
                with OUT.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
        print(f"seed {seed} done", file=sys.stderr, flush=True)


def cell(
    flow: Flow, fabric: Fabric, problem: MappingProblem, seed: int, limit: str, kind: str
) -> dict[str, Any]:
    """A flow on a block, from a seed: what it found, measured once more."""
    judge = KINDS[kind].judge
    amount, unit = limit.split()
    budget = float(amount) if unit == "s" else None
    evaluations = 10**9 if budget else int(amount)
    prepared = model_of(flow).prepared(problem, fabric)
    request = MapperRequest(
        problem,
        fabric,
        prepared,
        judge,
        flow.measurements,
        evaluations=evaluations,
        seed=seed,
        budget_s=budget,
    )
    spec = spec_text.parse_one(flow.mapper)
    mapper = spec_text.instantiate(MAPPERS.get(spec.name), spec)
    answer = mapper.map(request)
    measured = judge.measure(problem, fabric, answer.mapping)
    bound = judge.bound_cycles(problem, fabric)
    return {
        "limit": limit,
        "kind": kind,
        "block": problem.name,
        "flow": flow.name,
        "seed": seed,
        "over_bound": round(float(measured.period_cycles[0]) / bound, 4),
        "error": round(float(measured.error[0]), 4),
        "evaluations": answer.evaluations,
        "measurements": answer.measurements,
        "knows": knows(flow),
    }


def model_of(flow: Flow) -> MappingModel:
    """The mapping model of a flow."""
    if flow.learned:
        # Registers `gnn`.
        importlib.import_module("mapping_network.plugin")
    spec = spec_text.parse_one(flow.model)
    return cast("MappingModel", spec_text.instantiate(MAPPING_MODELS.get(spec.name), spec))


def knows(flow: Flow) -> str:
    """A hash of what a cell depends on besides its names: lowering, judge and what was fitted."""
    parts = [lowering_hash(), JUDGE.physics, str(ENOUGH), str(MOST_CYCLES)]
    if flow.model == "ridge":
        parts.append(json.dumps(json.loads(SHIPPED_RIDGE.read_bytes()), sort_keys=True))
    if flow.learned:
        parts.append(hashlib.sha256(flow.learned.read_bytes()).hexdigest())
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16]


def recorded() -> list[dict[str, Any]]:
    """The cells that are there and count."""
    if not OUT.exists():
        return []
    valid = {
        flow.name: knows(flow) for flow in FLOWS if flow.learned is None or flow.learned.exists()
    }
    rows = [json.loads(line) for line in OUT.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if valid.get(row["flow"]) == row["knows"]]
    return [{"kind": "short"} | row for row in rows]  # cells before there were long ones


def of_limit(
    rows: Sequence[dict[str, Any]], kind: str, limit: str
) -> tuple[list[dict[str, Any]], list[Flow]]:
    """Cells of a kind of blocks and a limit, and the flows that have any."""
    there = [row for row in rows if (row["kind"], row["limit"]) == (kind, limit)]
    names = {row["flow"] for row in there}
    return there, [flow for flow in FLOWS if flow.name in names]


def flow_table(rows: Sequence[dict[str, Any]], shown: Sequence[str]) -> str:
    """Periods of flows over those of the best without a network, a column for each limit."""
    columns: dict[str, list[Compared]] = {}
    for kind, limit in sorted({(row["kind"], row["limit"]) for row in rows}, reverse=True):
        there, flows = of_limit(rows, kind, limit)
        names = [flow.name for flow in flows]
        columns[f"{limit}, {kind}"] = compared(there, names, best_plain(there, flows))
    return table(columns, shown)


def best_plain(rows: Sequence[dict[str, Any]], flows: Sequence[Flow]) -> str:
    """The best of the flows without a network that could be `auto`, on the cells that all share."""
    names = [flow.name for flow in flows]
    # Coefficients that were fitted are no network.
    able = [flow.name for flow in flows if _may_win(flow) and flow.learned is None]
    found = compared(rows, names, names[0])
    return min(found, key=lambda r: (r.flow not in able, r.over_bound)).flow


def _may_win(flow: Flow) -> bool:
    """Whether `auto` can be set to it: a flow of the annealer that measures at the end."""
    usual = CORRECTED if flow.learned else "annealing"
    return flow.measurements > 0 and flow.mapper == usual and flow.learned != BEFORE


def write_winner(rows: Sequence[dict[str, Any]]) -> None:
    """What `auto` reads."""
    there, found = of_limit(rows, "short", WINNERS_LIMIT)
    flows = [flow for flow in found if flow.learned != BEFORE and flow.measurements < MANY]
    model = {flow.name: flow.model for flow in flows}
    fitted = {f.name: f.fitted or f.learned is not None for f in flows if _may_win(f)}
    winner, plain = winners(there, fitted)
    data = {
        "make": make_of(fabric_12().fabric),
        "lowering": lowering_hash(),
        "physics": JUDGE.physics,
        "winner": model[winner],
        "elsewhere": model[plain],
        "figures": [
            {
                "model": model[row.flow],
                "fitted": fitted.get(row.flow, False),
                "may_win": row.flow in fitted,
            }
            | {k: round(v, 4) if isinstance(v, float) else v for k, v in asdict(row).items()}
            for row in compared(there, list(model), plain)
        ],
        "provenance": {
            "command": "python tools/reproduce/fabrics/lcm_placers.py --write",
            "limit": WINNERS_LIMIT,
            "cells": len(there),
            "numba": numba.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }
    write_whole(FLOWS_FILE, (json.dumps(data, indent=1) + "\n").encode())


if __name__ == "__main__":
    sys.exit(main())
