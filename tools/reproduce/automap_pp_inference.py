"""Pipeline planning of Auto-MAP without learning at hand: rows 17 to 19 of the acceptance table.

The shipped policy on held-out synthetic cases against the exact optimum, greedy and by a beam, with
the controls that learn nothing; and on BERT-48, T5-base and T5-11B over 128 positions of equal work
on Config C. As in the paper, whose arrays say nothing of memory, that is without its limit; where
the limit changes the answer, the record says so. `--update` writes
`tools/reproduce/data/automap_pp_inference.json`.
"""

from __future__ import annotations

from mcm_compiler.one_thread import use_one_thread

use_one_thread()

import argparse  # noqa: E402
import dataclasses  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable, Sequence  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
from pipeline_rows import (  # noqa: E402
    LENGTH_TOLERANCE,
    POSITION_TOLERANCE,
    build,
    cluster,
    settings_of,
    write,
)

from mcm_models.dqn.inference import QNetwork  # noqa: E402
from mcm_models.pipelines.policy_checkpoint import (  # noqa: E402
    SHIPPED_PIPELINE_POLICY,
    load_pipeline_policy,
)
from mcm_models.pipelines.policy_environment import POLICY_LAYOUT, first_weights  # noqa: E402
from mcm_models.pipelines.policy_inference import BEAM, infer_pipeline  # noqa: E402
from mcm_models.pipelines.problem import Pipeline, PipelineProblem  # noqa: E402
from mcm_models.pipelines.random_cases import random_cases  # noqa: E402
from mcm_models.pipelines.tables import pipeline_tables  # noqa: E402
from mcm_passes.pipelining.baselines import balanced, descended  # noqa: E402
from mcm_passes.pipelining.exact import best_pipeline  # noqa: E402
from mcm_passes.pipelining.positions import in_positions, prepare_positions  # noqa: E402
from mcm_passes.pipelining.problem_builder import ModelPipelining  # noqa: E402

PUBLISHED = (34, 66, 98)
ROWS = ((17, "BERT-48"), (18, "T5-base"), (19, "T5-11B"))
HELD_OUT_SEED = 1
REPEATS = 20


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 1 if something does not pass."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=300, help="held-out cases (300)")
    parser.add_argument("--policy", type=Path, default=SHIPPED_PIPELINE_POLICY)
    parser.add_argument("--update", action="store_true", help="write the data")
    options = parser.parse_args(arguments)
    network, card = load_pipeline_policy(options.policy)
    held = _held_out(network, options.cases)
    for method, numbers in held["methods"].items():
        print(
            f"{method:18} mean gap {numbers['mean_gap']:.3%}, within 2 % "
            f"{numbers['within_2_percent']:.1%}, worst {numbers['worst_gap']:.2%}, "
            f"{numbers['milliseconds']:.2f} ms"
        )
    rows = [_row(number, model, network) for number, model in ROWS]
    for row in rows:
        print(row)
    if options.update:
        data = {"policy": dict(card.trained_on), "held_out": held, "rows": rows}
        write("automap_pp_inference.json", data)
    return 0 if held["passes"] and all(row["passes"] for row in rows) else 1


def _held_out(network: QNetwork, count: int) -> dict[str, Any]:
    cases = random_cases(count, HELD_OUT_SEED)
    exact = [best_pipeline(case) for case in cases]
    lengths = np.array([found.length_s if found else np.inf for found in exact])
    moved = [
        found is not None and not set(found.devices) <= set(case.devices.server_starts.tolist())
        for case, found in zip(cases, exact, strict=True)
    ]
    ahead = QNetwork(POLICY_LAYOUT, first_weights(None))
    methods: dict[str, Callable[[PipelineProblem], Pipeline]] = {
        "balanced": balanced,
        "descent": descended,
        "look-ahead": lambda p: infer_pipeline(ahead, pipeline_tables(p), p.stages, 1),
        f"look-ahead, beam {BEAM}": lambda p: infer_pipeline(
            ahead, pipeline_tables(p), p.stages, BEAM
        ),
        "greedy": lambda p: infer_pipeline(network, pipeline_tables(p), p.stages, 1),
        "greedy, descent": lambda p: infer_pipeline(
            network, pipeline_tables(p), p.stages, 1, descent=True
        ),
        f"beam {BEAM}, descent": lambda p: infer_pipeline(
            network, pipeline_tables(p), p.stages, BEAM, descent=True
        ),
        f"beam {BEAM}": lambda p: infer_pipeline(network, pipeline_tables(p), p.stages, BEAM),
    }
    found: dict[str, Any] = {}
    for name, method in methods.items():
        method(cases[0])
        started = time.perf_counter()
        gaps = np.array([method(case).length_s for case in cases]) / lengths - 1.0
        seconds = time.perf_counter() - started
        found[name] = {
            "mean_gap": float(gaps.mean()),
            "within_2_percent": float((gaps <= 0.02).mean()),
            "worst_gap": float(gaps.max()),
            "milliseconds": seconds / count * 1e3,
        }
    greedy, beam = found["greedy"], found[f"beam {BEAM}"]
    return {
        "cases": count,
        "seed": HELD_OUT_SEED,
        "share_with_device_cuts_inside_servers": float(np.mean(moved)),
        "methods": found,
        "passes": greedy["mean_gap"] <= 0.005
        and greedy["within_2_percent"] >= 0.98
        and beam["within_2_percent"] >= 0.995,
    }


def _row(number: int, model: str, network: QNetwork) -> dict[str, Any]:
    prepared = prepare_positions(build(model), cluster("config-c"), settings_of(model))
    limited = prepared.problem
    devices = dataclasses.replace(limited.devices, memory_bytes=np.inf)
    problem = dataclasses.replace(limited, devices=devices)
    exact = best_pipeline(problem)
    assert exact is not None
    tables = pipeline_tables(problem)
    found = infer_pipeline(network, tables, problem.stages)
    times: list[float] = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        infer_pipeline(network, tables, problem.stages)
        times.append(time.perf_counter() - started)
    places = _rounded(prepared, found)
    gap = found.length_s / exact.length_s - 1.0
    near = all(
        abs(place - goal) <= POSITION_TOLERANCE
        for place, goal in zip(places, PUBLISHED, strict=True)
    )
    in_memory = best_pipeline(limited)
    return {
        "row": number,
        "model": model,
        "positions": places,
        "devices": found.devices,
        "published": PUBLISHED,
        "length_s": found.length_s,
        "gap": round(gap, 6),
        "exact_positions": _rounded(prepared, exact),
        "exact_devices": exact.devices,
        "exact_in_memory": None if in_memory is None else _rounded(prepared, in_memory),
        "milliseconds": float(np.median(times) * 1e3),
        "near": near,
        "passes": near and 1.0 + gap <= LENGTH_TOLERANCE,
    }


def _rounded(prepared: ModelPipelining, pipeline: Pipeline) -> list[int]:
    """Cuts as indices into the arrays of 128."""
    return [round(place) for place in in_positions(prepared, pipeline.cuts)]


if __name__ == "__main__":
    raise SystemExit(main())
