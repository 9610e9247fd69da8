"""The hierarchical planner beside its rivals, at equal evaluations and at equal CPU seconds.

A cell is a method on a graph with a seed and a number of placements that it may simulate. Its
record has the best placement, what the policy samples in the end (a best sample hides a policy
that has collapsed), and curves of both. The methods of `--match` then run again with as many
evaluations as fit in the CPU seconds of `hierarchical-groups`; what a dearer one had by then is
read off its curve.

`--trained FOLDER` holds policies of `mcmc train placement` against searches instead, with a
fortieth of their placements, also with as many of a coarse step as theirs; seeds of trainings are
in their cards. No graph of the paper is among the cases that policies learn from, in any length or
size, and no box of the table.

Records are written to `tools/reproduce/data/hier_table1.json` (`hier_pretrained.json`) as soon as a
cell is done; cells that are there are not run again. `--page` writes sections of
`docs/results/hierarchical-planner.md`.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from hier_physics import first_gpu, judged, on_one
from hier_planner.planning import PlannerError
from hier_study import pretrained_table
from hier_study.page import read_rows, record_path, write_record, write_section
from hier_study.paper_graphs import PaperGraph, chosen
from hier_study.planner_tables import AFTER_SEARCH, OURS, section

from mcm_compiler.arrays.types import Ints
from mcm_compiler.contracts.boxes.box import Box, StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepEvaluator, StepResults, StepTrace
from mcm_compiler.contracts.boxes.placers import PlacerAnswer, PlacerRequest, Simulate
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.placed.device_costs import load_box
from mcm_compiler.plugin_files import load_plugin
from mcm_compiler.processes.one_thread import use_one_thread
from mcm_compiler.registry import PLACERS
from mcm_compiler.text import spec_text

NAME, TRAINED = "hier_table1", "hier_pretrained"
COMMAND = "python tools/reproduce/hier_table1.py"
KEYS = ("graph", "method", "seed", "evaluations")

METHODS = (
    "hierarchical",
    "hierarchical-groups",
    "logits",
    "hierarchical{learning_rate=0}",
    "hierarchical-groups{learning_rate=0}",
    "pretrained{policy=none,evaluations=1000000000}",
    "local_search",
    "portfolio",
    *AFTER_SEARCH,
)
"""The planner as published, ours, the control without a network, both without updates; hill
climbing over the groups that ours has, the compiler's own searches, which divide them, and learning
over the pieces of those from what half of the evaluations found, with and without updates."""

FIGURES = {
    "updates": "updates",
    "mean score of the last updates": "last_mean",
    "entropy of a group's device": "device_entropy",
    "most entropy of a group's device": "most_device_entropy",
    "entropy of an op's group": "group_entropy",
    "groups": "groups",
    "used groups": "used_groups",
    "used devices": "used_devices",
    "coarse evaluations": "coarse_simulated",
}
"""Figures of answers, and their names in records."""

LEAST_FALL = 2e-3
"""Share by which the best score has to fall to be recorded again."""

Fall = tuple[int, float, float]
"""Evaluations, CPU seconds and score."""

_CURVE = "mean score to update "
_NAMES = re.compile(r'(?:[^;"]|"[^"]*")+')
"""Of placers that are divided by `;`, which texts in quotes may contain."""


@dataclass(eq=False)
class Watched:
    """An evaluator that notes when the best score fell.

    Attributes:
        inner: is asked.
        began: CPU seconds of the process when the method began.
        evaluations: so far.
        best: score.
        fell: evaluations, CPU seconds and score, each time the best fell.
    """

    inner: StepEvaluator
    began: float
    evaluations: int = 0
    best: float = np.inf
    fell: list[Fall] = field(default_factory=list[Fall])

    @property
    def name(self) -> str:
        """Of the evaluator within."""
        return self.inner.name

    def evaluate(self, placements: Ints) -> StepResults:
        """See `StepEvaluator.evaluate`."""
        results = self.inner.evaluate(placements)
        self.evaluations += len(placements)
        least = float(results.score.min(initial=np.inf))
        if least < self.best:
            self.best = least
            spent = round(time.process_time() - self.began, 3)
            self.fell.append((self.evaluations, spent, least))
        return results

    def trace(self, placement: Ints) -> StepTrace:
        """See `StepEvaluator.trace`; an evaluation, too."""
        self.evaluations += 1
        return self.inner.trace(placement)


@dataclass(frozen=True, eq=False)
class Bench:
    """A graph with its box, ready to be placed.

    Attributes:
        graph: of the paper.
        problem: its training step.
        box: devices.
        evaluator: the simulator, compiled.
        references: seconds of the expert and of one GPU.
        simulate: makes evaluators of other problems in the box.
    """

    graph: PaperGraph
    problem: StepProblem
    box: Box
    evaluator: StepEvaluator
    references: dict[str, float]
    simulate: Simulate


def bench_of(graph: PaperGraph) -> Bench:
    """Builds the step, and simulates what all are compared with."""
    step = graph.step()
    target = load_box(graph.box)
    problem = target.step_problem(step.model, step.states)
    evaluator = target.step_evaluator(problem)
    one = judged(evaluator, on_one(problem, first_gpu(target.box)))
    answer = _place("expert", PlacerRequest(problem, target.box, evaluator, evaluations=4000))
    expert = judged(evaluator, answer.device_of)
    references = {
        "expert_s": expert.seconds,
        "expert_fits": float(expert.fits),
        "one_gpu_s": one.seconds,
        "one_gpu_fits": float(one.fits),
    }
    return Bench(graph, problem, target.box, evaluator, references, target.step_evaluator)


def _place(method: str, request: PlacerRequest) -> PlacerAnswer:
    spec = spec_text.parse_one(method)
    placer = spec_text.instantiate(PLACERS.get(spec.name), spec)
    return placer.place(request)


def cell(
    bench: Bench, method: str, seed: int, evaluations: int, others: bool = False
) -> dict[str, Any]:
    """The record of a method; CPU seconds are without the graph's, with JAX's compiling.

    Args:
        bench: the graph.
        method: text of a placer.
        seed: of the request.
        evaluations: likewise.
        others: whether the placer may simulate other problems, such as coarse steps.
    """
    began = time.process_time()
    watched = Watched(bench.evaluator, began)
    request = PlacerRequest(
        bench.problem,
        bench.box,
        watched,
        evaluations=evaluations,
        seed=seed,
        simulate=bench.simulate if others else None,
    )
    record: dict[str, Any] = {
        "graph": bench.graph.name,
        "method": method,
        "seed": seed,
        "evaluations": evaluations,
        "box": bench.graph.box,
        "ops": bench.problem.num_ops,
        **bench.references,
    }
    try:
        answer = _place(method, request)
    except (CompileError, PlannerError) as error:
        spent = time.process_time() - began
        return record | {"failed": str(error), "cpu_s": round(spent, 2)}
    spent = time.process_time() - began
    best = judged(bench.evaluator, answer.device_of)
    busy = bench.evaluator.evaluate(answer.device_of[np.newaxis]).busy_s[0]
    figures = dict(answer.figures)
    curve = [
        (int(name.removeprefix(_CURVE)), round(value, 5))
        for name, value in answer.figures
        if name.startswith(_CURVE)
    ]
    return record | {
        "simulated": answer.evaluations,
        "cpu_s": round(spent, 2),
        "best_s": best.seconds,
        "best_fits": best.fits,
        "busiest_share": round(float(busy.max() / busy.sum()), 4),
        **{new: round(figures[old], 5) for old, new in FIGURES.items() if old in figures},
        "curve": curve,
        "fell": marked_falls(watched.fell),
    }


def marked_falls(fell: Sequence[Fall]) -> list[Fall]:
    """The first and the last fall of a score, and those by `LEAST_FALL` since the one before."""
    kept: list[Fall] = []
    for k, fall in enumerate(fell):
        if not kept or k == len(fell) - 1 or fall[2] <= kept[-1][2] * (1.0 - LEAST_FALL):
            kept.append(fall)
    return kept


def known_rows(record: str = NAME) -> list[dict[str, Any]]:
    """Cells that are done."""
    return read_rows(record) if record_path(record).exists() else []


def run_cell(
    bench: Bench, method: str, seed: int, evaluations: int, called: str = "", record: str = NAME
) -> dict[str, Any]:
    """A cell that is done, or is done now and written.

    Args:
        bench: the graph.
        method: text of a placer.
        seed: of the request.
        evaluations: likewise.
        called: what the record calls the method; its text, where empty.
        record: name of the record.
    """
    key = (bench.graph.name, called or method, seed, evaluations)
    for row in known_rows(record):
        if tuple(row[name] for name in KEYS) == key:
            return row
    row = cell(bench, method, seed, evaluations, others=record == TRAINED)
    row |= {"method": called or method}
    if record == TRAINED:
        row.pop("fell", None)  # nobody asks there what a method had by when
    write_record(record, COMMAND, [row], KEYS)
    seconds = f"{row['best_s']:.4f} s" if "best_s" in row else row["failed"]
    print(f"{key}: {seconds}, {row['cpu_s']} CPU-s", flush=True)
    return row


def matched(rows: Sequence[dict[str, Any]], seconds: float) -> dict[str, int]:
    """Evaluations with which methods that took fewer CPU seconds take so many."""
    return {
        row["method"]: int(row["evaluations"] * seconds / row["cpu_s"])
        for row in rows
        if row["cpu_s"] < 0.8 * seconds
    }


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graphs", nargs="*", default=["rnnlm", "nmt-2"], help="names")
    parser.add_argument("--methods", help="placers, divided by ;")
    parser.add_argument("--evaluations", type=int, default=2000, help="of each method")
    parser.add_argument("--seeds", type=int, default=1, help="from 0")
    parser.add_argument("--match", default="logits;local_search", help=f"placers that run again "
                        f"with the CPU seconds of {OURS}, divided by ;")  # fmt: skip
    parser.add_argument("--trained", type=Path, nargs="*", default=[], help="folders of trainings")
    parser.add_argument("--page", action="store_true", help="write the section, run nothing")
    options = parser.parse_args()
    if options.page:
        write_section("planner", section(known_rows()))
        write_section("pretrained", pretrained_table.section(known_rows(TRAINED)))
        return 0
    load_plugin(Path(__file__).parent / "hier_planner" / "plugin.py")
    use_one_thread()
    given = options.methods
    methods = METHODS if given is None else _NAMES.findall(given)
    again = _NAMES.findall(options.match)
    for graph in chosen(options.graphs):
        bench = bench_of(graph)
        for seed in range(options.seeds):
            if options.trained:
                for called, method, evaluations in pretrained_table.cells(options.trained):
                    run_cell(bench, method, seed, evaluations, called, TRAINED)
                continue
            rows = [run_cell(bench, method, seed, options.evaluations) for method in methods]
            spent = [row["cpu_s"] for row in rows if row["method"] == OURS]
            for method, evaluations in matched(rows, max(spent, default=0.0)).items():
                if method in again:
                    run_cell(bench, method, seed, evaluations)
    return 0


if __name__ == "__main__":
    sys.exit(main())
