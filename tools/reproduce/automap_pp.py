"""Pipeline planning of Auto-MAP: rows 7 to 16 of the acceptance table.

Per row: the exact optimum by dynamic programming, balanced cuts, a pass of coordinate descent,
random search, and deep Q-learning with the published settings on several seeds. `--update` writes
`tools/reproduce/data/automap_pp.json`.
"""

from __future__ import annotations

from mcm_compiler.one_thread import use_one_thread

use_one_thread()

import argparse  # noqa: E402
import json  # noqa: E402
import time  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from typing import Any  # noqa: E402

from pipeline_rows import DATA, ROWS, Row, build, cluster, passes, settings_of, write  # noqa: E402

from mcm_models.pipelines.problem import Pipeline  # noqa: E402
from mcm_passes.pipelining.baselines import balanced, descended, random_search  # noqa: E402
from mcm_passes.pipelining.exact import best_pipeline, least_memory  # noqa: E402
from mcm_passes.pipelining.online import learn_online  # noqa: E402
from mcm_passes.pipelining.problem_builder import ModelPipelining, prepare  # noqa: E402

RANDOM_SAMPLES = 10_000


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 1 if a row does not pass."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="of learning (5)")
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
    return 0 if all(record["passes"] for record in records[kept:]) else 1


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
    started = time.perf_counter()
    exact = best_pipeline(problem)
    exact_s = time.perf_counter() - started
    record: dict[str, Any] = {
        "row": row.number,
        "model": row.model,
        "target": row.target,
        "published": {"layers": row.layers, "devices": row.devices},
        "parts": problem.num_parts,
        "layers": len(prepared.boundaries) + 1,
        "least_memory_bytes": int(least_memory(problem)),
        "device_memory_bytes": int(problem.devices.memory_bytes),
    }
    if exact is None:
        return record | {"out_of_memory": True, "passes": row.out_of_memory}
    record |= {
        "out_of_memory": False,
        "exact": _found(row, prepared, exact, exact.length_s) | {"seconds": round(exact_s, 3)},
        "balanced": _found(row, prepared, balanced(problem), exact.length_s),
        "descent": _found(row, prepared, descended(problem), exact.length_s),
        "random": _found(row, prepared, random_search(problem, RANDOM_SAMPLES, 0), exact.length_s),
        "dqn": [],
    }
    for seed in range(seeds):
        cpu = time.process_time()
        outcome = learn_online(problem, seed)
        record["dqn"].append(
            _found(row, prepared, outcome.pipeline, exact.length_s)
            | {
                "seed": seed,
                "gap_as_learned": None
                if outcome.learned_s is None
                else round(outcome.learned_s / exact.length_s - 1.0, 6),
                "seconds": round(outcome.seconds, 2),
                "cpu_seconds": round(time.process_time() - cpu, 2),
                "iterations": outcome.iterations,
                "episodes": outcome.episodes,
            }
        )
    learned = record["dqn"]
    record["passes"] = not row.out_of_memory and all(
        run["passes"] and run["seconds"] <= 60 for run in learned
    )
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
    gaps = [f"{run.get('gap', float('inf')):.3%}" for run in record["dqn"]]
    return (
        f"{head}: exact {exact['layers']} {exact['devices']} {exact['length_s']:.4f} s, "
        f"balanced {record['balanced'].get('gap', float('inf')):.2%}, "
        f"descent {record['descent'].get('gap', float('inf')):.2%}, "
        f"random {record['random'].get('gap', float('inf')):.2%}, DQN {' '.join(gaps)} "
        f"in {max((run['seconds'] for run in record['dqn']), default=0):.0f} s, "
        f"passes: {record['passes']}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
