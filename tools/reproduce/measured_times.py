"""What is lost where the compiler does not know the true times of kernels, and found where it does.

The times that a roofline gives to a model's kernels are multiplied by a factor each, drawn once
from a lognormal distribution: these are the true times, and stand in a table of measured times.
The model is compiled without the table, and with it. Both partitions are then held against the
true times, by the fast model and by the simulator. Writes a record per model, target and spread to
`tools/reproduce/data/measured_times.json`, beside those that are there.

    python tools/reproduce/measured_times.py
    python tools/reproduce/measured_times.py --seeds 1 2 3 --sigma 0.3 --target mcm4 zoo:plain-cnn
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from mcm_compiler import CompileOptions
from mcm_compiler.api import run_passes
from mcm_compiler.arrays.randomness import seeded_generator
from mcm_compiler.components.capabilities import required_batch_evaluation_of
from mcm_compiler.components.cost_choice import with_cost_model
from mcm_compiler.components.cost_files import user_files
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.partition import PARTITION, PARTITION_PROBLEM, Ints
from mcm_compiler.contracts.target import Target
from mcm_passes.mapping.machine.evaluation import evaluate

DATA = Path(__file__).with_name("data") / "measured_times.json"
VERSIONS = ("mcm-compiler", "numpy", "onnx", "ortools")
LEVEL = 2
PASSES = "simplify,fuse,annotate_cost,partition"
TABLE = "times.csv"
PROVEN = 1e-8
"""Gap up to which an optimum counts as proven; bounds are rounded down a little."""


def main(arguments: list[str]) -> int:
    """Measures, writes, and says whether every optimum was found and proven."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", nargs="*", default=["zoo:resnet50"])
    parser.add_argument("--target", default="mcm16")
    parser.add_argument("--sigma", type=float, nargs="+", default=[0.2, 0.5])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    given = parser.parse_args(arguments)
    proven = True
    for model in given.models:
        for sigma in given.sigma:
            for seed in given.seeds:
                record = measured(model, given.target, sigma, seed)
                keep(record)
                proven = proven and record["gap"] <= PROVEN
                print(
                    f"{record['target']} {model}, sigma {sigma}, seed {seed}: "
                    f"{record['with_table_s'] * 1e6:.2f} us with the table, "
                    f"{record['gap']:.2%} above its bound; "
                    f"{record['loss']:.1%} more without, {record['simulated_loss']:.1%} simulated",
                    flush=True,
                )
    return 0 if proven else 1


def measured(model: str, target: str, sigma: float, seed: int) -> dict[str, Any]:
    """Both partitions of a model under true times that differ from the roofline's."""
    package = with_cost_model(load_target(target), "roofline", user_files(None))
    blind = compiled(model, package)
    with tempfile.TemporaryDirectory() as folder:
        write_true_times(Path(folder) / TABLE, blind, sigma, seed)
        knowing = with_cost_model(package, f"table{{file={TABLE}}}", user_files(Path(folder)))
    found = compiled(model, knowing)
    partition = PARTITION.get(found)
    without_s, without_simulated_s = periods(found, knowing, PARTITION.get(blind).chip_of)
    with_s, with_simulated_s = periods(found, knowing, partition.chip_of)
    return {
        "model": model,
        "target": target,
        "sigma": sigma,
        "seed": seed,
        "level": LEVEL,
        "kernels": PARTITION_PROBLEM.get(found).num_units,
        "with_table_s": with_s,
        "bound_s": partition.bound.seconds,
        "proof": partition.bound.proof,
        "gap": with_s / partition.bound.seconds - 1.0,
        "without_table_s": without_s,
        "loss": without_s / with_s - 1.0,
        "with_table_simulated_s": with_simulated_s,
        "without_table_simulated_s": without_simulated_s,
        "simulated_loss": without_simulated_s / with_simulated_s - 1.0,
        "versions": {name: metadata.version(name) for name in VERSIONS},
    }


def compiled(model: str, target: Target) -> ir.Model:
    """The model with problem and partition, one pipeline on all chips."""
    options = CompileOptions(level=LEVEL, replicas=1, passes=PASSES)
    return run_passes(model, target, options)[0]


def write_true_times(path: Path, model: ir.Model, sigma: float, seed: int) -> None:
    """Writes a row per kernel that takes time: what the cost model says, times a factor."""
    problem = PARTITION_PROBLEM.get(model)
    factors = np.exp(
        sigma * seeded_generator(seed, "measured times").standard_normal(problem.num_units)
    )
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("kernel", "seconds"))
        for name, seconds, factor in zip(problem.names, problem.compute_s, factors, strict=True):
            if seconds > 0:
                writer.writerow((name, repr(float(seconds * factor))))


def periods(model: ir.Model, target: Target, chip_of: Ints) -> tuple[float, float]:
    """Seconds between inferences of a placement, by the fast model and by the simulator."""
    problem = PARTITION_PROBLEM.get(model)
    groups = FUSION_PLAN.get(model).group_names
    evaluator = required_batch_evaluation_of(target).batch_evaluator(model, problem, groups)
    results = evaluator.evaluate(np.array([chip_of], np.int32))
    return evaluate(problem, chip_of).period_s, float(results.period_s[0])


def recorded() -> list[dict[str, Any]]:
    """All records."""
    return json.loads(DATA.read_text(encoding="utf-8")) if DATA.exists() else []


def keep(record: dict[str, Any]) -> None:
    """Puts a record in the place of the one of the same case."""
    records = [old for old in recorded() if _place(old) != _place(record)]
    records = sorted([*records, record], key=_place)
    DATA.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


def _place(record: dict[str, Any]) -> tuple[str, str, float, int]:
    return record["target"], record["model"], record["sigma"], record["seed"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
