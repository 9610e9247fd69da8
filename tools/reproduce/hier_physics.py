"""Facts of the hierarchical planner's table, in ratios, on simulated boxes.

For each graph the time of a step and the peaks of memory: all on the CPU, all on one GPU, and what
placers find (best of 20 seeds for METIS and Scotch; on the GPUs, and with the CPU). `--update`
writes `tools/reproduce/data/hier_physics.json` and a section of
`docs/results/hierarchical-planner.md`. The device parameters are those of the targets; no option
changes them.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hier_study.by_hand import side_by_side
from hier_study.page import read_rows, table, write_record, write_section
from hier_study.paper_graphs import GRAPHS, PaperGraph, chosen

from mcm_compiler.arrays.types import Ints
from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepEvaluator
from mcm_compiler.contracts.boxes.placers import PlacerRequest
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.placed.device_costs import load_box
from mcm_compiler.plugin_files import load_plugin
from mcm_compiler.processes.one_thread import use_one_thread
from mcm_compiler.registry import PLACERS
from mcm_compiler.text import spec_text

GIB = 2**30
CPU_OVER_GPU = (4.0, 7.0)
"""Range of the paper's ratios of all on the CPU to all on one GPU."""

TOO_LARGE_FOR_ONE = ("nmt-4", "nmt-8")
"""Graphs that one GPU's memory does not hold."""

RIVALS = ("expert", "metis", "metis{host=true}", "scotch", "scotch{host=true}", "etf")


@dataclass(frozen=True)
class Placed:
    """How a placement does.

    Attributes:
        seconds: of a step, as if memory were without limit.
        fits: whether no memory overflows.
        peak_gib: most memory held on one device.
        copied_s: time of the busiest channel.
        devices: that ops take time on.
    """

    seconds: float
    fits: bool
    peak_gib: float
    copied_s: float
    devices: int


def judged(evaluator: StepEvaluator, placement: Ints) -> Placed:
    """Simulates a placement."""
    results = evaluator.evaluate(placement[np.newaxis].astype(np.int32))
    return Placed(
        float(results.seconds[0]),
        bool(results.fits[0]),
        round(float(results.peak_bytes[0].max()) / GIB, 2),
        float(results.copy_s[0].max()),
        int((results.busy_s[0] > 0).sum()),
    )


def on_one(problem: StepProblem, device: int) -> Ints:
    """All ops on a device, those that it may not run on the first that may."""
    anywhere = np.argmax(problem.allowed, axis=1)
    return np.where(problem.allowed[:, device], device, anywhere).astype(np.int32)


def first_gpu(box: Box) -> int:
    """The first device of another kind than the host's."""
    return int(np.flatnonzero(box.kind_of != box.kind_of[box.host])[0])


def measured(graph: PaperGraph, rivals: list[str], seed: int) -> dict[str, Any]:
    """The record of a graph."""
    times = [time.process_time()]
    step = graph.step()
    times.append(time.process_time())
    target = load_box(graph.box)
    problem = target.step_problem(step.model, step.states)
    times.append(time.process_time())
    evaluator = target.step_evaluator(problem)
    box = target.box
    placed = {
        "cpu": judged(evaluator, on_one(problem, box.host)),
        "one gpu": judged(evaluator, on_one(problem, first_gpu(box))),
    }
    if graph.counted:
        for where, first in (("first", True), ("last", False)):
            by_hand = side_by_side(problem, box, attention_first=first)
            placed[f"by hand, attention {where}"] = judged(evaluator, by_hand)
    for rival in rivals:
        try:
            spec = spec_text.parse_one(rival)
            placer = spec_text.instantiate(PLACERS.get(spec.name), spec)
            request = PlacerRequest(problem, box, evaluator, evaluations=4000, seed=seed)
            answer = placer.place(request)
        except CompileError as error:
            print(f"{graph.name}: {rival}: {error}", flush=True)
            continue
        placed[rival] = judged(evaluator, answer.device_of)
    return {
        "graph": graph.name,
        "box": graph.box,
        "seed": seed,
        "ops": problem.num_ops,
        "step_cpu_s": round(times[1] - times[0], 2),
        "problem_cpu_s": round(times[2] - times[1], 2),
        "placed": {name: vars(one) for name, one in placed.items()},
    }


