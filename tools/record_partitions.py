"""Partitions, periods and bounds of the bench models, recorded, so that a change can be compared.

    python tools/record_partitions.py --update
    python tools/record_partitions.py --compare [--only TEXT]

Three kinds of cases. `loads`: what the fast model says of seeded placements. `bound`: the bound
that needs no search. `search`: what each level and each strategy finds from a fixed seed within a
small budget that counts evaluations and deterministic seconds, so that no clock decides. Models
stand on several packages: as they come, with memory that is tight, with a host at the ends of the
ring alone, with weights that are streamed, and with chips of different speeds.

A comparison wants the same partitions and whole numbers to the last bit, and seconds to within
1e-12 of each other. Its exit status is 1 where anything differs.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import importlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mcm_compiler import CompileOptions
from mcm_compiler.api import run_passes
from mcm_compiler.arrays.randomness import seeded_generator
from mcm_compiler.components.capabilities import required_batch_evaluation_of
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.contracts.evaluation import BatchEvaluator
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.levels import load_level
from mcm_compiler.contracts.partition import Budget, Ints, Partition, PartitionProblem
from mcm_compiler.contracts.target import Routing
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.machines.machine import HOST, OFF_PACKAGE
from mcm_passes.mapping.bounds.bounds import lower_bound
from mcm_passes.mapping.machine.evaluation import evaluate
from mcm_passes.mapping.problem.partition_problem import build_problem
from mcm_passes.mapping.search.named import strategy_of
from mcm_passes.mapping.solving.lowered_evaluator import LazyEvaluator
from mcm_passes.mapping.solving.planned_memory import solve_with_plans
from mcm_passes.mapping.solving.solve import solve

DATA = Path(__file__).resolve().parent / "data" / "partitions.json"
PASSES = "simplify,fuse,annotate_cost,shard_oversized"
TOLERANCE = 1e-12
PLACEMENTS = 12
"""Placements whose loads are recorded, of each problem."""

sys.path.insert(0, str(Path(__file__).resolve().parent / "bench"))
_packages = importlib.import_module("partition_cases.packages")
MODELS: dict[str, str] = _packages.MODELS
STRICT: frozenset[str] = _packages.STRICT
"""The models of the bench table, and those under the triangle rule, too."""

SMALL = ("ResNet-50", "Inception-V3")
"""Models on which slow strategies run."""

Package = Literal["roomy", "tight", "ends", "stream", "uneven", "need"]
PACKAGES: tuple[Package, ...] = ("roomy", "tight", "ends", "stream", "uneven", "need")
"""`need` is `tight` where memory is counted as what every plan takes at least."""

LEVELS = ((0, 400), (1, 400), (2, 3_000))
"""Levels that run on all models, with the evaluations that they may spend."""

TOP_LEVEL = (3, 200)
"""Learned search loads its network, and is shown on the smallest model alone."""

QUICK = ("local_search", "multilevel{cycles=4}")
SLOW = ("ideals", "cpsat{ideals=0}")


@dataclass(frozen=True)
class Case:
    """What is recorded under one name.

    Attributes:
        kind: of the case, see above.
        model: a key of `MODELS`.
        package: what it stands on.
        routing: the rule for long dependencies.
        strategy: text of the strategy, for searches.
        evaluations: most that a search may make.
        label: what its name says of the strategy.
    """

    kind: Literal["loads", "bound", "search"]
    model: str
    package: Package
    routing: Routing
    strategy: str = ""
    evaluations: int = 0
    label: str = ""

    @property
    def key(self) -> str:
        """Tells it from all others."""
        return " ".join(
            filter(None, (self.kind, self.model, self.package, self.routing, self.label))
        )


def cases() -> Iterator[Case]:
    """All cases, those of one problem beside each other."""
    for model in MODELS:
        for package in PACKAGES:
            for routing in ("relay", "strict") if model in STRICT else ("relay",):
                at = (model, package, routing)
                yield Case("loads", *at)
                yield Case("bound", *at)
                for level, evaluations in LEVELS:
                    text = load_level(level).strategy
                    if level < 2 or package in {"roomy", "tight"} or model in SMALL:
                        yield Case("search", *at, text, evaluations, f"-O{level}")
                for text in QUICK:
                    yield Case("search", *at, text, 600, text)
                for text in SLOW if model in SMALL else ():
                    yield Case("search", *at, text, 200, text)
    level, evaluations = TOP_LEVEL
    text = load_level(level).strategy
    yield Case("search", "Inception-V3", "ends", "relay", text, evaluations, f"-O{level}")


@cache
def _built(model: str) -> tuple[PartitionProblem, Callable[[PartitionProblem], Any]]:
    """A model's problem on the roomy package, and what builds the simulator of its variants."""
    target = load_target("mcm36")
    graph, _, _ = run_passes(MODELS[model], target, CompileOptions(passes=PASSES))
    plan = FUSION_PLAN.get(graph)
    build = required_batch_evaluation_of(target).batch_evaluator
    problem = build_problem(graph, target, "relay", plan)
    return problem, lambda variant: build(graph, variant, plan.group_names)


