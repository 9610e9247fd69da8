"""Data sets of models, and the partitioning problems that a policy learns on.

Rewards are relative to a heuristic, as in the paper: one walk, cut by cumulative cost.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from msgspec import Struct

from mcm_compiler.api import run_passes
from mcm_compiler.arrays.kernels import entry_njit, inner_njit
from mcm_compiler.components.cost_choice import TakesCostModel, choice_of, with_cost_model
from mcm_compiler.components.cost_files import user_files
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.partition import Ints, Longs, PartitionProblem
from mcm_compiler.contracts.target import Target
from mcm_compiler.contracts.zoo import PREFIX
from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.machines.package_limits import PackageLimits
from mcm_compiler.options import CompileOptions
from mcm_compiler.text.json_text import UnreadableError, parse_json, read_bounded, record_of
from mcm_passes.families.ring.contiguous.contiguous_kernels import NO_SUMS, packed, with_next
from mcm_passes.families.ring.contiguous.contiguous_windows import (
    Windows,
    chips_from_cuts,
    windows_along,
)
from mcm_passes.families.ring.learning.tasks import Rewards, fast_rewards
from mcm_passes.mapping.machine.periods import AnalyticPeriods
from mcm_passes.mapping.problem.partition_problem import build_problem
from mcm_passes.mapping.problem.topological_orders import topological_orders


@inner_njit
def _highest_chips(w: Windows) -> Longs:
    """`[n + 1]`, the highest chip that each position may be on, for pins at it or behind it."""
    n = w.work_s.size
    highest = np.empty(n + 1, dtype=np.int64)
    highest[n] = w.chips.sram_bytes.size - 1
    for p in range(n - 1, -1, -1):
        highest[p] = highest[p + 1]
        if w.pinned[p] >= 0:
            highest[p] = min(highest[p], w.pinned[p])
    return highest


@entry_njit
def greedy_cuts(w: Windows) -> tuple[Longs, int]:
    """Cuts of the greedy heuristic: a chip closes once it holds its share of the work that is left.

    It also closes before a unit that would overflow its memory, and stays open where the rules
    forbid a cut.

    Returns:
        `cuts[k + 1]` from 0, and the first position that no chip was left for: n on success.
    """
    n = w.work_s.size
    cuts = np.zeros(w.chips.sram_bytes.size + 1, dtype=np.int64)
    left, speed_left = w.work_s.sum(), w.chips.speed.sum()
    highest = _highest_chips(w)
    chip, begin = 0, 0
    done, peak = 0.0, 0
    sums = NO_SUMS
    for p in range(n):
        grown = with_next(w, sums, begin, p)
        need = grown.held + w.cuts.arriving[begin]
        need += packed(w.chips, min(max(peak, w.live_bytes[p]), grown.inside))
        room = w.chips.sram_bytes[chip] + int(w.streaming.limit_bytes)
        overflow = need + w.cuts.leaving[p + 1] > room
        share = left * w.chips.speed[chip] / speed_left
        forced = w.pinned[p] > chip
        may_cut = p > begin and (not w.chips.strict or w.cuts.far[begin] <= p)
        if (overflow or forced or done >= share) and may_cut and chip + 1 <= highest[p]:
            speed_left -= w.chips.speed[chip]
            chip += 1
            cuts[chip] = p
            begin = p
            left -= done
            done, peak = 0.0, 0
            grown = with_next(w, NO_SUMS, begin, p)
        elif need > room or forced or chip > highest[p]:
            return cuts[: chip + 1], p
        sums = grown
        peak = max(peak, w.live_bytes[p])
        done += w.work_s[p]
    cuts[chip + 1] = n
    return cuts[: chip + 2], n


def greedy_partition(problem: PartitionProblem) -> Ints | None:
    """`[N]`, greedy by topological order and cumulative cost, O(N) (MCM, section 5.1), or None.

    A chip closes when it holds its share of the work that is left, or when the next unit would
    overflow its memory. The paper's heuristic is not spelled out; the second rule is ours.
    """
    order = topological_orders(problem, 1)[0].units
    cuts, stop = greedy_cuts(windows_along(problem, order))
    if stop < order.size and problem.streams:
        # Memory is short, so let chips lack as much as they may stream.
        cuts, stop = greedy_cuts(windows_along(problem, order, stream_share=1.0))
    return chips_from_cuts(problem, order, cuts) if stop == order.size else None


MAX_VARIANTS = 256
"""Sizes of one model that an entry may stand for."""

_SIZED = re.compile(r"(?P<path>[^{]+)\{(?P<sizes>[^{}]*)\}")
_SIZE = re.compile(r"[1-9][0-9]{0,17}")


def sized_model(text: str) -> tuple[str, dict[str, int]]:
    """A path or `zoo:` and a builder, and sizes of symbolic dimensions by name.

    Args:
        text: an entry that has one size for each dimension, as `each_size` gives them.

    Raises:
        UnreadableError: if braces hold anything else than sizes.
    """
    path, sizes = _parsed(text)
    return path, {name: values[0] for name, values in sizes.items()}


def each_size(text: str) -> tuple[str, ...]:
    """The entries that an entry with several sizes stands for, each with one size by dimension.

    Args:
        text: such as `model.onnx{batch=1;8,seq=128}`, which gives two.

    Raises:
        UnreadableError: if braces hold anything else than sizes, or stand for more than
            `MAX_VARIANTS` models.
    """
    path, sizes = _parsed(text)
    if not sizes:
        return (text,)
    count = math.prod(map(len, sizes.values()))
    if count > MAX_VARIANTS:
        raise UnreadableError(
            f"{quote(text)} stands for {count} sizes; {MAX_VARIANTS} are the most"
        )
    return tuple(
        f"{path}{{{','.join(f'{name}={size}' for name, size in zip(sizes, each, strict=True))}}}"
        for each in itertools.product(*sizes.values())
    )


def _parsed(text: str) -> tuple[str, dict[str, tuple[int, ...]]]:
    """The path, and the sizes of each dimension in their order; none for what has no braces."""
    found = _SIZED.fullmatch(text)
    # A file may have any name.
    if found is None or text.startswith(PREFIX) or Path(text).exists():
        return text, {}
    sizes: dict[str, tuple[int, ...]] = {}
    for part in found["sizes"].split(","):
        name, equals, values = part.strip().rpartition("=")
        given = [value.strip() for value in values.split(";")]
        if not equals or not name or not all(map(_SIZE.fullmatch, given)):
            raise UnreadableError(
                f"{quote(part)} in {quote(text)} is no size such as batch=8, or batch=1;8 for two"
            )
        if name in sizes:
            raise UnreadableError(f"{quote(name)} has sizes twice in {quote(text)}")
        sizes[name] = tuple(dict.fromkeys(map(int, given)))
    return found["path"].strip(), sizes


DEFAULT_DATA_SET = "mcm87"
"""The zoo's 87 convolutional and recurrent models.

