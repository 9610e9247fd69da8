"""Predicted and measured periods of random partitions on a ring of processes of this machine.

Each model is cut in two or four at random places of random topological orders, compiled, and run
as by `mcmc run --pipelined`. Kernels are measured once, in place, in the session of the whole
model; a chip is predicted to take the sum of its kernels. Periods are CPU seconds, so that other
work on the machine matters little. Each partition is a line of
`tools/reproduce/data/ring_periods.jsonl`; those that are there are not measured again.

    python -m tools.reproduce.machines.ring_periods
    python -m tools.reproduce.machines.ring_periods --chips 4 --partitions 20 zoo:branched-cnn

A summary is printed. `tools.reproduce.machines.ring_page` writes the page about all.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mcm_compiler import CompileOptions
from mcm_compiler.api import compile_model, run_passes
from mcm_compiler.arrays.randomness import seeded_generator
from mcm_compiler.artifact import layout
from mcm_compiler.artifact.emit import folder_manifest
from mcm_compiler.checking.entry.gate import OpenedFolder, open_folder
from mcm_compiler.checking.entry.run_pipelined import PipelinedRun, run_pipelined
from mcm_compiler.components.target_loading import described, load_target
from mcm_compiler.contracts.chips import CHIP_MODELS, WIRES, is_relay, kernels_of
from mcm_compiler.contracts.partition import PARTITION, PARTITION_PROBLEM, PartitionProblem
from mcm_compiler.contracts.target import ChipModel
from mcm_compiler.execution.inputs import random_inputs
from mcm_compiler.graph.source import SOURCE
from mcm_compiler.ir.rewriting.writer import large_tensors, write_data, write_with_data
from mcm_compiler.measuring.busy_times import busy_of, updated_times
from mcm_compiler.measuring.kernel_times import kernel_name, measure_folder
from mcm_compiler.measuring.measurement import device_of
from mcm_compiler.measuring.times_files import machine_facts
from mcm_compiler.options import DEFAULT_PIPELINE
from mcm_compiler.pipeline.pass_manager import PassManager
from mcm_compiler.pipeline.passes import PassContext, parse_pipeline
from mcm_compiler.processes.staging import StagingFolder
from mcm_compiler.variants.prepared_model import kept_copy
from tools.kept_records import KeptRecords, Record, digest_of

DATA = Path(__file__).parents[1] / "data" / "ring_periods.jsonl"
MODELS = (
    "zoo:gpt2-tiny{seq=128}",
    "zoo:residual-cnn{image_size=32,width=32}",
    "zoo:branched-cnn",
    "zoo:mobilenet-v2{image_size=64}",
)
TARGET = "cpu-ring"
CHIPS = 2
"""Of the target."""

PASSES = "simplify,fuse,annotate_cost,partition"
SHARES = 0.15, 0.85
"""Of the work: each cut of the order is between them."""

PARTITIONS = 40
INFERENCES = 240
ENOUGH_S = 1.0
"""CPU seconds of one process, after which a slow model runs fewer inferences."""

BUSY = 1, 10
"""Partitions whose busy times correct those of the roofline."""

BUSY_FIGURES = ("rank correlation", "level", "error")
"""Of the other partitions, as medians over the first one of those."""

QUIET = 0.05
"""Repeat error of a measurement that is not made again."""

WEIGHTS = "weights.data"
"""File of all large weights, which the models of chips refer to."""

FIGURES = ("period_cpu_s", "period_wall_s", "repeat_error", "load", "outputs_equal")
"""Of the data of a run."""

PLAIN = CompileOptions(level=0, replicas=1, round=1)


def main(arguments: list[str]) -> int:
    """Measures what is not there yet, and prints a summary."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    parser.add_argument("--chips", type=int, default=CHIPS)
    given = parser.parse_args(arguments)
    records = KeptRecords(DATA, "code")
    for model in given.models:
        measure(model, given.chips, given.partitions, records)
        one = kept(records)[model, given.chips]
        found = {"model": model, "chips": given.chips, **summary(one), **busy_summary(one)}
        print(json.dumps(found, indent=1), flush=True)
    return 0


def kept(records: KeptRecords) -> dict[tuple[str, int], list[Record]]:
    """By model and number of chips: the record of the model, and one for each partition."""
    found: dict[tuple[str, int], list[Record]] = {}
    for chips in CHIPS, 2 * CHIPS:
        for model in MODELS:
            cuts = [_key(model, chips, seed) for seed in range(PARTITIONS)]
            keys = [digest_of(model, TARGET), *cuts]
            one = [record for key in keys if (record := records.find(key)) is not None]
            if len(one) > 1:
                found[model, chips] = one
    return found


