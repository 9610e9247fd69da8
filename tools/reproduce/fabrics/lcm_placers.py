"""Flows without learning beside each other: measured periods of held-out blocks at equal CPU time.

    python tools/reproduce/fabrics/lcm_placers.py [--blocks 12] [--seeds 2] [--budget 1.0]

A flow is a mapping model in the same annealer; all of its CPU time counts, measurements among it.
`random` asks `round-trips` about random mappings. The table has the geometric mean, over blocks and
seeds, of the measured period over that of `heuristic` as published (with no term for wires), its
95 % interval by bootstrap over blocks, and the same over the bound that no mapping can beat.
Records go to `tools/reproduce/data/lcm_placers.json`.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba
import numpy as np
from lcm_study.blocks import HELD_OUT, blocks

from mcm_compiler.contracts.fabrics.mappers import MapperRequest
from mcm_hardware.families.fabric.description.builtin_fabrics import fabric_12
from mcm_hardware.families.fabric.layout.rules import lowering_hash
from mcm_hardware.families.fabric.measuring.judge import FlitJudge
from mcm_passes.families.fabric.annealing.annealing import Annealing
from mcm_passes.families.fabric.annealing.random_mapper import RandomMapper
from mcm_passes.families.fabric.formulas.analytic import Busiest, Heuristic, RoundTrips, WireLength
from mcm_passes.families.fabric.formulas.ridge import Ridge

OUT = Path(__file__).parents[1] / "data" / "lcm_placers.json"
JUDGE = FlitJudge(most_work=150_000, most_samples=200)


@dataclass(frozen=True)
class Flow:
    """A mapper with a model.

    Attributes:
        name: in the table.
        mapper: searches.
        model: guesses.
        measurements: at most.
    """

    name: str
    mapper: Annealing | RandomMapper
    model: WireLength | Heuristic | Busiest | RoundTrips | Ridge
    measurements: int = 6


FLOWS = (
    Flow("heuristic as published, nothing measured", Annealing(), Heuristic(wire=0.0), 0),
    Flow("heuristic as published", Annealing(), Heuristic(wire=0.0)),
    Flow("heuristic", Annealing(), Heuristic()),
    Flow("wire-length", Annealing(), WireLength()),
    Flow("busiest", Annealing(), Busiest()),
    Flow("round-trips, nothing measured", Annealing(), RoundTrips(), 0),
    Flow("round-trips", Annealing(), RoundTrips()),
    Flow("ridge", Annealing(), Ridge()),
    Flow("random", RandomMapper(), RoundTrips()),
)


def main() -> int:
    """Runs all cells, and prints and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=12)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--budget", type=float, default=1.0)
    args = parser.parse_args()
    fabric = fabric_12()
    rows: list[dict[str, Any]] = []
    for problem in blocks(fabric, HELD_OUT, args.blocks, most_cycles=1500):
        bound = JUDGE.bound_cycles(problem, fabric)
        for flow in FLOWS:
            prepared = flow.model.prepared(problem, fabric)
            for seed in range(args.seeds):
                request = MapperRequest(10**9, flow.measurements, seed, args.budget)
                answer = flow.mapper.map(problem, fabric, prepared, JUDGE, request, lambda _: None)
                measured = JUDGE.measure(problem, fabric, answer.mapping)
                rows.append(
                    {
                        "block": problem.name,
                        "flow": flow.name,
                        "seed": seed,
                        "over_bound": round(float(measured.period_cycles[0]) / bound, 4),
                        "error": round(float(measured.error[0]), 4),
                        "evaluations": answer.evaluations,
                        "measurements": answer.measurements,
                    }
                )
        print(problem.name, problem.num_units, file=sys.stderr, flush=True)
        _write(rows, args, fabric.name)
    print(table(rows))
    return 0


def table(rows: list[dict[str, Any]]) -> str:
    """In Markdown, a flow a line."""
    lines = [
        "| flow | over the published heuristic | 95 % | over the bound | evaluations |",
        "|---|---|---|---|---|",
    ]
    names = sorted({row["block"] for row in rows})
    base = _logs(rows, FLOWS[1].name, names)
    rng = np.random.default_rng(0)
    picks = rng.integers(0, len(names), (2000, len(names)))
    for flow in FLOWS:
        logs = _logs(rows, flow.name, names)
        over = logs - base
        low, high = np.exp(np.quantile(over[picks].mean(axis=1), [0.025, 0.975]))
        asked = np.median([row["evaluations"] for row in rows if row["flow"] == flow.name])
        lines.append(
            f"| {flow.name} | {np.exp(over.mean()):.3f} | {low:.3f} to {high:.3f} | "
            f"{np.exp(logs.mean()):.3f} | {asked:.0f} |"
        )
    return "\n".join(lines)


def _logs(rows: list[dict[str, Any]], flow: str, names: list[str]) -> np.ndarray:
    """`[blocks]`, mean over seeds of the logarithm of the period over the bound."""
    return np.array(
        [
            np.mean(
                [
                    np.log(row["over_bound"])
                    for row in rows
                    if row["flow"] == flow and row["block"] == name
                ]
            )
            for name in names
        ]
    )


def _write(rows: list[dict[str, Any]], args: argparse.Namespace, fabric: str) -> None:
    data = {
        "command": f"python tools/reproduce/fabrics/lcm_placers.py --blocks {args.blocks} "
        f"--seeds {args.seeds} --budget {args.budget}",
        "fabric": fabric,
        "lowering": lowering_hash(),
        "physics": JUDGE.physics,
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "numba": numba.__version__,
        },
        "rows": rows,
    }
    OUT.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
