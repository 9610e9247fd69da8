"""What partitions lose where few kernels of a model have a measured time.

For each model of `kernel_times.jsonl` and 4 and 16 chips, the times of k distinct kernels go into a
table, `--cost-model table` completes it, and `dp` places the model. The loss is the period of that
placement under all measured times, over the best one that was found under them. `CASES` are about
`cpu-ring` with more chips, with all engines 3 times too fast, and calibrated by other models of
the machine. For that, the models are in `FOLDS` parts, and the others are all of the other parts.
Each model and number of chips is a line of `tools/reproduce/data/measured_losses.jsonl`.
Prints means in percent with 90 % intervals, by bootstraps over models.

    python -m tools.reproduce.machines.measured_losses
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np

from mcm_compiler.api import run_passes
from mcm_compiler.arrays.randomness import seeded_generator
from mcm_compiler.arrays.types import Floats
from mcm_compiler.components.cost_choice import calibrated, with_cost_model
from mcm_compiler.components.cost_files import held_files
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.contracts.cost import CalibratesCosts, MeasuredKernels
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.partition import PARTITION_PROBLEM, Budget, PartitionProblem
from mcm_compiler.contracts.target import Target
from mcm_compiler.measuring.kernel_times import KernelTime, kernel_name
from mcm_compiler.measuring.lone_kernels import KernelBudget
from mcm_compiler.measuring.times_files import times_text
from mcm_compiler.options import CompileOptions
from mcm_compiler.variants.sensitivities import changed_target, value_of
from mcm_hardware.chip.calibration import KEYS
from mcm_hardware.chip.roofline import Roofline
from mcm_hardware.measured_times.learned_times import known_kernels
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

FOLDS = 7


@dataclass(frozen=True)
class Case:
    """A target, and what its unmeasured kernels get their times from.

    Attributes:
        factor: by how much its engines are too fast.
        options: of `table`.
        is_known: whether it was calibrated by other models.
        learns: whether times of their kernels correct the calibrated ones, once rows are there.
        chooses: whether the kernels that the time may be off by most are measured next, after each
            one; otherwise those that are expected to take longest.
    """

    factor: float = 1.0
    options: str = ""
    is_known: bool = False
    learns: bool = False
    chooses: bool = False


CASES = {
    "as described": Case(),
    "3 times too fast": Case(3.0),
    "3 times too fast, the rest not calibrated": Case(3.0, ",factor=1"),
    "known": Case(is_known=True),
    "learned": Case(is_known=True, learns=True),
    "learned, active choice": Case(is_known=True, learns=True, chooses=True),
}

PASSES = "simplify,fuse,annotate_cost,partition"
OPTIONS = CompileOptions(level=0, replicas=1, round=1, passes=PASSES)
STRATEGY = "dp"
DRAWS = 2_000
MACHINE = "here"


def main() -> int:
    """Places what is not there yet, and prints the means."""
    records = KeptRecords(DATA, "code")
    keys = {
        (number, chips): digest_of(times["key"], chips, KNOWN, FOLDS, CASES, STRATEGY)
        for number, times in enumerate(kept())
        for chips in CHIPS
    }
    missing = [place for place, key in keys.items() if records.find(key) is None]
    if missing:
        models = [Model(times) for times in kept()]
        for fold in sorted({number % FOLDS for number, _ in missing}):
            others = Others([model for n, model in enumerate(models) if n % FOLDS != fold])
            for number, chips in missing:
                if number % FOLDS == fold:
                    model = models[number]
                    record = {"key": keys[number, chips], "model": model.name, "chips": chips}
                    records.keep({**record, **periods(model, others, chips)})
    found = [one for key in keys.values() if (one := records.find(key)) is not None]
    print(json.dumps({name: row for chips in CHIPS for name, row in summary(found, chips)}))
    return 0


class Model:
    """A model with all its measured times.

    Args:
        times: its record.
    """

    def __init__(self, times: Record) -> None:
        self.name = str(times["model"])
        target = load_target(TARGET)
        model, _, _ = run_passes(self.name, target, replace(OPTIONS, passes="simplify,fuse"))
        kernels = planned_kernels(model.graph, FUSION_PLAN.get(model))
        self.kernels = {kernel_name(nodes): nodes for nodes in kernels}
        columns = (times[name] for name in ("names", "kind", "seconds", "spread"))
        self._rows = {name: row for name, *row in zip(*columns, strict=True)}
        self.all_s = np.array([self._rows[name][1] for name in self.kernels])
        self._seconds: dict[Case, list[Floats]] = {}

    @property
    def measured(self) -> MeasuredKernels:
        """All kernels with their seconds."""
        return [(nodes, self._rows[name][1]) for name, nodes in self.kernels.items()]

    def seconds(self, case: Case, others: Others) -> list[Floats]:
        """Times of all kernels after some were measured, by the numbers of `KNOWN`."""
        if case not in self._seconds:
            target = others.target if case.is_known else load_target(TARGET)
            target = _scaled(target, {key: case.factor**-power for key, power in KEYS.items()})
            order = self._chosen(target, others) if case.chooses else self._longest(target)
            self._seconds[case] = [
                self._completed(case, target, others, [name for some in order[:k] for name in some])
                for k in KNOWN
            ]
        return self._seconds[case]

    def table(self, names: Sequence[str]) -> bytes:
        """Rows of some kernels; those that the runtime left out have none."""
        rows = [(name, self._rows[name]) for name in names]
        times = [KernelTime(name, s, spread, 1) for name, (_, s, spread) in rows if s > 0.0]
        return times_text(times, MACHINE).encode()

    def _longest(self, target: Target) -> list[list[str]]:
        """Names of distinct kernels, those with the longest computed times first."""
        alike: dict[int, list[str]] = {}
        for name in self.kernels:
            alike.setdefault(self._rows[name][0], []).append(name)
        costs = target.cost_model()
        expected_s = {
            kind: sum(costs.group_cost(self.kernels[name]).seconds for name in names)
            for kind, names in alike.items()
        }
        return [alike[kind] for kind in sorted(alike, key=lambda kind: -expected_s[kind])]

    def _chosen(self, target: Target, others: Others) -> list[list[str]]:
        """Names of distinct kernels in the order in which `mcmc measure --most` takes them."""
        measured_s: dict[str, float] = {}
        chosen: list[list[str]] = []
        budget = KernelBudget(max(KNOWN), MACHINE, others.known)
        for names in budget.chosen(self.kernels, measured_s, target):
            chosen.append(names)
            rows = {name: self._rows[name][1] for name in names}
            measured_s.update({name: seconds for name, seconds in rows.items() if seconds > 0.0})
        return chosen

    def _completed(
        self, case: Case, target: Target, others: Others, names: Sequence[str]
    ) -> Floats:
        if names:
            files, options = {"times.csv": self.table(names)}, case.options
            if case.learns:
                files["known.json"], options = others.known, ",known=known.json"
            text = f"table{{file=times.csv{options}}}"
            target = with_cost_model(target, text, held_files(files))
            target = calibrated(target, self.kernels.values())
        costs = target.cost_model()
        return np.array([costs.group_cost(nodes).seconds for nodes in self.kernels.values()])


class Others:
    """What models teach about the machine that they were measured on.

    Args:
        models: with measured times.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        self._models = models

    @cached_property
    def target(self) -> Target:
        """`cpu-ring` as `mcmc calibrate` writes it."""
        first = self._models[0]
        table = held_files({"times.csv": first.table(list(first.kernels))})
        own = load_target(TARGET)
        costs = with_cost_model(own, "table{file=times.csv}", table).cost_model()
        fit = cast("CalibratesCosts", costs).calibration(
            [[one for model in self._models for one in model.measured]]
        )
        return own if fit is None else _scaled(own, fit.changes)

    @cached_property
    def known(self) -> bytes:
        """The file of their kernels."""
        own = cast("Roofline", self.target.cost_model())
        return known_kernels(own, [model.measured for model in self._models], MACHINE).encoded()


