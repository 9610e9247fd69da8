"""Predicted and measured periods of random partitions on a ring of processes of this machine.

Each model is cut in two at random places of random topological orders, compiled, and run as by
`mcmc run --pipelined`. Kernels are measured once, in place, in the session of the whole model; a
chip is predicted to take the sum of its kernels. Periods are CPU seconds, so that other work on the
machine matters little. Each partition is a line of `tools/reproduce/data/ring_periods.jsonl`; those
that are there are not measured again. A summary of all lines is printed.

    python -m tools.reproduce.machines.ring_periods
    python -m tools.reproduce.machines.ring_periods --partitions 10 "zoo:gpt2-tiny{seq=128}"
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mcm_compiler import CompileOptions
from mcm_compiler.api import compile_model, run_passes
from mcm_compiler.arrays.randomness import seeded_generator
from mcm_compiler.checking.entry.gate import open_folder
from mcm_compiler.checking.entry.run_pipelined import run_pipelined
from mcm_compiler.contracts.partition import PARTITION_PROBLEM, PartitionProblem
from mcm_compiler.execution.inputs import random_inputs
from mcm_compiler.measuring.busy_times import busy_of
from mcm_compiler.measuring.busy_updates import updated_times
from mcm_compiler.measuring.kernel_times import measure_folder
from mcm_compiler.measuring.measurement import device_of
from mcm_compiler.measuring.times_files import machine_facts
from mcm_compiler.options import DEFAULT_PIPELINE
from tools.kept_records import KeptRecords, Record, digest_of

DATA = Path(__file__).parents[1] / "data" / "ring_periods.jsonl"
MODELS = (
    "zoo:gpt2-tiny{seq=128}",
    "zoo:residual-cnn{image_size=32,width=32}",
    "zoo:branched-cnn",
    "zoo:mobilenet-v2{image_size=64}",
)
TARGET = "cpu-ring"
PASSES = "simplify,fuse,annotate_cost,partition"
SHARES = 0.15, 0.85
"""Of the work: the first chip gets a part between them."""

INFERENCES = 240

FIGURES = ("period_cpu_s", "period_wall_s", "repeat_error", "load", "outputs_equal")
"""Of the data of a run."""

PLAIN = CompileOptions(level=0, replicas=1, round=1)


def main(arguments: list[str]) -> int:
    """Measures what is not there yet, and prints a summary."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--partitions", type=int, default=40)
    given = parser.parse_args(arguments)
    records = KeptRecords(DATA, "code")
    for model in given.models:
        found = measured(model, given.partitions, records)
        print(json.dumps({"model": model, **summary(found)}, indent=1), flush=True)
    return 0


def measured(model: str, partitions: int, records: KeptRecords) -> list[Record]:
    """The record of a model, and one for each of its partitions."""
    cuts = [digest_of(model, TARGET, seed, SHARES) for seed in range(partitions)]
    keys = [digest_of(model, TARGET), *cuts]
    if any(records.find(key) is None for key in keys):
        with tempfile.TemporaryDirectory() as scratch:
            whole = Run(model, Path(scratch), records)
            problem = PARTITION_PROBLEM.get(run_passes(model, TARGET, options(PASSES))[0])
            for seed, key in enumerate(cuts):
                if records.find(key) is None:
                    record = whole.record(f"cut-{seed}", first_chip(problem, seed))
                    records.keep({"key": key, "model": model, "seed": seed, **record})
    return [record for key in keys if (record := records.find(key)) is not None]


class Run:
    """A model on this machine: its kernels in place, and partitions of it.

    Args:
        model: of the zoo.
        scratch: folder for what is compiled.
        records: get one of the model, with the times of its kernels.
    """

    def __init__(self, model: str, scratch: Path, records: KeptRecords) -> None:
        self._model, self._scratch = model, scratch
        one = open_folder(self._compiled("whole", {"*": 0}))
        self._inputs = random_inputs(one.source, 0)
        key = digest_of(model, TARGET)
        if records.find(key) is None:
            device = device_of(one.target, None)
            in_place = {k.kernel: k.seconds for k in measure_folder(one, device).kernels}
            run = run_pipelined(one.path, self._inputs, inferences=INFERENCES)
            busy = busy_of(one, run.data, {})
            kernels = [
                (name, prior.kind, prior.seconds, in_place.get(name, 0.0))
                for name, prior in busy.kernels.items()
            ]
            machine = machine_facts(device)
            period_s = run.data["period_cpu_s"]
            records.keep(
                {"key": key, "model": model, "machine": machine, "period_s": period_s,
                 "kernels": kernels}
            )  # fmt: skip
        self._names = [kernel[0] for kernel in (records.find(key) or {})["kernels"]]

    def record(self, name: str, chip_of: Mapping[str, int]) -> Record:
        """Measured times of one partition, and how often each chip runs each kernel."""
        opened = open_folder(self._compiled(name, chip_of))
        run = run_pipelined(opened.path, self._inputs, inferences=INFERENCES)
        chips = busy_of(opened, run.data, {}).chips
        shutil.rmtree(opened.path)
        return {
            "chips": ["".join(str(c.kernels.get(name, 0)) for name in self._names) for c in chips],
            "busy_s": [chip.seconds for chip in chips],
            "noise": [chip.repeat_error for chip in chips],
            **{name: run.data[name] for name in FIGURES},
        }

    def _compiled(self, name: str, chip_of: Mapping[str, int]) -> Path:
        assignment = self._scratch / f"{name}.csv"
        with assignment.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("name", "chip"), *chip_of.items()])
        folder = self._scratch / name
        compile_model(self._model, TARGET, options(assignment=str(assignment)), output=folder)
        return folder