Xie et al. 2022 (MCM), section 5.1, train on 66 graphs, choose among checkpoints by 5, and report
16. Their convolutional and recurrent networks have tens to hundreds of nodes, and no attention.
Theirs are not public; these are ours, with the same numbers. Each family has its share of the 16
and of the 5 by largest remainders; the models of a family were drawn.

Image sizes, channels and batches spread the work over many ops. On mcm36 the heaviest unit of all
but three models takes less than a twelfth of the work. The weights of six models fill 30 to 52 % of
the package's memory. In three recurrent models those of a layer fill more than half a chip, so that
its steps, which share them, cannot go just anywhere.
"""

MAX_FILE_BYTES = 1 << 24


@dataclass(frozen=True)
class DataSet:
    """Models by what `sized_model` takes: `zoo:` and a builder, or a path, with or without sizes.

    Attributes:
        name: as the user gave it.
        train: models to learn from.
        validation: models that choose among checkpoints.
        test: models for reports, used for nothing else.
    """

    name: str
    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]

    @property
    def digest(self) -> str:
        """SHA-256 of the names of the models that a training sees."""
        text = "\n".join([*self.train, "", *self.validation])
        return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def data_set(name: str) -> DataSet:
    """The data set of a name, or of a JSON file `{"train": [...], "validation": [...]}`.

    Raises:
        CompileError: MCM-L011 if it is neither.
    """
    path = Path(__file__).with_name("mcm87.json") if name == DEFAULT_DATA_SET else Path(name)
    try:
        found = record_of(parse_json(read_bounded(path, MAX_FILE_BYTES)), _DataSetFile)
        if not found.train or not found.validation:
            raise UnreadableError("it lists no models to learn from, or none to choose by")
        parts = found.train, found.validation, found.test
        return DataSet(
            name, *(tuple(one for text in part for one in each_size(text)) for part in parts)
        )
    except UnreadableError as error:
        raise CompileError.of(
            "MCM-L011",
            f"the data set cannot be read: {error}",
            at=quote(name),
            hint=f"take '{DEFAULT_DATA_SET}', or a JSON file with the lists train and "
            "validation of models",
        ) from error


class _DataSetFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A data set as it is in a file."""

    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...] = ()


_PASSES = "simplify,fuse,annotate_cost,shard_oversized"
_PARTITIONING = "MCM-P"
"""Family of the diagnostics that say why a model cannot be placed on a package."""


@dataclass(frozen=True, eq=False)
class TrainingProblem:
    """One problem of a data set; it travels between processes.

    Attributes:
        model: text of the model.
        problem: as a compile would meet it.
        baseline_s: period of the greedy heuristic (MCM, section 5.1) under the analytic model.
    """

    model: str
    problem: PartitionProblem
    baseline_s: float

    def rewards(self) -> Rewards:
        """Throughput over the baseline's, under the analytic model."""
        return fast_rewards(self.problem, self.baseline_s)