def _scaled(target: Target, factors: Mapping[str, float]) -> Target:
    numbers = {key: float(str(value_of(target, key))) for key in factors}
    changes = {key: numbers[key] * factor for key, factor in factors.items() if factor != 1.0}
    return changed_target(target, changes).target if changes else target


def periods(model: Model, others: Others, chips: int) -> Record:
    """Periods under all measured times, by case and number of measured kernels."""
    target = changed_target(load_target(TARGET), {"package.num_chips": chips}).target
    problem = PARTITION_PROBLEM.get(run_passes(model.name, target, OPTIONS)[0])
    unit_of = {op: unit for unit, ops in enumerate(problem.members) for op in ops}
    units = [unit_of[nodes[0].name or ""] for nodes in model.kernels.values()]

    def under(kernel_s: Floats) -> PartitionProblem:
        return replace(problem, compute_s=np.bincount(units, kernel_s, problem.num_units))

    measured = under(model.all_s)
    period_of = periods_of(measured)

    def period_s(kernel_s: Floats) -> float:
        found = solve(
            under(kernel_s), strategy_of(STRATEGY), seeded_generator(0, STRATEGY), Budget(),
            strategy_text=STRATEGY,
        )  # fmt: skip
        return float(period_of(found.chip_of))

    found = {
        name: [period_s(kernel_s) for kernel_s in model.seconds(case, others)]
        for name, case in CASES.items()
    }
    best_s = min(period_s(model.all_s), *(min(each) for each in found.values()))
    return {"best_s": best_s, "periods": found}


def summary(records: Sequence[Mapping[str, Any]], chips: int) -> Iterator[tuple[str, list[str]]]:
    """Losses by case, and how they differ from those with no measured kernel and of `known`."""
    rows = [one for one in records if one["chips"] == chips]
    draws = seeded_generator(0, "losses").integers(0, len(rows), (DRAWS, len(rows)))
    best_s = np.array([[one["best_s"]] for one in rows])
    by_case = {
        case: 100.0 * (np.array([one["periods"][case] for one in rows]) / best_s - 1.0)
        for case in CASES
    }
    for case, losses in by_case.items():
        differences = {"change": losses - losses[:, :1], "over known": losses - by_case["known"]}
        for name, values in {"loss": losses, **differences}.items():
            low, high = np.percentile(values[draws].mean(axis=1), (5, 95), axis=0)
            cells = [
                f"{mean:.1f} [{lower:.1f}, {upper:.1f}]"
                for mean, lower, upper in zip(values.mean(axis=0), low, high, strict=True)
            ]
            yield f"{len(rows)} models, {chips} chips, {case}: {name}", cells


if __name__ == "__main__":
    sys.exit(main())
