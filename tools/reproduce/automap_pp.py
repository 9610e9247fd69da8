"""Pipeline planning of Auto-MAP: rows 7 to 16 of the acceptance table.

Per row: the exact optimum over all cuts, and over the cuts that the paper lets a search choose
from; among the latter balanced cuts, a pass of coordinate descent, random search, and deep
Q-learning with the published settings on several seeds, beside the same search with a learning rate
of 0 (the control: same episodes' number, same share of random actions, same descent). `--update`
writes `tools/reproduce/data/automap_pp.json`.
"""

from __future__ import annotations

from mcm_compiler.processes.one_thread import use_one_thread

use_one_thread()

import argparse  # noqa: E402
import dataclasses  # noqa: E402
import json  # noqa: E402
import platform  # noqa: E402
import time  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from importlib import metadata  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
from automap_dqn.pipeline_learning import ITERATIONS, candidate_cuts, learn_online  # noqa: E402
from deep_q_study.learner import PUBLISHED  # noqa: E402
from pipeline_rows import DATA, ROWS, Row, build, cluster, passes, settings_of, write  # noqa: E402

from mcm_models.pipelines.kernels import balanced_pipeline, length_s  # noqa: E402
from mcm_models.pipelines.problem import Pipeline, PipelineProblem, pipeline_tables  # noqa: E402
from mcm_passes.parallelism.pipelines.node_chain import ModelPipelining, prepare  # noqa: E402
from mcm_passes.parallelism.pipelines.optimal_pipeline import (  # noqa: E402
    balanced,
    best_pipeline,
    descended,
    least_memory,
    pipeline_of,
)

RANDOM_SAMPLES = 10_000

CONTROL = dataclasses.replace(PUBLISHED["pp"], updates=8, learning_rate=0.0)
"""The same search without learning."""


def random_search(problem: PipelineProblem, samples: int, seed: int) -> Pipeline:
    """The best of pipelines whose cuts and device cuts are drawn uniformly."""
    t = pipeline_tables(problem)
    best_parts, best_places = balanced_pipeline(t, problem.stages)
    parts, places, best = best_parts.copy(), best_places.copy(), np.inf
    rng = np.random.default_rng(seed)
    choices = np.arange(1, problem.num_parts), np.flatnonzero(problem.allowed_places)
    for _ in range(samples):
        for row, values in zip((parts, places), choices, strict=True):
            row[1:-1] = np.sort(rng.choice(values, problem.stages - 1, replace=False))
        length = length_s(t, parts, places)
        if length < best:
            best, best_parts, best_places = length, parts.copy(), places.copy()
    return pipeline_of(t, best_parts, best_places)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 1 if a row does not pass."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seeds",
        type=int,
        default=5,
        help="of learning (5); 0 for the exact answers and the searches that learn nothing",
    )
    parser.add_argument("--rows", type=int, nargs="*", help="numbers of rows (all)")
    parser.add_argument("--update", action="store_true", help="write the data")
    options = parser.parse_args(arguments)
    records: list[dict[str, Any]] = kept_rows(options.rows or [row.number for row in ROWS])
    kept = len(records)
    models: dict[str, Any] = {}
    for row in ROWS:
        if options.rows and row.number not in options.rows:
            continue
        if row.model not in models:
            models = {row.model: build(row.model)}
        prepared = prepare(models[row.model], cluster(row.target), settings_of(row.model))
        records.append(measure(row, prepared, options.seeds))
        print(_line(records[-1]), flush=True)
        if options.update:
            ordered = sorted(records, key=lambda r: (r["row"], r["target"]))
            write("automap_pp.json", {"rows": ordered})
    return 1 if any(record["passes"] is False for record in records[kept:]) else 0


def _made_by(row: Row, seeds: int) -> dict[str, Any]:
    names = ("numpy", "numba", "onnx", "onnx_ir")
    script = "tools/reproduce/automap_pp.py"
    return {
        "command": f"python {script} --rows {row.number} --seeds {seeds} --update",
        "seeds": list(range(seeds)),
        "iterations": ITERATIONS,
        "python": platform.python_version(),
        "versions": {name: metadata.version(name) for name in names},
    }


