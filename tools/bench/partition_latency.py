"""The latency of one sample on published inputs: the published greedy, human splits, and ours.

Inputs and splits are those of Tarnawski et al. 2020. `greedy` is what the published program prints,
`fill` the same method of ours under our referee: that both agree shows that both read the problem
alike. Splits of human experts are run as they are; limits that they break are named.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcm_compiler.contracts.placement import PlacementProblem

ROOT = Path(__file__).resolve().parents[2]
INPUTS = ROOT / "tests" / "data" / "device_placement" / "latency"
GREEDY = {
    "layer_bert24": 100.2185,
    "layer_gnmt": 268.5005,
    "op_bert3": 416.2044,
    "op_bert6": 494.1352,
}
"""What the published greedy prints, to four digits."""

ROUNDING = 5e-5


def main(arguments: Sequence[str] | None = None) -> int:
    """Shows a row for each input, or the bars as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="only a part, in less than 50 s")
    parser.add_argument("--budget", type=float, default=None, help="seconds of CP-SAT's proof")
    asked = parser.parse_args(arguments)
    names = ["layer_bert24", "layer_resnet50"] if asked.quick else [*GREEDY, "layer_resnet50"]
    rows = [_row(name, asked.budget) for name in names]
    if asked.json:
        _print_bars(rows, asked.quick)
    else:
        for row in rows:
            print(json.dumps(row))
    return 0


def _row(name: str, budget_s: float | None) -> dict[str, Any]:
    from mcm_compiler.contracts.placement import PlacementRequest
    from mcm_compiler.placements.placement_file import read_placement
    from mcm_passes.mapping.latency_placement.latency_kernels import latency_arrays
    from mcm_passes.mapping.latency_placement.latency_placement import (
        DeviceLatency,
        topological_fill,
    )
    from mcm_passes.mapping.latency_placement.latency_referee import latency_outcome

    problem = read_placement(INPUTS / f"{name}.json")
    p = latency_arrays(problem)
    filled = latency_outcome(problem, topological_fill(p)[p.unit_of])
    start = time.process_time()
    found = DeviceLatency().place(PlacementRequest(problem=problem, budget_s=budget_s))
    row: dict[str, Any] = {
        "input": name,
        "greedy": GREEDY.get(name),
        "fill": filled.latency,
        "latency": found.period,
        "method": found.method,
        "lower_bound": found.lower_bound,
        "proof": found.proof,
        "gap": found.gap,
        "cpu_s": round(time.process_time() - start, 2),
        "breaks": latency_outcome(problem, found.device_of).violations,
    }
    split = INPUTS / f"{name}_expert.json"
    if split.exists():
        row["expert"], row["expert_breaks"] = _expert(problem, split)
    return row


def _expert(problem: PlacementProblem, split: Path) -> tuple[float, list[str]]:
    """Latency of a split as it is, and the limits that it breaks."""
    import numpy as np

    from mcm_passes.mapping.latency_placement.latency_referee import latency_outcome

    parts = json.loads(split.read_text(encoding="utf-8"))["fpgas"]
    index = {ident: v for v, ident in enumerate(problem.ids)}
    devices = max(problem.max_accelerators, len(parts))
    device_of = np.full(problem.num_operators, devices)
    for a, part in enumerate(parts):
        device_of[[index[ident] for ident in part["nodes"]]] = a
    roomy = dataclasses.replace(problem, max_accelerators=devices)
    outcome = latency_outcome(roomy, device_of)
    breaks = list(outcome.violations)
    if len(parts) > problem.max_accelerators:
        breaks.append(
            f"{len(parts)} accelerators are used, and there are {problem.max_accelerators}"
        )
    return outcome.latency, breaks


def _print_bars(rows: list[dict[str, Any]], quick: bool) -> None:
    from harness.bars import Bar, as_json

    bars: list[Bar] = []
    for row in rows:
        name, latency = row["input"], row["latency"]
        if row["greedy"] is not None:
            apart = abs(row["fill"] - row["greedy"])
            bars.append(Bar(f"{name}_reading", apart, 2 * ROUNDING, "below", (apart,)))
        reference = row["greedy"] or row["fill"]
        bars.append(Bar(f"{name}_latency", latency, reference + ROUNDING, "below", (latency,)))
        broken = float(len(row["breaks"]))
        bars.append(Bar(f"{name}_broken_limits", broken, 1.0, "below", (broken,)))
    print(as_json(bars, quick=quick))


if __name__ == "__main__":
    sys.exit(main())
