"""Searches whose every sample is measured on a ring of processes, and what they found.

`tools/reproduce/mcm_ring.py` runs them. A partition is measured once, whoever asks for it first;
the file has a line for each of them, and one for each search.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mcm_compiler.arrays.types import Ints
from mcm_compiler.contracts.evaluation import BatchResults, ResultKind
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.text.units import count_text, percent_text
from mcm_passes.mapping.machine.periods import AnalyticPeriods
from tools.kept_records import KeptRecords, Record, digest_of
from tools.reproduce.machines.ring_periods import DATA as KERNELS
from tools.reproduce.machines.ring_periods import TARGET, Run, spearman

DATA = KERNELS.with_name("ring_searches.jsonl")
MODELS = "zoo:gpt2-tiny{seq=128}", "zoo:mobilenet-v2{image_size=64}"
CHIPS = 2, 4
SAMPLES = 20, 100, 500
SEEDS = 5


ENOUGH_S = 0.2
"""CPU seconds of one process that a measurement takes."""

TRIES = 3
"""Of a measurement whose blocks differ."""

_NOTHING: Record = {"period_s": None, "busy_s": None}


class SpentError(Exception):
    """The CPU seconds of this run are spent before a search has ended."""


class MeasuredRing:
    """Implements `BatchEvaluator` by a ring of processes on this machine.

    Args:
        model: of the zoo.
        chips: of the ring.
        records: have what was measured, and get the rest.
        until_cpu_s: CPU seconds of this process and its children before which a measurement begins.

    Attributes:
        problem: with times of the roofline.
        in_place: the same with times of kernels that were measured in one session of the model.
        seen: what each partition came to that was asked for: seconds, infinite if it does not run.
    """

    name = "ring of processes"

    def __init__(self, model: str, chips: int, records: KeptRecords, until_cpu_s: float) -> None:
        self._model, self._chips, self._records = model, chips, records
        self._until_cpu_s = until_cpu_s
        self._scratch = tempfile.TemporaryDirectory()
        kernels = KeptRecords(KERNELS, "code")
        self._run = Run(model, chips, Path(self._scratch.name), kernels, ENOUGH_S)
        self.problem = self._run.problem
        kernel_s = [self._run.kernel_s.get(name, 0.0) for name in self.problem.names]
        self.in_place = replace(self.problem, compute_s=np.array(kernel_s))
        self._roofline, self._predicted = map(AnalyticPeriods, (self.problem, self.in_place))
        self.seen: list[float] = []

    def close(self) -> None:
        """Removes what was compiled."""
        self._scratch.cleanup()

    def evaluate(self, partitions: Ints) -> BatchResults:
        """Measures each partition that was not measured before.

        Raises:
            SpentError: where no CPU seconds are left.
        """
        found = [self._measured(row) for row in partitions]
        period_s = np.array([one["period_s"] or np.inf for one in found])
        busy_s = np.array([one["busy_s"] or [0.0] * self._chips for one in found])
        self.seen += period_s.tolist()
        kind = np.where(np.isfinite(period_s), ResultKind.RUNS, ResultKind.OVERFLOWS)
        nothing = np.zeros((len(found), self._chips))
        return BatchResults(
            kind.astype(np.int32), period_s, period_s, nothing.astype(np.int64), busy_s, nothing
        )

    def _measured(self, chip_of: Ints) -> Mapping[str, Any]:
        placed = np.where(self.problem.clonable, 0, chip_of).astype(np.int32)
        if not np.isfinite(roofline_s := self._roofline(placed)):
            return _NOTHING
        row = "".join(map(str, placed.tolist()))
        key = digest_of(self._model, TARGET, self._chips, row)
        if (known := self._records.find(key)) is not None:
            return known
        if cpu_seconds() > self._until_cpu_s:
            raise SpentError
        found: Record = dict(_NOTHING)
        try:
            chips = dict(zip(self.problem.names, placed.tolist(), strict=True))
            one = self._run.record(chips, TRIES)
        except CompileError as error:
            found["refused"] = error.diagnostics[0].code
        else:
            busy_s = np.zeros(self._chips)
            busy_s[one["at"]] = one["busy_s"]
            found = {
                "period_s": one["period_cpu_s"], "busy_s": busy_s.tolist(),
                "roofline_s": roofline_s, "predicted_s": self._predicted(placed),
                **{name: one[name] for name in ("repeat_error", "load", "outputs_equal")},
            }  # fmt: skip
        self._records.keep(
            {"key": key, "model": self._model, "chips": self._chips, "row": row, **found}
        )
        return found


def cpu_seconds() -> float:
    """CPU seconds of this process and its children."""
    return sum(os.times()[:4])


def search_key(model: str, chips: int, search: str, samples: int, seed: int) -> str:
    """Names the record of a search."""
    return digest_of(model, TARGET, chips, search, samples, seed)


SEARCHES = (
    "Random", "SA", "RL", "RL, no updates", "RL, no prior", "RL, no prior, no updates",
    "RL, as published", "RL, as published, no updates", "zero-shot", "zero-shot, no prior",
    "fine-tuned", "fine-tuned, no updates", "fine-tuned, no prior",
    "fine-tuned, no prior, no updates", "Thompson", "Thompson, no updates", "corrected",
    "dp, roofline", "dp, measured kernels",
)  # fmt: skip
"""Rows of the table."""

CONTROLLED = ", no updates"
"""Ends the names of controls, which stand for what has not learned yet."""

FIRST_UPDATE = 20
"""Samples after which a policy learns first."""

_SECTION = """\

## Searches that measure each sample