def kept_rows(measured: Sequence[int]) -> list[dict[str, Any]]:
    """Records on file of rows that are not measured now."""
    path = DATA / "automap_pp.json"
    if not path.exists():
        return []
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return [row for row in rows if row["row"] not in measured]


def measure(row: Row, prepared: ModelPipelining, seeds: int) -> dict[str, Any]:
    """All methods on one row."""
    problem = prepared.problem
    started = time.process_time()
    exact = best_pipeline(problem)
    exact_s = time.process_time() - started
    candidates = candidate_cuts(problem)
    few = candidates.problem
    record: dict[str, Any] = {
        "row": row.number,
        "model": row.model,
        "target": row.target,
        "made_by": _made_by(row, seeds),
        "published": {"layers": row.layers, "devices": row.devices},
        "ops": problem.num_parts,
        "candidates": len(candidates.cuts),
        "candidate_device_cuts": few.device_cuts,
        "layers": len(prepared.boundaries) + 1,
        "least_memory_bytes": int(least_memory(problem)),
        "device_memory_bytes": int(problem.devices.memory_bytes),
    }
    if exact is None:
        return record | {"out_of_memory": True, "passes": row.out_of_memory}

    def judged(pipeline: Pipeline | None) -> dict[str, Any]:
        return _found(row, prepared, pipeline, exact.length_s)

    def among(pipeline: Pipeline | None) -> dict[str, Any]:
        return judged(None if pipeline is None else candidates.in_whole(pipeline))

    record |= {
        "out_of_memory": False,
        "exact": judged(exact) | {"cpu_seconds": round(exact_s, 3)},
        "exact_of_candidates": among(best_pipeline(few)),
        "balanced": among(balanced(few)),
        "descent": among(descended(few)),
        "random": among(random_search(few, RANDOM_SAMPLES, 0)),
        "dqn": [],
        "control": [],
    }
    for seed in range(seeds):
        for method, settings in (("dqn", None), ("control", CONTROL)):
            cpu = time.process_time()
            outcome = learn_online(problem, seed, settings)
            record[method].append(
                judged(outcome.pipeline)
                | {
                    "seed": seed,
                    "gap_as_learned": None
                    if outcome.learned_s is None
                    else round(outcome.learned_s / exact.length_s - 1.0, 6),
                    "cpu_seconds": round(time.process_time() - cpu, 2),
                    "iterations": outcome.iterations,
                    "episodes": outcome.episodes,
                    "last_epsilon": round(outcome.last_epsilon, 6),
                }
            )
    learned = [run["passes"] for run in record["dqn"]]
    record["passes"] = (not row.out_of_memory and all(learned)) if learned else None
    return record


def _found(
    row: Row, prepared: ModelPipelining, pipeline: Pipeline | None, exact_s: float
) -> dict[str, Any]:
    if pipeline is None or pipeline.length_s == float("inf"):
        return {"out_of_memory": True, "passes": False}
    layers, gap = prepared.layers(pipeline.cuts), pipeline.length_s / exact_s - 1.0
    return {
        "layers": layers,
        "devices": pipeline.devices,
        "length_s": pipeline.length_s,
        "gap": round(gap, 6),
        "passes": passes(row, layers, pipeline.devices, gap),
    }


def _line(record: dict[str, Any]) -> str:
    head = f"row {record['row']:2} {record['model']:8} {record['target']}"
    if record["out_of_memory"]:
        need, has = (record[k] / 2**30 for k in ("least_memory_bytes", "device_memory_bytes"))
        return f"{head}: out of memory ({need:.1f} of {has:.1f} GiB), passes: {record['passes']}"
    exact = record["exact"]
    gaps, control = (
        [f"{run.get('gap', float('inf')):.3%}" for run in record[method]]
        for method in ("dqn", "control")
    )
    return (
        f"{head}: exact {exact['layers']} {exact['devices']} {exact['length_s']:.4f} s, "
        f"balanced {record['balanced'].get('gap', float('inf')):.2%}, "
        f"descent {record['descent'].get('gap', float('inf')):.2%}, "
        f"random {record['random'].get('gap', float('inf')):.2%}, DQN {' '.join(gaps)} "
        f"in {max((run['cpu_seconds'] for run in record['dqn']), default=0):.0f} CPU-s, "
        f"control {' '.join(control)}, "
        f"passes: {record['passes']}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
