"""How many valid partitions a second the constraint solver draws, through its batch interface.

`*_per_s` are for 36 chips and two cores that do nothing else: partitions over half the processor
time of the call, so that other load on the machine counts little. `sample` draws by uniform
weights in random node orders, `fix` repairs uniformly random proposals; `topological` decides along
the graph, `reverse` against it. `bert_large_ops` has a unit for every op, `bert_large` and
`resnet50` are fused. Strict means that every dependency spans at most one chip, after cloning.
`nodes_10000` is a random graph of two predecessors a node, nearly all within 50 nodes.
`--update` writes tools/bench/data/solver.json; `--draws N` checks N draws of Hypothesis's choice
instead, and `--authority` asks CP-SAT for some partition and for the nearest one to a valid
partition of which ten nodes are astray; with `--update` both also go into that file.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from harness.bars import Bar, as_json, median_bar
from harness.command_line import Settings, run_script

from mcm_compiler.api import run_passes
from mcm_compiler.contracts.fusion import FUSION_PLAN, FusionPlan
from mcm_compiler.contracts.partition import Ints
from mcm_compiler.contracts.target import Routing
from mcm_compiler.options import CompileOptions
from mcm_hardware.families.ring.ring_target import mcm36
from mcm_passes.families.ring.order_encoding.chip_windows import ChipWindows
from mcm_passes.families.ring.order_encoding.order_literals import OrderLiterals
from mcm_passes.families.ring.placement_constraints.nearest import nearest_chips
from mcm_passes.families.ring.solver.batch import BatchSolver
from mcm_passes.mapping.problem.partition_problem import build_problem
from mcm_passes.mapping.problem.rule_graph import RuleGraph, from_edges, rule_graph

DATA = Path(__file__).with_name("data") / "solver.json"
PROPERTY = Path(__file__).parents[2] / "tests" / "property" / "test_solver_validity.py"
CORES = 2
CHIPS = 36
ROLLOUTS_PER_EXAMPLE = 250
AUTHORITY_S = 10.0


def measure(settings: Settings) -> list[Bar]:
    """All bars, or those of the zoo where `settings.quick`."""
    bars = list(_zoo("resnet50", "resnet50", {"strict": 5000.0}, settings))
    bars += _zoo("bert_large", "bert-large", {"relay": 5000.0, "strict": 1000.0}, settings)
    bars += _zoo("bert_large_ops", "bert-large", {"relay": 3000.0, "strict": 1000.0}, settings)
    if not settings.quick:
        graph = random_graph(10_000, np.random.default_rng(0))
        bars += _rates("nodes_10000", graph, "relay", 500.0, 128, settings)
        bars += _rates("nodes_10000", graph, "strict", 1000.0, 128, settings)
    if settings.update:
        data = json.loads(DATA.read_text("utf-8")) if DATA.exists() else {}
        data |= json.loads(as_json(bars))
        DATA.write_text(json.dumps(data, indent=2) + "\n", "utf-8")
    return bars


def random_graph(num_nodes: int, rng: np.random.Generator) -> RuleGraph:
    """A random connected graph: two predecessors a node, 1 in 50 anywhere before it."""
    target = np.repeat(np.arange(1, num_nodes), 2)
    near = target - 1 - rng.integers(50, size=target.size)
    anywhere = (rng.random(target.size) * target).astype(np.int64)
    source = np.where(rng.random(target.size) < 0.02, anywhere, np.maximum(near, 0))
    return from_edges(source, target, num_nodes, CHIPS)


def _zoo(
    name: str, model_name: str, bars: dict[Routing, float], settings: Settings
) -> Iterator[Bar]:
    for routing, bar in bars.items():
        graph = zoo_graph(model_name, routing, ops=name.endswith("_ops"))
        yield from _rates(name, graph, routing, bar, 512, settings)


def zoo_graph(model_name: str, routing: Routing, ops: bool) -> RuleGraph:
    """The rule graph of a zoo model on `mcm36`, with a node for every op or fused."""
    passes = "annotate_cost" if ops else "simplify,fuse,annotate_cost"
    target = mcm36()
    source = f"zoo:{model_name}{{shape_only=true}}"
    model, _, _ = run_passes(source, target, CompileOptions(passes=passes))
    plan = FusionPlan(()) if ops else FUSION_PLAN.get(model)
    return rule_graph(build_problem(model, target, routing, plan))


def _rates(
    name: str, graph: RuleGraph, routing: Routing, bar: float, count: int, settings: Settings
) -> Sequence[Bar]:
    rng = np.random.default_rng(1)
    solver = BatchSolver.of(graph, routing)
    proposals = rng.integers(0, CHIPS, (count, graph.num_nodes)).astype(np.int32)
    along = np.arange(graph.num_nodes, dtype=np.int32)
    ways: dict[str, Callable[[], Ints]] = {
        "sample": lambda: solver.sample(rng, count),
        "fix": lambda: solver.fix(rng, proposals),
        "sample_topological": lambda: solver.sample(rng, count, orders=along),
        "fix_topological": lambda: solver.fix(rng, proposals, orders=along),
        "sample_reverse": lambda: solver.sample(rng, count, orders=along[::-1]),
        "fix_reverse": lambda: solver.fix(rng, proposals, orders=along[::-1]),
    }
    bars: list[Bar] = []
    for way, draw in ways.items():
        draw()
        rates = [_rate(draw) for _ in range(settings.repetitions)]
        bars.append(median_bar(f"{name}_{routing}_{way}_per_s", rates, bar, "above"))
    return bars


def _rate(draw: Callable[[], Ints]) -> float:
    begin = time.process_time()
    drawn = draw()
    return len(drawn) * CORES / (time.process_time() - begin)


def ask_authority(update: bool) -> int:
    """CPU-seconds of CP-SAT on BERT-large, and whether its answers are proven."""
    found: dict[str, dict[str, float | bool]] = {}
    for ops in (False, True):
        for routing in ("relay", "strict"):
            graph = zoo_graph("bert-large", routing, ops)
            name = f"bert_large_{'ops_' if ops else ''}{routing}"
            found[name] = _questions(graph, routing)
            print(name, json.dumps(found[name]), flush=True)
            if update:
                _keep("authority", found)
    return 0


def _questions(graph: RuleGraph, routing: Routing) -> dict[str, float | bool]:
    rng = np.random.default_rng(3)
    solver = BatchSolver.of(graph, routing)
    wish = solver.sample(rng, 1)[0]
    astray = rng.choice(graph.num_nodes, 10, replace=False)
    wish[astray] = rng.integers(0, CHIPS, 10)
    fixed = solver.fix(rng, np.tile(wish, (256, 1)))
    known = fixed[(fixed != wish).sum(axis=1).argmin()]
    times = [time.process_time()]
    order = OrderLiterals(graph, None, ChipWindows(graph.low, graph.high))
    times.append(time.process_time())
    near = nearest_chips(order, graph, routing, wish, known, AUTHORITY_S)
    times.append(time.process_time())
    build_s, nearest_s = np.diff(times).tolist()
    return {
        "nodes": graph.num_nodes,
        "build_s": build_s,
        "nearest_s": nearest_s,
        "moved_by_fix": int((known != wish).sum()),
        "moved": -1 if near.chip_of is None else int((near.chip_of != wish).sum()),
        "proven": near.proven,
        "deterministic_limit_s": AUTHORITY_S,
    }


def _keep(key: str, value: object) -> None:
    data = json.loads(DATA.read_text("utf-8")) if DATA.exists() else {}
    DATA.write_text(json.dumps(data | {key: value}, indent=2) + "\n", "utf-8")


def check(draws: int, update: bool) -> int:
    """Makes `draws` draws of the property test's kind; raises where one is invalid."""
    from hypothesis import HealthCheck, given, settings

    spec = importlib.util.spec_from_file_location("solver_validity", PROPERTY)
    assert spec is not None
    assert spec.loader is not None
    tests = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tests)
    done, examples = 0, 0

    def one(graph: RuleGraph, routing: Routing, seed: int, own_orders: bool) -> None:
        nonlocal done, examples
        if done < draws:
            done += tests.check_draws(graph, routing, seed, own_orders, ROLLOUTS_PER_EXAMPLE)
            examples += 1

    # Of some graphs no partition is valid, so that nothing is drawn.
    rounds = -(-draws // ROLLOUTS_PER_EXAMPLE)
    slow = settings(
        max_examples=rounds,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
    )
    slow(given(*tests.ARGUMENTS)(one))()
    if done < draws:
        raise RuntimeError(f"only {done} partitions were drawn")
    found = {"draws": done, "examples": examples, "invalid": 0}
    print(json.dumps(found))
    if update:
        _keep("draws", found)
    return 0


def main() -> int:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--draws", type=int)
    parser.add_argument("--authority", action="store_true")
    chosen, others = parser.parse_known_args()
    if chosen.draws is not None:
        return check(chosen.draws, "--update" in others)
    if chosen.authority:
        return ask_authority("--update" in others)
    return run_script(__doc__, measure, can_update=True)


if __name__ == "__main__":
    sys.exit(main())