def model_to_partition(model: str, target: Target) -> ir.Model:
    """The model after all passes before `partition`; arguments as of `partition_problem`."""
    path, dims = sized_model(model)
    return run_passes(path, target, CompileOptions(passes=_PASSES, dims=dims))[0]


COST_MODEL = "roofline"
"""Default cost model of trainings where the target names none: that of release 0.1.0, so
that its trainings go on."""


def partition_problem(model: str, target: Target) -> PartitionProblem:
    """The problem of a model that a policy is trained on, under the relay rule.

    It has the times of `COST_MODEL`, and copies of views take none.

    Args:
        model: as `sized_model` takes it: path of an ONNX file, or `zoo:` and a builder.
        target: the package.
    """
    if choice_of(target) is None and isinstance(target, TakesCostModel):
        target = with_cost_model(target, COST_MODEL, user_files(None))
    lowered = model_to_partition(model, target)
    found = build_problem(lowered, target, "relay", FUSION_PLAN.get(lowered))
    return dataclasses.replace(found, copies=None)


def training_problems(
    models: Sequence[str], target: Target, tell: Callable[[int], None]
) -> tuple[tuple[TrainingProblem, ...], tuple[str, ...]]:
    """Problems with their baselines, and the models whose baseline finds nothing valid.

    Args:
        models: texts of models.
        target: the package.
        tell: hears how many are done.

    Raises:
        CompileError: MCM-L007 where no model is left; whatever the import of a model finds.
    """
    found: list[TrainingProblem] = []
    left_out: list[str] = []
    for k, model in enumerate(models):
        each = _with_baseline(model, target)
        if each is None:
            left_out.append(model)
        else:
            found.append(each)
        tell(k + 1)
    if not found:
        raise CompileError.of(
            "MCM-L007",
            f"no partition is valid for any of {len(models)} models, such as {quote(models[0])}",
            at=f"target {quote(target.name)}",
        )
    return tuple(found), tuple(left_out)


def digest_of(problems: Sequence[TrainingProblem]) -> str:
    """SHA-256 of everything that a policy could learn from the problems.

    Equal to that of release 0.1.0 for the problems that it could state, so that its trainings go
    on: fields that records got later count where they state anything more.
    """
    digest = hashlib.sha256()
    for each in problems:
        digest.update(f"{each.model}\n{each.baseline_s!r}\n".encode())
        problem = each.problem
        values = [*_stated(problem, "energy").values()]
        values += [problem.clone_closure, problem.placed_readers, problem.placed_weight_users]
        for value in values:
            is_array = isinstance(value, np.ndarray)
            digest.update(value.tobytes() if is_array else _text_of(value).encode())
    return digest.hexdigest()


def _stated(record: Any, last: str) -> dict[str, Any]:
    """Fields of a record up to the last one of release 0.1.0, and later ones without defaults."""
    fields = dataclasses.fields(record)
    first = [field.name for field in fields].index(last) + 1
    later = (f for f in fields[first:] if getattr(record, f.name) != f.default)
    return {field.name: getattr(record, field.name) for field in (*fields[:first], *later)}


def _text_of(value: Any) -> str:
    """`repr`, but for limits without delays that are those of a hop, as before they had names."""
    if not isinstance(value, PackageLimits):
        return repr(value)
    stated = _stated(value, "forwarding")
    # A delay of 0 is a default, but says more where a hop takes time.
    stated["link_latency_s"], stated["host_latency_s"] = value.link_latency_s, value.host_latency_s
    if value.latencies_s == dataclasses.replace(value, link_latency_s=()).latencies_s:
        del stated["link_latency_s"]
    if value.host_latency_s == value.hop_latency_s:
        del stated["host_latency_s"]
    texts = (f"{name}={each!r}" for name, each in stated.items())
    return f"PackageLimits({', '.join(texts)})"


def _with_baseline(model: str, target: Target) -> TrainingProblem | None:
    """The problem of a model, or None where it does not fit."""
    try:
        problem = partition_problem(model, target)
    except CompileError as error:
        if all(found.code.startswith(_PARTITIONING) for found in error.diagnostics):
            return None
        raise
    period_s = _baseline_s(problem)
    return TrainingProblem(model, problem, period_s) if np.isfinite(period_s) else None


def _baseline_s(problem: PartitionProblem) -> float:
    """Period of the heuristic's partition, infinite where it finds none."""
    if not problem.num_units or problem.clonable.all():
        return float("inf")
    periods = AnalyticPeriods(problem, few=0)
    found = greedy_partition(problem)
    return float("inf") if found is None else periods(found)