How good is a search where each sample is measured? MCM's searches ran on the same processes. A row
is the mean excess of the best period of a search over the best that any of them measured, with the
deviation over seeds. Models are {problems}.

Least excess: {best}.

{rows}

- Each search has {seeds} seeds where nothing else is said; `dp` has nothing random. A partition is
  measured once, and keeps its period.
- Searches know the roofline of `cpu-ring`; `dp, measured kernels` knows times of kernels in the
  session of the whole model.
- Policies learn after every {first} samples: until then they are their controls without updates.
- Partitions measured: {distinct}; {failed} did not run. There are few different ones on two chips.
- Rank correlation with predictions: {correlations}.
- The period of one partition repeats within {repeat} (median); the load was {load}.

Data: `tools/reproduce/data/{data}`, written by `PYTHONPATH=. python tools/reproduce/mcm_ring.py`
with Python 3.11.7, onnxruntime 1.31.1, numpy 2.4.6 and jax 0.10.2 on two cores.
"""


class _Column(NamedTuple):
    """Searches with one number of samples on problems of one number of chips."""

    chips: int
    samples: int
    models: tuple[str, ...]
    seeds: int

    @property
    def head(self) -> str:
        named = "" if self.models == MODELS else f", `{self.models[0]}`"
        few = "" if self.seeds == SEEDS else f", {count_text(self.seeds, 'seed')}"
        return f"{self.chips} chips, {self.samples} samples{named}{few}"


def section(records: KeptRecords) -> str:
    """The part of the page about searches; empty before every search has run with one seed."""
    columns = [*_columns(records)]
    if not columns:
        return ""
    measured = [one for one in records.all() if "row" in one]
    ran = [one for one in measured if one["period_s"]]
    each = [_of(ran, model, chips) for model in MODELS for chips in CHIPS]
    problems = {(one[0]["model"], one[0]["chips"]): one for one in each if one}
    best_s = {problem: min(one["period_s"] for one in of) for problem, of in problems.items()}
    rows = [["search", *(column.head for column in columns)]]
    rows.append(["---", *("---:" for _ in columns)])
    excess = {
        name: [_excess(records, name, column, best_s) for column in columns] for name in SEARCHES
    }
    rows += ([name, *map(_cell, each)] for name, each in excess.items())
    least = (
        (min(SEARCHES, key=lambda name: float(np.mean(excess[name][n]))), column.head)
        for n, column in enumerate(columns)
    )
    correlations = (
        f"{min(ranks):.2f} to {max(ranks):.2f} {what}"
        for what, figure in (("by measured kernels", "predicted_s"), ("by roofline", "roofline_s"))
        if (ranks := [_rank(of, figure) for of in problems.values()])
    )
    loads = [one["load"] for one in ran]
    return _SECTION.format(
        problems=" and ".join(f"`{model}`" for model in MODELS),
        rows="\n".join(f"| {' | '.join(row)} |" for row in rows),
        seeds=SEEDS,
        distinct=", ".join(
            f"{sum(one['chips'] == chips for one in measured):,} on {chips} chips"
            for chips in CHIPS
        ),
        best=", ".join(f"{name} ({head})" for name, head in least),
        first=FIRST_UPDATE, failed=len(measured) - len(ran),
        correlations=", ".join(correlations),
        repeat=percent_text(float(np.median([one["repeat_error"] for one in ran]))),
        load=f"{min(loads):.1f} to {max(loads):.1f}", data=DATA.name,
    )  # fmt: skip


def _columns(records: KeptRecords) -> Iterator[_Column]:
    """Of the models on which every search has run with most seeds."""
    for chips, samples in itertools.product(CHIPS, SAMPLES):
        seeds = {model: _whole_seeds(records, (model, chips), samples) for model in MODELS}
        if most := max(seeds.values()):
            whole = (model for model in MODELS if seeds[model] == most)
            yield _Column(chips, samples, tuple(whole), most)


def _of(records: Sequence[Record], model: str, chips: int) -> list[Record]:
    return [one for one in records if (one["model"], one["chips"]) == (model, chips)]


def _rank(records: Sequence[Record], figure: str) -> float:
    return spearman(*(np.array([one[name] for one in records]) for name in (figure, "period_s")))


def _found(
    records: KeptRecords, problem: tuple[str, int], name: str, samples: int, seed: int
) -> Record | None:
    if samples <= FIRST_UPDATE and name + CONTROLLED in SEARCHES and name != "Thompson":
        name += CONTROLLED
    seed = 0 if name.startswith("dp") else seed
    return records.find(search_key(*problem, name, samples, seed))


def _whole_seeds(records: KeptRecords, problem: tuple[str, int], samples: int) -> int:
    """Seeds, from 0 on, with which each search has run."""
    for seed in range(SEEDS):
        each = (_found(records, problem, name, samples, seed) for name in SEARCHES)
        if any(found is None or not found["steps"] for found in each):
            return seed
    return SEEDS


def _excess(
    records: KeptRecords, name: str, column: _Column, best_s: Mapping[tuple[str, int], float]
) -> list[float]:
    """A mean for each seed; one alone of what has nothing random."""
    excess: list[float] = []
    for seed in range(1 if name.startswith("dp") else column.seeds):
        ratios = [
            found["steps"][-1][1] / best_s[problem]
            for model in column.models
            if (problem := (model, column.chips))
            and (found := _found(records, problem, name, column.samples, seed)) is not None
        ]
        excess.append(float(np.mean(ratios)) - 1.0)
    return excess


def _cell(excess: Sequence[float]) -> str:
    """Mean and deviation."""
    deviation = "" if len(excess) == 1 else f" ± {100 * np.std(excess):.1f}"
    return f"{100 * np.mean(excess):.1f}{deviation} %"
