"""How short the periods are that the portfolio finds on wide random graphs, by strategy and tree.

Ten seeded graphs of 100 ops in layers of ten; each op reads one to three tensors of the two layers
before. Work and tensors differ by orders of magnitude, and what crosses a link counts about as much
as what a chip works, so that good partitions are hardly ever cuts of one of the orders that `dp`
knows. Budget and effort are those of `-O2`, from a fixed seed, and no clock decides.

    python tools/bench/random_graphs.py
    python tools/bench/random_graphs.py --record NAME

`--record` writes what the portfolio finds under a name to tools/bench/data/random_graphs.json:
`before` is another tree, `after` this one. The bars hold what is found against `before`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness.bars import Bar, as_json, as_table

from mcm_compiler.arrays.randomness import seeded_generator
from mcm_compiler.contracts.partition import Budget, PartitionProblem
from mcm_compiler.contracts.target import PackageLimits
from mcm_passes.mapping.bounds.bounds import lower_bound
from mcm_passes.mapping.machine.periods import AnalyticPeriods
from mcm_passes.mapping.search.named import strategy_of
from mcm_passes.mapping.solving.levels import DEFAULT

DATA = Path(__file__).with_name("data") / "random_graphs.json"
GRAPHS, QUICK_GRAPHS = 10, 2
OPS, LAYER, CHIPS = 100, 10, 12
Found = dict[str, Any]


def wide_problem(seed: int) -> PartitionProblem:
    """The graph of a seed, on twelve chips with room for everything."""
    rng = np.random.default_rng(seed)
    readers: list[list[int]] = [[] for _ in range(OPS)]
    for unit in range(LAYER, OPS):
        first = max(unit // LAYER - 2, 0) * LAYER
        candidates = np.arange(first, unit // LAYER * LAYER)
        for source in rng.choice(candidates, rng.integers(1, 4), replace=False).tolist():
            readers[source].append(unit)
    work_s = rng.lognormal(0.0, 0.6, OPS) * 1e-5
    sizes = (rng.lognormal(0.0, 1.0, OPS) * 2e4).astype(np.int64)
    link = float(sizes.sum()) / float(work_s.sum()) * 2.0
    return PartitionProblem(
        names=tuple(f"op{u}" for u in range(OPS)),
        members=tuple((f"op{u}",) for u in range(OPS)),
        compute_s=work_s,
        clonable=np.zeros(OPS, np.bool_),
        pinned_chip=np.full(OPS, -1, np.int32),
        tensor_names=tuple(f"t{u}" for u in range(OPS)),
        tensor_bytes=sizes,
        tensor_producer=np.arange(OPS, dtype=np.int32),
        tensor_ptr=np.cumsum([0, *map(len, readers)]).astype(np.int64),
        tensor_consumers=np.array([u for row in readers for u in row], np.int32),
        tensor_to_host=np.array([not row for row in readers]),
        relay_s=work_s * 0.02,
        weight_names=(),
        weight_bytes=np.zeros(0, np.int64),
        weight_ptr=np.zeros(1, np.int64),
        weight_users=np.zeros(0, np.int32),
        limits=PackageLimits(CHIPS, (1 << 30,) * CHIPS, link, 1e-6, "any", link * 16.0),
        routing="relay",
    )


def found_on(seed: int, text: str) -> Found:
    """What a strategy finds on the graph of a seed."""
    problem = wide_problem(seed)
    periods = AnalyticPeriods(problem)
    evaluations = DEFAULT.evaluations(problem.num_units)
    budget = Budget(evaluations=evaluations, effort_s=DEFAULT.effort_s)
    begin = time.process_time()
    outcome = strategy_of(text).solve(problem, periods, seeded_generator(0, "partition"), budget)
    assert outcome.chip_of is not None, "every package has room for all"
    return {
        "graph": seed,
        "period_s": float(periods(outcome.chip_of)),
        "bound_s": max(lower_bound(problem).seconds, outcome.bound.seconds if outcome.bound else 0),
        "found_by": outcome.found_by,
        "cpu_s": round(time.process_time() - begin, 3),
    }


def bars_of(found: Sequence[Found], before: Sequence[Found]) -> list[Bar]:
    """Periods relative to those of `before`, graph by graph."""
    known = {row["graph"]: row["period_s"] for row in before}
    ratios = [row["period_s"] / known[row["graph"]] for row in found if row["graph"] in known]
    if not ratios:
        return []
    mean = float(np.exp(np.mean(np.log(ratios))))
    return [
        Bar("mean_period_ratio", mean, 1.0, "below", tuple(ratios)),
        Bar("worst_period_ratio", max(ratios), 1.0 + 1e-3, "below", tuple(ratios)),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, and shows what was found beside what is recorded."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="only a part, in less than 50 s")
    parser.add_argument("--record", metavar="NAME", help="keep what is found under this name")
    parser.add_argument("--strategy", default=DEFAULT.strategy, help="another strategy")
    asked = parser.parse_args(arguments)
    if asked.record and asked.quick:
        parser.error("--record needs the whole run, not --quick")
    kept: dict[str, list[Found]] = json.loads(DATA.read_text("utf-8")) if DATA.exists() else {}
    found_on(0, asked.strategy)  # so that kernels are not compiled while the time is taken
    found: list[Found] = []
    for seed in range(QUICK_GRAPHS if asked.quick else GRAPHS):
        found.append(found_on(seed, asked.strategy))
        print(json.dumps(found[-1]), file=sys.stderr, flush=True)
    bars = bars_of(found, kept.get("before", []))
    if asked.record:
        kept[asked.record] = found
        DATA.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    print(as_json(bars, quick=asked.quick) if asked.json else as_table(bars))
    return 0


if __name__ == "__main__":
    sys.exit(main())