def _key(model: str, chips: int, seed: int) -> str:
    more = () if chips == CHIPS else (chips,)
    return digest_of(model, TARGET, seed, SHARES, *more)


def measure(model: str, chips: int, partitions: int, records: KeptRecords) -> None:
    """Measures the partitions of a model that have no record."""
    cuts = {seed: _key(model, chips, seed) for seed in range(partitions)}
    keys = [digest_of(model, TARGET), *cuts.values()]
    if all(records.find(key) is not None for key in keys):
        return
    with tempfile.TemporaryDirectory() as scratch:
        whole = Run(model, chips, Path(scratch), records)
        for seed, key in cuts.items():
            if records.find(key) is None:
                record = whole.record(random_chips(whole.problem, chips, seed))
                records.keep({"key": key, "model": model, "seed": seed, **record})


class Run:
    """A model on this machine: its kernels in place, and partitions of it.

    Args:
        model: of the zoo.
        chips: of the target.
        scratch: folder for what is compiled.
        records: get one of the model, with the times of its kernels.
        enough_s: CPU seconds of one process that a measurement of a partition takes; by default
            those of a number of inferences.

    Attributes:
        problem: of partitioning the model.
        kernel_s: times of kernels in the session of the whole model.
        period_s: of one process with the whole model.
    """

    def __init__(
        self, model: str, chips: int, scratch: Path, records: KeptRecords, enough_s: float = 0.0
    ) -> None:
        self._folder = scratch / "chips"
        self._folder.mkdir()
        text = load_target(TARGET).source_text
        ring, whole = scratch / "ring.toml", scratch / "whole.csv"
        ring.write_text(text.replace(f"num_chips = {CHIPS}", f"num_chips = {chips}"))
        self._target = described(load_target(str(ring)), PLAIN)
        whole.write_text("name,chip\n*,0\n")
        passes = DEFAULT_PIPELINE.removesuffix(",verify")
        given = replace(options(passes), assignment=str(whole))
        compile_model(model, self._target, given, output=scratch / "whole")
        one = open_folder(scratch / "whole")
        self._inputs = random_inputs(one.source, 0)
        self._prepared, _, _ = run_passes(model, self._target, options(PASSES))
        self.problem = PARTITION_PROBLEM.get(self._prepared)
        self._weights = write_data(large_tensors(self._prepared), self._folder / WEIGHTS)
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
        record = records.find(key) or {}
        self.kernel_s = {kernel[0]: float(kernel[_IN_PLACE]) for kernel in record["kernels"]}
        self.period_s = float(record["period_s"])
        self._names = [*self.kernel_s]
        self._inferences = min(INFERENCES, int(ENOUGH_S / self.period_s))
        if enough_s:
            self._inferences = int(enough_s / self.period_s)

    def record(self, chip_of: Mapping[str, int], tries: int = 1) -> Record:
        """Measured times of one partition, and how often each chip runs each kernel.

        The fastest of some tries, of which one with a small repeat error is the last.
        """
        opened = self.split(chip_of)
        runs: list[PipelinedRun] = []
        while len(runs) < tries and not (runs and runs[-1].data["repeat_error"] <= QUIET):
            runs.append(run_pipelined(opened, self._inputs, inferences=self._inferences))
        run = min(runs, key=lambda one: one.data["period_cpu_s"])
        rows = run.data["chips"]
        return {
            "chips": [self._counts(chip) for chip in opened.chips],
            "at": [row["chip"] for row in rows],
            "busy_s": [row["busy_s"] for row in rows],
            "noise": [row["repeat_error"] for row in rows],
            **{name: run.data[name] for name in FIGURES},
        }

    def _counts(self, chip: ChipModel) -> str:
        kernels = kernels_of(node for node in chip.model.graph if not is_relay(node))
        counts = Counter(map(kernel_name, kernels))
        return "".join(str(counts[name]) for name in self._names)

    def split(self, chip_of: Mapping[str, int]) -> OpenedFolder:
        """A folder with the models of chips, from passes behind the partition alone.

        Its models are those of the last call.
        """
        model = kept_copy(self._prepared)
        problem = PARTITION_PROBLEM.get(model)
        chips = np.array([chip_of[name] for name in problem.names], np.int32)
        PARTITION.set(model, replace(PARTITION.get(model), chip_of=chips))
        found = options("legalize,split")
        target, folder = self._target, StagingFolder(self._folder, None)
        PassManager(parse_pipeline(found.passes)).run(
            model, PassContext(target, found, folder, lambda _: None), (CHIP_MODELS, WIRES)
        )
        made, source = CHIP_MODELS.get(model), SOURCE.get(model)
        manifest = folder_manifest(source, made, WIRES.get(model), target, found, found.passes)
        for chip in made:
            file = self._folder / layout.chip_file(chip.chip)
            write_with_data(chip.model, file, None, self._weights)
        opened = OpenedFolder(self._folder, replace(manifest, files={WEIGHTS: ""}))
        vars(opened)["chips"] = made  # else they are read from their files
        return opened