def faults(row: dict[str, Any]) -> list[str]:
    """Facts of the paper's table that do not hold."""
    name, placed = row["graph"], row["placed"]
    ratio = placed["cpu"]["seconds"] / placed["one gpu"]["seconds"]
    found: list[str] = []
    if not CPU_OVER_GPU[0] <= ratio <= CPU_OVER_GPU[1]:
        found.append(f"the CPU takes {ratio:.2f} times one GPU")
    if placed["one gpu"]["fits"] == (name in TOO_LARGE_FOR_ONE):
        found.append(f"one GPU needs {placed['one gpu']['peak_gib']} GiB")
    on_gpus = [one for way, one in placed.items() if way not in ("cpu",)]
    if not any(one["fits"] for one in on_gpus):
        found.append("nothing fits the box")
    return found


def section(rows: list[dict[str, Any]]) -> str:
    """The table of the page: seconds, and ratios to one GPU."""
    by_name = {row["graph"]: row for row in rows}
    rows = [by_name[graph.name] for graph in GRAPHS if graph.name in by_name]
    ways = list(dict.fromkeys(way for row in rows for way in row["placed"]))
    body: list[list[str]] = []
    for way in ways:
        cells = [_cell(row["placed"].get(way), row["placed"]["one gpu"]) for row in rows]
        body.append([f"`{way}`" if way in RIVALS else way, *cells])
    memory = [f"{row['placed']['one gpu']['peak_gib']:.1f}" for row in rows]
    header = ["", *(f"{row['graph']}, {row['box']}" for row in rows)]
    body.append(["GiB on one GPU", *memory])
    told = [f"- {row['graph']}: {fault}" for row in rows for fault in faults(row)]
    text = table(header, body)
    return f"{text}\n\nFacts that do not hold:\n\n" + ("\n".join(told) or "- none")


def _cell(one: dict[str, Any] | None, reference: dict[str, Any]) -> str:
    if one is None:
        return "-"
    ratio = one["seconds"] / reference["seconds"]
    return f"{one['seconds']:.3f} s ({ratio:.2f})" + ("" if one["fits"] else ", OOM")


def main() -> int:
    """The command line; 1 where a fact of the paper's table does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graphs", nargs="*", help="names; all where none is given")
    parser.add_argument("--rivals", default=";".join(RIVALS), help="placers, divided by ;")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--update", action="store_true", help="write the data and the page")
    options = parser.parse_args()
    load_plugin(Path(__file__).parent / "hier_study" / "graph_placers.py")
    use_one_thread()
    rows: list[dict[str, Any]] = []
    for graph in chosen(options.graphs):
        row = measured(graph, [name for name in options.rivals.split(";") if name], options.seed)
        rows.append(row)
        print(f"{graph.name} ({row['ops']:,} ops, step {row['step_cpu_s']}, problem "
              f"{row['problem_cpu_s']} CPU-s)")  # fmt: skip
        for way, one in row["placed"].items():
            print(f"  {way}: {_cell(one, row['placed']['one gpu'])}, {one['peak_gib']} GiB")
        for fault in faults(row):
            print(f"  does not hold: {fault}")
        sys.stdout.flush()
    if options.update:
        kept = {row["graph"]: row for row in read_rows("hier_physics")}
        for row in rows:
            # Placers that were not asked this time stay.
            row["placed"] = kept.get(row["graph"], row)["placed"] | row["placed"]
        write_record("hier_physics", "python tools/reproduce/hier_physics.py --update", rows)
        write_section("physics", section(read_rows("hier_physics")))
    return int(any(map(faults, rows)))


if __name__ == "__main__":
    sys.exit(main())
