"""What partitions lose where few kernels of a model have a measured time.

For each model of `kernel_times.jsonl` and 4 and 16 chips, the times of the k distinct kernels that
are expected to take longest go into a table, `--cost-model table` completes it, and `dp` places the
model. The loss is the period of that placement under all measured times, over the best one that was
found under them. Targets are `cpu-ring` with more chips, and the same with all engines 3 times too
fast. Each model and number of chips is a line of `tools/reproduce/data/measured_losses.jsonl`.
Prints means in percent with 90 % intervals, by bootstraps over models.

    python -m tools.reproduce.machines.measured_losses
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mcm_compiler.api import run_passes
from mcm_compiler.arrays.randomness import seeded_generator
from mcm_compiler.arrays.types import Floats
from mcm_compiler.components.cost_choice import calibrated, with_cost_model
from mcm_compiler.components.cost_files import held_files
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.partition import PARTITION_PROBLEM, Budget, PartitionProblem
from mcm_compiler.contracts.target import Target
from mcm_compiler.measuring.kernel_times import KernelTime, kernel_name
from mcm_compiler.measuring.times_files import times_text
from mcm_compiler.options import CompileOptions
from mcm_compiler.variants.sensitivities import changed_target, value_of
from mcm_hardware.chip.calibration import KEYS
from mcm_passes.mapping.models import periods_of
from mcm_passes.mapping.problem.measured_names import planned_kernels
from mcm_passes.mapping.search.named import strategy_of
from mcm_passes.mapping.solving.solve import solve
from tools.kept_records import KeptRecords, Record, digest_of
from tools.reproduce.machines.kernel_times import TARGET, kept

DATA = Path(__file__).parents[1] / "data" / "measured_losses.jsonl"
CHIPS = 4, 16
KNOWN = 0, 3, 10, 20
"""Distinct kernels that were measured."""

CASES = {
    "as described": (1.0, ""),
    "3 times too fast": (3.0, ""),
    "3 times too fast, the rest not calibrated": (3.0, ",factor=1"),
}
"""By how much the engines of the target are too fast, and options of `table`."""

PASSES = "simplify,fuse,annotate_cost,partition"
STRATEGY = "dp"
DRAWS = 2_000


def main() -> int:
    """Places what is not there yet, and prints the means."""
    records = KeptRecords(DATA, "code")
    found: list[Record] = []
    for times in kept():
        for chips in CHIPS:
            key = digest_of(times["key"], chips, KNOWN, CASES, STRATEGY)
            if records.find(key) is None:
                periods = Study(times, chips).periods()
                records.keep({"key": key, "model": times["model"], "chips": chips, **periods})
            found += filter(None, [records.find(key)])
    print(json.dumps({name: row for chips in CHIPS for name, row in summary(found, chips)}))
    return 0


class Study:
    """A model with all its measured times on a number of chips.

    Args:
        times: record of the model.
        chips: of the ring.
    """

    def __init__(self, times: Record, chips: int) -> None:
        self._times = times
        self._target = changed_target(load_target(TARGET), {"package.num_chips": chips}).target
        options = CompileOptions(level=0, replicas=1, round=1, passes=PASSES)
        model, _, _ = run_passes(times["model"], self._target, options)
        self._problem = PARTITION_PROBLEM.get(model)
        self._kernels = planned_kernels(model.graph, FUSION_PLAN.get(model))
        measured_s = dict(zip(times["names"], times["seconds"], strict=True))
        all_s = np.array([measured_s[kernel_name(nodes)] for nodes in self._kernels])
        self._measured = self._with(all_s)

    def periods(self) -> Record:
        """Periods under all measured times, by target and number of measured kernels."""
        best_s = self._period_s(self._measured)
        found = {
            name: [self._period_s(self._with(self._known_s(*case, k))) for k in KNOWN]
            for name, case in CASES.items()
        }
        return {"best_s": min(best_s, *(min(each) for each in found.values())), "periods": found}

    def _known_s(self, factor: float, options: str, count: int) -> Floats:
        target: Target = self._target
        if factor != 1.0:
            numbers = {key: float(str(value_of(target, key))) for key in KEYS}
            changes = {key: numbers[key] * factor**-power for key, power in KEYS.items()}
            target = changed_target(target, changes).target
        if count:
            table = held_files({"times.csv": self._table(count).encode()})
            target = with_cost_model(target, f"table{{file=times.csv{options}}}", table)
            target = calibrated(target, self._kernels)
        costs = target.cost_model()
        return np.array([costs.group_cost(nodes).seconds for nodes in self._kernels])

    def _table(self, count: int) -> str:
        """Rows of all kernels of the distinct ones with the longest computed times."""
        kinds, distinct = np.array(self._times["kind"]), self._times["distinct"]
        expected_s = np.bincount(kinds) * np.array([one[-1] for one in distinct])
        known = set(np.argsort(-expected_s, kind="stable")[:count].tolist())
        columns = (self._times[name] for name in ("names", "kind", "seconds", "spread"))
        rows = [
            KernelTime(name, seconds, spread, 1)
            for name, kind, seconds, spread in zip(*columns, strict=True)
            if kind in known and seconds > 0.0
        ]
        return times_text(rows, "here")

    def _with(self, kernel_s: Floats) -> PartitionProblem:
        unit_of = {op: unit for unit, ops in enumerate(self._problem.members) for op in ops}
        units = [unit_of[nodes[0].name or ""] for nodes in self._kernels]
        seconds = np.bincount(units, kernel_s, self._problem.num_units)
        return replace(self._problem, compute_s=seconds)

    def _period_s(self, problem: PartitionProblem) -> float:
        found = solve(
            problem, strategy_of(STRATEGY), seeded_generator(0, STRATEGY), Budget(),
            strategy_text=STRATEGY, cost_model="table",
        )  # fmt: skip
        return float(periods_of(self._measured)(found.chip_of))


def summary(records: Sequence[Mapping[str, Any]], chips: int) -> Iterator[tuple[str, list[str]]]:
    """Losses by target, and how they differ from those with no measured kernel."""
    rows = [one for one in records if one["chips"] == chips]
    draws = seeded_generator(0, "losses").integers(0, len(rows), (DRAWS, len(rows)))
    for case in CASES:
        periods = np.array([one["periods"][case] for one in rows])
        losses = 100.0 * (periods / np.array([[one["best_s"]] for one in rows]) - 1.0)
        for name, values in (("loss", losses), ("change", losses - losses[:, :1])):
            low, high = np.percentile(values[draws].mean(axis=1), (5, 95), axis=0)
            cells = [
                f"{mean:.1f} [{lower:.1f}, {upper:.1f}]"
                for mean, lower, upper in zip(values.mean(axis=0), low, high, strict=True)
            ]
            yield f"{len(rows)} models, {chips} chips, {case}: {name}", cells


if __name__ == "__main__":
    sys.exit(main())