@cache
def _problem(model: str, package: Package, routing: Routing) -> PartitionProblem:
    problem, _ = _built(model)
    limits = problem.limits
    match package:
        case "roomy":
            pass
        case "tight" | "need":
            limits = dataclasses.replace(limits.first(12), sram_bytes=_shares(problem, [1.3] * 12))
        case "ends":
            limits = dataclasses.replace(limits, host_io="ends")
        case "stream":
            sram = tuple(s * 3 // 4 for s in _shares(problem, [1.2] * 8))
            limits = dataclasses.replace(limits.first(8), sram_bytes=sram, stream_bytes_per_s=8e9)
        case "uneven":
            sram = _shares(problem, [1.6, 1.2, 2.0, 1.4] * 2)
            speed = (1.0, 1.25, 0.8, 1.0) * 2
            limits = dataclasses.replace(limits.first(8), sram_bytes=sram, chip_speed=speed)
    variant = dataclasses.replace(problem, routing=routing, limits=limits)
    return variant.at_need() if package == "need" else variant


def _shares(problem: PartitionProblem, factors: Sequence[float]) -> tuple[int, ...]:
    """Memory of chips that have so many times their share of all weights.

    At least enough for the heaviest unit with its tensors.
    """
    weights = int(problem.weight_bytes.sum())
    held = np.zeros(problem.num_units)
    np.add.at(
        held, problem.weight_users, np.repeat(problem.weight_bytes, np.diff(problem.weight_ptr))
    )
    least = float(held.max()) + 8.0 * float(problem.tensor_bytes.max())
    return tuple(math.ceil(max(f * weights / len(factors), f * least)) for f in factors)


def measured(case: Case) -> dict[str, Any]:
    """What is recorded of a case."""
    problem = _problem(case.model, case.package, case.routing)
    if case.kind == "loads":
        record = _loads(problem)
        if case.package == "roomy":
            _, build = _built(case.model)
            record |= _verdicts(build(problem), problem)
        return record
    if case.kind == "bound":
        bound = lower_bound(problem)
        return {"bound_s": bound.seconds, "proof": bound.proof}
    _, build = _built(case.model)
    strategy = strategy_of(case.strategy)
    evaluator = LazyEvaluator(lambda: build(problem))
    budget = Budget(evaluations=case.evaluations, effort_s=0.2, evaluator=evaluator)

    def solve_one(one: PartitionProblem, left: Budget) -> Partition:
        rng = seeded_generator(0, "partition")
        return solve(one, strategy, rng, left, strategy_text=case.label)

    try:
        # The evaluator plays the package as the target describes it, so that it has a word only
        # there.
        if case.package == "roomy" and case.routing == "relay":
            found = solve_with_plans(problem, solve_one, budget)
        else:
            found = solve_one(problem, dataclasses.replace(budget, evaluator=None))
    except CompileError as error:
        return {"codes": sorted({d.code for d in error.diagnostics})}
    record: dict[str, Any] = {
        "partition": _digest(found.chip_of),
        "chips": found.num_chips_used,
        "period_s": found.period_s,
        "bound_s": found.bound.seconds,
        "proof": found.bound.proof,
    }
    if case.package == "roomy" and case.routing == "relay":
        results = evaluator.evaluate(found.chip_of[None])
        record["simulated_s"] = float(results.period_s[0])
        record["planned"] = _digest(results.high_water_bytes)
    return record


def _loads(problem: PartitionProblem) -> dict[str, Any]:
    """The fast model's numbers for placements along the ring, at both ways to count memory."""
    rng = seeded_generator(0, "placements")
    record: dict[str, Any] = {}
    ends = problem.machine.channel_ends
    source, target = ends.T >= 0
    for name, one in (("estimate", problem), ("need", problem.at_need())):
        seconds: list[float] = []
        whole: list[Any] = []
        for chip_of in _placements(one, rng):
            found = evaluate(one, chip_of)
            seconds += [
                found.period_s,
                *(
                    float(part.sum())
                    for part in (
                        found.chip_busy_s,
                        found.channel_busy_s[source & target],
                        found.channel_busy_s[(ends[:, 0] == HOST) & target],
                        found.channel_busy_s[source & (ends[:, 1] == HOST)],
                        found.channel_busy_s[(ends[:, 0] == OFF_PACKAGE) & target],
                    )
                ),
            ]
            whole += [found.copies, found.memory_bytes, found.weight_bytes, found.chip_of]
        record[f"{name}_s"] = seconds
        record[name] = _digest(*whole)
        record[f"{name}_allowed"] = sum(evaluate(one, row).valid for row in _placements(one, rng))
    return record


def _verdicts(evaluator: BatchEvaluator, problem: PartitionProblem) -> dict[str, Any]:
    """What the simulator says of such placements."""
    rows = np.stack(list(_placements(problem, seeded_generator(0, "placements"))))
    found = evaluator.evaluate(rows)
    return {
        "simulated_s": [float(s) for s in found.period_s if np.isfinite(s)],
        "simulated": _digest(found.kind, found.high_water_bytes),
    }


def _placements(problem: PartitionProblem, rng: np.random.Generator) -> Iterator[Ints]:
    """Placements whose dependencies point forwards; chips may be left empty, or overflow."""
    for k in range(PLACEMENTS):
        chips = int(rng.integers(1, problem.num_chips + 1))
        if k % 2:
            yield np.sort(rng.integers(0, chips, problem.num_units)).astype(np.int32)
        else:
            # Balanced windows, as what is searched looks like.
            work = np.cumsum(problem.compute_s)
            yield np.minimum(work / work[-1] * chips, chips - 1).astype(np.int32)


def _digest(*arrays: Any) -> str:
    made = hashlib.sha256()
    for array in arrays:
        made.update(np.ascontiguousarray(array, np.int64).tobytes())
    return made.hexdigest()[:20]


def differences(before: object, after: object, at: str = "") -> list[str]:
    """Where two records differ by more than the rounding of sums."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            line
            for key in sorted(before.keys() | after.keys())
            for line in differences(before.get(key), after.get(key), f"{at} {key}".strip())
        ]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [line for a, b in zip(before, after, strict=True) for line in differences(a, b, at)]
    if isinstance(before, float) and isinstance(after, float):
        same = math.isclose(before, after, rel_tol=TOLERANCE, abs_tol=0.0)
    else:
        same = before == after
    return [] if same else [f"{at}: {before!r} became {after!r}"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Records or compares."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--update", action="store_true", help="write what is found")
    what.add_argument("--compare", action="store_true", help="tell what differs from it")
    parser.add_argument("--only", metavar="TEXT", default="", help="cases with this in their name")
    parser.add_argument("--times", action="store_true", help="tell the CPU seconds of each case")
    asked = parser.parse_args(arguments)
    kept: dict[str, Any] = json.loads(DATA.read_text()) if DATA.exists() else {}
    chosen = [case for case in cases() if asked.only in case.key]
    found: dict[str, Any] = {}
    different, begin = 0, time.process_time()
    for case in chosen:
        start = time.process_time()
        found[case.key] = json.loads(json.dumps(measured(case)))
        lines = differences(kept.get(case.key), found[case.key]) if asked.compare else []
        different += bool(lines)
        for line in lines:
            print(f"{case.key}: {line}", flush=True)
        if asked.times:
            print(f"{time.process_time() - start:7.2f} s {case.key}", file=sys.stderr, flush=True)
    if asked.update:
        merged = {**kept, **found} if asked.only else found
        DATA.parent.mkdir(exist_ok=True)
        rows = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(merged.items()))
        DATA.write_text(f"{{\n{rows}\n}}\n")
    seconds = time.process_time() - begin
    print(f"{len(found)} cases, {seconds:.0f} CPU seconds", end="")
    print(f", {different} different" if asked.compare else "")
    return int(asked.compare and different > 0)


if __name__ == "__main__":
    sys.exit(main())