def options(passes: str) -> CompileOptions:
    """One pipeline, and no op divided."""
    return replace(PLAIN, passes=passes)


def random_chips(problem: PartitionProblem, chips: int, seed: int) -> dict[str, int]:
    """Chips of units: a random topological order, cut at random shares of the work."""
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
    shares, ends = np.sort(rng.uniform(*SHARES, chips - 1)), [-1]
    for chip, end in enumerate(np.searchsorted(work, shares * work[-1])):
        ends.append(min(max(int(end), ends[-1] + 1), len(order) - chips + chip))
    return {
        problem.names[unit]: sum(place > end for end in ends[1:])
        for place, unit in enumerate(order)
    }


_PRIOR, _IN_PLACE = 2, 3
"""Where the record of a kernel has its times under the roofline, and as measured."""


def predicted_and_measured(
    records: Sequence[Record], times: int = _IN_PLACE
) -> tuple[np.ndarray, np.ndarray]:
    """Periods of all partitions of a model."""
    whole, *cuts = records
    kernel_s = np.array([kernel[times] for kernel in whole["kernels"]])
    return (_counts(cuts) @ kernel_s).max(axis=1), np.array([one["period_cpu_s"] for one in cuts])


def _counts(cuts: Sequence[Record]) -> np.ndarray:
    """`[partitions, chips, kernels]`, how often each runs."""
    return np.array([[list(map(float, chip)) for chip in one["chips"]] for one in cuts])


def summary(records: Sequence[Record]) -> dict[str, float]:
    """Correlations and errors of predictions."""
    whole, *cuts = records
    period_s = predicted_and_measured(records)[1]
    found: dict[str, float] = {"partitions": len(cuts)}
    for name, times in (("in place", _IN_PLACE), ("roofline", _PRIOR)):
        predicted_s, _ = predicted_and_measured(records, times)
        level = float(np.median(period_s / predicted_s))
        error = np.median(abs(level * predicted_s / period_s - 1.0))
        found[f"{name}: rank correlation"] = spearman(predicted_s, period_s)
        found[f"{name}: level"] = level
        found[f"{name}: error"] = float(error)
    found["best over one process"] = float(whole["period_s"] / period_s.min())
    found["repeat error"] = float(np.median([one["repeat_error"] for one in cuts]))
    found["outputs equal"] = all(one["outputs_equal"] for one in cuts)
    return {name: round(value, 3) for name, value in found.items()}


def busy_summary(records: Sequence[Record]) -> dict[str, float]:
    """Correlations and errors of predictions by the roofline, corrected by busy times."""
    whole, *cuts = records
    kinds = [kernel[1] for kernel in whole["kernels"]]
    prior_s = np.array([kernel[_PRIOR] for kernel in whole["kernels"]])
    counts, found = _counts(cuts), dict[str, float]()
    busy_s, noise = (np.array([one[name] for one in cuts]) for name in ("busy_s", "noise"))
    for many in (count for count in BUSY if len(cuts) > count):
        rows: list[tuple[float, float, float]] = []
        for first in range(len(cuts)):
            seen = np.isin(np.arange(len(cuts)), np.arange(first, first + many) % len(cuts))
            kernel_s, _ = updated_times(
                prior_s,
                kinds,
                counts[seen].reshape(-1, len(kinds)),
                busy_s[seen].ravel(),
                noise[seen].ravel(),
            )
            predicted_s, true_s = (counts[~seen] @ kernel_s).max(axis=1), busy_s[~seen].max(axis=1)
            ratios = predicted_s / true_s
            level, error = abs(np.median(ratios) - 1.0), np.median(abs(ratios - 1.0))
            rows.append((spearman(predicted_s, true_s), float(level), float(error)))
        names = (f"busy times of {many}: {figure}" for figure in BUSY_FIGURES)
        found.update(zip(names, np.median(rows, axis=0).tolist(), strict=True))
    return {name: round(value, 3) for name, value in found.items()}


def spearman(left: np.ndarray, right: np.ndarray) -> float:
    """Correlation of ranks; ties in their order."""
    ranks: list[Any] = [np.argsort(np.argsort(one)) for one in (left, right)]
    return float(np.corrcoef(*ranks)[0, 1])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