def options(
    passes: str = DEFAULT_PIPELINE.removesuffix(",verify"), assignment: str | None = None
) -> CompileOptions:
    """One pipeline, and no op divided."""
    return replace(PLAIN, passes=passes, assignment=assignment)


def first_chip(problem: PartitionProblem, seed: int) -> dict[str, int]:
    """Chips of units: a random topological order, cut at a random share of the work."""
    rng = seeded_generator(seed, "ring periods")
    readers = [set[int]() for _ in problem.names]
    waits = np.zeros(problem.num_units, int)
    for tensor, producer in enumerate(problem.tensor_producer):
        if producer >= 0:
            ends = problem.tensor_ptr[tensor : tensor + 2]
            readers[producer].update(map(int, problem.tensor_consumers[ends[0] : ends[1]]))
    for of_one in readers:
        waits[list(of_one)] += 1
    urge = rng.random(problem.num_units)
    ready: list[int] = np.flatnonzero(waits == 0).tolist()
    order: list[int] = []
    while ready:
        unit = ready.pop(int(np.argmin(urge[ready])))
        order.append(unit)
        for reader in readers[unit]:
            waits[reader] -= 1
            if waits[reader] == 0:
                ready.append(reader)
    work = np.cumsum(problem.compute_s[order])
    cut = min(int(np.searchsorted(work, rng.uniform(*SHARES) * work[-1])), len(order) - 2)
    return {problem.names[unit]: int(place > cut) for place, unit in enumerate(order)}


def summary(records: Sequence[Record]) -> dict[str, float]:
    """Correlations and errors of predictions, and what busy times bring."""
    whole, *cuts = records
    period_s = np.array([one["period_cpu_s"] for one in cuts])
    kinds = [kernel[1] for kernel in whole["kernels"]]
    prior_s, in_place_s = (np.array([k[n] for k in whole["kernels"]]) for n in (2, 3))
    counts = np.array([[list(map(float, chip)) for chip in one["chips"]] for one in cuts])
    found: dict[str, float] = {"partitions": len(cuts)}
    for name, kernel_s in (("in place", in_place_s), ("roofline", prior_s)):
        predicted_s = (counts @ kernel_s).max(axis=1)
        level = float(np.median(period_s / predicted_s))
        error = np.median(abs(level * predicted_s / period_s - 1.0))
        found[f"{name}: rank correlation"] = spearman(predicted_s, period_s)
        found[f"{name}: level"] = level
        found[f"{name}: error"] = float(error)
    busy_s, noise = (np.array([one[name] for one in cuts]) for name in ("busy_s", "noise"))
    for many in (count for count in (1, 10) if len(cuts) > count):
        seen, later = counts[:many].reshape(-1, len(kinds)), counts[many:]
        kernel_s, _ = updated_times(
            prior_s, kinds, seen, busy_s[:many].ravel(), noise[:many].ravel()
        )
        predicted_s, true_s = (later @ kernel_s).max(axis=1), busy_s[many:].max(axis=1)
        found[f"busy times of {many}: rank correlation"] = spearman(predicted_s, true_s)
        found[f"busy times of {many}: error"] = float(np.median(abs(predicted_s / true_s - 1.0)))
    found["best over one process"] = float(whole["period_s"] / period_s.min())
    found["repeat error"] = float(np.median([one["repeat_error"] for one in cuts]))
    found["outputs equal"] = all(one["outputs_equal"] for one in cuts)
    return {name: round(value, 3) for name, value in found.items()}


def spearman(left: np.ndarray, right: np.ndarray) -> float:
    """Correlation of ranks; ties in their order."""
    ranks: list[Any] = [np.argsort(np.argsort(one)) for one in (left, right)]
    return float(np.corrcoef(*ranks)[0, 1])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
