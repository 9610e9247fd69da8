"""What the rows on operator partitioning and data parallelism share: searches, their records."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from deep_q_study.decision_environment import DecisionItems, decision_items, gap
from deep_q_study.decision_learning import RECIPES, DecisionRecipe, LearnedDecision, search_decision
from numpy.typing import NDArray

from mcm_compiler.arrays.randomness import seeded_generator
from mcm_compiler.processes.one_thread import use_one_thread
from mcm_compiler.text.units import seconds_text
from mcm_passes.parallelism.decisions.count_oracle import best_decision
from mcm_passes.parallelism.decisions.decision_problem import DecisionObjective, DecisionProblem

VERSIONS = ("mcm-compiler", "numpy", "ortools")
SEEDS = 5
NO_UPDATES = 1e-12
"""A learning rate of steps that are lost in the rounding of weights, so that nothing is learned."""


@dataclass(frozen=True, eq=False)
class Row:
    """A row of the acceptance table.

    Attributes:
        row: its number.
        model: name of the zoo model.
        problem: what is decided about.
        objective: what it is worth.
        expected: by tensor, the dim that must be partitioned, or -1; tensors that are not named
            may be anything. Empty where the paper gives none: then the value must be the best.
        limit_s: most seconds of a search.
        build_s: seconds in which the problem was made from the model.
    """

    row: int
    model: str
    problem: DecisionProblem
    objective: DecisionObjective
    expected: dict[str, int]
    limit_s: float
    build_s: float


@dataclass(frozen=True)
class Variant:
    """A way to search.

    Attributes:
        name: for the record.
        recipe: one of `RECIPES`.
        linkage: whether linkage groups are decided at once.
        updates: whether weights are updated; without, all else is the same with the learning rate
            `NO_UPDATES`, as a control.
    """

    name: str
    recipe: str
    linkage: bool = True
    updates: bool = True

    @property
    def decision_recipe(self) -> DecisionRecipe:
        """The recipe, without updates where this is a control."""
        recipe = RECIPES[self.recipe]
        if self.updates:
            return recipe
        still = dataclasses.replace(recipe.settings, learning_rate=NO_UPDATES)
        return dataclasses.replace(recipe, settings=still)


def largest_first(items: DecisionItems, forced: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """`[K]`: partitions every item that it can and that adds something, in order.

    Args:
        items: what is decided.
        forced: `[K]` bool, classes that must be partitioned.
    """
    partitioned = forced.copy()
    for group in items.item_class[~forced[items.item_class]].tolist():
        unpaid = items.members[:, group] & ~(items.members & partitioned).any(axis=1)
        adds = items.linear[group] + items.term_gain[unpaid].sum()
        if adds > 0 and not (items.blocked[group] or (items.conflicts[group] & partitioned).any()):
            partitioned[group] = True
    return partitioned


def random_search(
    items: DecisionItems,
    objective: DecisionObjective,
    forced: NDArray[np.bool_],
    episodes: int,
    rng: np.random.Generator,
) -> tuple[NDArray[np.bool_], float]:
    """The best of decisions that toss a coin wherever partitioning is possible.

    The same episodes as the learner's with masked actions, in the same order of items.

    Args:
        items: what is decided.
        objective: what it is worth.
        forced: `[K]` bool, classes that must be partitioned.
        episodes: how many.
        rng: source of the coins.

    Returns:
        `[K]` and its value.
    """
    count = len(items.blocked)
    best, best_value = forced.copy(), objective.value(forced)
    start_value = best_value
    excluded = items.blocked | items.conflicts[forced].any(axis=0)
    start_paid: NDArray[np.bool_] = np.any(items.members & forced, axis=1)
    for first in range(0, episodes, 1024):
        lanes = min(1024, episodes - first)
        coins = rng.random((len(items.item_class), lanes)) < 0.5
        partitioned = np.tile(forced[:, None], (1, lanes))
        against = np.zeros((count, lanes), dtype=bool)
        decided = forced.copy()
        paid = np.tile(start_paid[:, None], (1, lanes))
        value = np.full(lanes, start_value)
        for coin, group in zip(coins, items.item_class.tolist(), strict=True):
            if decided[group]:
                continue
            decided[group] = True
            taken = coin & ~against[group] & (not excluded[group])
            if not taken.any():
                continue
            newly = items.members[:, group, None] & taken & ~paid
            paid |= newly
            value += taken * items.linear[group] + items.term_gain @ newly
            partitioned[group] = taken
            against |= items.conflicts[group][:, None] & taken
        top = int(np.argmax(value))
        if value[top] > best_value:
            best, best_value = partitioned[:, top].copy(), float(value[top])
    return best, best_value


def searched(row: Row, variant: Variant, seeds: Iterable[int]) -> dict[str, Any]:
    """One record for a row and a variant, with an entry per seed."""
    use_one_thread()
    runs: list[dict[str, Any]] = []
    load = os.getloadavg()[0]
    found: LearnedDecision | None = None
    none = np.zeros(row.problem.num_classes, dtype=np.bool_)
    oracle = best_decision(row.problem, row.objective)
    all_asked = variant.linkage and not variant.decision_recipe.masked
    items = decision_items(row.problem, row.objective, with_blocked=all_asked)
    greedy = gap(row.objective.value(largest_first(items, none)), oracle.bound)
    for seed in seeds:
        began, busy = time.perf_counter(), time.process_time()
        found = search_decision(
            row.problem, variant.decision_recipe, seed, row.objective, linkage=variant.linkage
        )
        searched_s = time.perf_counter() - began
        plan, own = row.problem.partitioned_dims(found.partitioned), gap(found.value, oracle.bound)
        rng = seeded_generator(seed, "random decisions")
        drawn = random_search(items, row.objective, none, max(found.episodes, 1), rng)[1]
        by_chance = gap(drawn, oracle.bound)
        runs.append(
            {
                "seed": seed,
                "map_equal": all(plan[name] == dim for name, dim in row.expected.items())
                and (bool(row.expected) or own == 0.0),
                "partitioned": sum(dim >= 0 for dim in plan.values()),
                "value": found.value,
                "gap": own,
                "gap_random": by_chance,
                "gap_largest_first": greedy,
                "answer_gap": min(own, by_chance, greedy),
                "first_hit_episodes": found.first_hit,
                "episodes": found.episodes,
                "iterations": found.iterations,
                "search_s": round(searched_s, 3),
                "wall_s": round(time.perf_counter() - began, 3),
                "cpu_s": round(time.process_time() - busy, 3),
            }
        )
    if found is None:
        raise ValueError("there is no seed")
    record: dict[str, Any] = {
        "row": row.row,
        "model": row.model,
        "objective": row.objective.name,
        "variant": variant.name,
        "recipe": variant.recipe,
        "linkage": variant.linkage,
        "updates": variant.updates,
        "tensors": len(row.problem.tensors),
        "dims": len(row.problem.dim_class),
        "groups": row.problem.num_classes,
        "free_groups": int(np.count_nonzero(~row.problem.blocked)),
        "oracle": oracle.value,
        "oracle_proven": oracle.proven,
        "limit_s": row.limit_s,
        "build_s": round(row.build_s, 3),
        "cores": os.cpu_count(),
        "load_at_start": round(load, 1),
        "maps_equal": sum(run["map_equal"] for run in runs),
        "seeds": len(runs),
        "worst_gap": max(run["gap"] for run in runs),
        "longest_s": max(run["wall_s"] for run in runs),
        "runs": runs,
    }
    record["passes"] = record["maps_equal"] == len(runs) and record["longest_s"] <= row.limit_s
    return record


def line(record: dict[str, Any]) -> str:
    """One line for the terminal."""
    runs = record["runs"]
    random = max(run["gap_random"] for run in runs)
    return (
        f"row {record['row']} {record['model']} {record['objective']} {record['variant']}: "
        f"{record['maps_equal']} of {record['seeds']} maps equal, worst gap "
        f"{record['worst_gap']:.2%} (random {random:.2%}), longest "
        f"{seconds_text(record['longest_s'])}, {max(run['cpu_s'] for run in runs):.1f} CPU-s"
    )


def reproduce(
    name: str, models: tuple[str, ...], row_of: Callable[[str], Row], variants: tuple[Variant, ...]
) -> int:
    """The command line of a tool; returns 1 if a row of the variant `dqn` does not pass.

    Args:
        name: of the tool and of its data.
        models: by default.
        row_of: the row of a model.
        variants: by default.
    """
    parser = argparse.ArgumentParser(prog=f"{name}.py")
    parser.add_argument("--models", default=",".join(models))
    parser.add_argument("--variants", default=",".join(variant.name for variant in variants))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--update", action="store_true", help="write the data; other rows stay")
    arguments = parser.parse_args()
    wanted = arguments.variants.split(",")
    records: list[dict[str, Any]] = []
    for row in map(row_of, arguments.models.split(",")):
        for variant in variants:
            if variant.name in wanted:
                records.append(searched(row, variant, range(arguments.seeds)))
                sys.stdout.write(line(records[-1]) + "\n")
                sys.stdout.flush()
    if arguments.update:
        path = Path(__file__).with_name("data") / f"{name}.json"
        kept = {_key(record): record for record in _records_in(path) + records}
        recipes = sorted({variant.recipe for variant in variants})
        result = {
            "command": f"python tools/reproduce/{name}.py --seeds {arguments.seeds} --update",
            "versions": {package: metadata.version(package) for package in VERSIONS},
            "recipes": {recipe: dataclasses.asdict(RECIPES[recipe]) for recipe in recipes},
            "records": [kept[key] for key in sorted(kept)],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return 0 if all(r["passes"] for r in records if r["variant"] == "dqn") else 1


def _key(record: dict[str, Any]) -> tuple[int, str, str]:
    return record["row"], record["objective"], record["variant"]


def _records_in(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text(encoding="utf-8"))["records"] if path.exists() else []
