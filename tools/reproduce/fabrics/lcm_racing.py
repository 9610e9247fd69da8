"""Do races of plays, or a residual learned from the plays of one problem, beat `ridge, refined`?

    python tools/reproduce/fabrics/lcm_racing.py [--limit "1 s"] [--blocks 24] [--seeds 1]
    python tools/reproduce/fabrics/lcm_racing.py --page      writes the figures into the page

All flows search by `ridge` for the first half of their CPU time and refine the best measured
mapping in the second, as `-O3` does. *Races*: four walks propose a mapping each, all four are
simulated for eight samples, and only the best of them is simulated further, and only if it is not
worse than the current mapping by more than a proposal may be. *Residual*: before each walk, the
coefficients of the ridge are fitted again to all plays of this problem so far, with the shipped
coefficients as the prior. *Both* is their combination. Each cell is added to
`tools/reproduce/data/lcm_racing.json` when its block is done, and is not run again.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, cast
from unittest.mock import patch

import numba
import numpy as np
from lcm_placers import (
    HELD_OUT,
    KINDS,
    MANY,
    PAGE,
    WARM_S,
    Flow,
    blocks,
    cell,
    knows,
    write_section,
)
from lcm_study.flow_table import compared, shared_cells

from mcm_compiler import register
from mcm_compiler.contracts.fabrics.fabric import Fabric, MappingProblem, Mappings
from mcm_compiler.contracts.fabrics.mappers import MapperAnswer, MapperRequest
from mcm_compiler.contracts.fabrics.measurement import Measurements
from mcm_compiler.processes.one_thread import use_one_thread
from mcm_compiler.processes.staging import write_whole
from mcm_hardware.families.fabric.fabric_package import fabric_12
from mcm_hardware.families.fabric.measuring.player import FlitJudge
from mcm_passes.families.fabric.annealing import annealing
from mcm_passes.families.fabric.annealing.annealing import (
    COOLED,
    TOLERANCE,
    Allowance,
    Annealing,
    Stand,
)
from mcm_passes.families.fabric.annealing.walkers import Leg, Walkers
from mcm_passes.families.fabric.formulas.analytic import Formula, PreparedFormula
from mcm_passes.families.fabric.formulas.ridge import features_of
from mcm_passes.families.fabric.formulas.terms import FARTHEST

RECORD = Path(__file__).parents[1] / "data" / "lcm_racing.json"

SAMPLES = 8
"""Samples of a play in a race."""


@dataclass
class Recorder:
    """A simulator that keeps its plays.

    Attributes:
        judge: the simulator.
        plays: mappings and their periods.
    """

    judge: FlitJudge
    plays: list[tuple[Mappings, float]] = field(default_factory=list[tuple[Mappings, float]])

    @property
    def name(self) -> str:
        """Of the simulator."""
        return self.judge.name

    @property
    def physics(self) -> str:
        """Of the simulator."""
        return self.judge.physics

    def bound_cycles(self, problem: MappingProblem, fabric: Fabric) -> float:
        """Of the simulator."""
        return self.judge.bound_cycles(problem, fabric)

    def measure(self, problem: MappingProblem, fabric: Fabric, mappings: Mappings) -> Measurements:
        """Measures and keeps."""
        found = self.judge.measure(problem, fabric, mappings)
        self.plays += [(mappings[k], float(found.period_cycles[k])) for k in range(len(mappings))]
        return found


@dataclass(frozen=True)
class Racing(Annealing):
    """`annealing` whose refinement races plays, or learns from them.

    Attributes:
        racers: proposals of a race; 1 for none.
        prior: weight of the shipped coefficients in the residual, next to one play; 0 for none.
    """

    name: ClassVar[str] = "racing"
    summary: ClassVar[str] = "annealing with races of plays, or a residual learned from plays"

    racers: int = 1
    prior: float = 0.0

    def map(self, request: MapperRequest) -> MapperAnswer:
        """As `annealing`, refined by `raced`."""
        judge = Recorder(cast("FlitJudge", request.judge))
        request = dataclasses.replace(request, judge=judge)
        with patch.object(annealing, "refined_answer", partial(raced, self, request, judge)):
            return super().map(request)


def raced(
    mapper: Racing,
    request: MapperRequest,
    judge: Recorder,
    answer: MapperAnswer,
    _walks: object,
    measure: Any,
    allowance: Allowance,
    leg: Leg,
    rng: np.random.Generator,
) -> MapperAnswer:
    """In place of `refined_answer`, where CPU time is limited."""
    problem, fabric = request.problem, request.fabric
    model = cast("PreparedFormula", request.model)
    short = dataclasses.replace(judge.judge, most_samples=SAMPLES)

    def looked_at(mapping: Mappings) -> tuple[Stand, bool]:
        found = short.measure(problem, fabric, mapping)
        numbers = float(found.period_cycles[0]), float(found.latency_cycles[0])
        return Stand(mapping, *numbers), bool(found.error[0] == 0)

    best = current = Stand(answer.mapping, answer.period_cycles, answer.latency_cycles)
    races = mapper.racers > 1
    first_look = looked_at(current.mapping)[0].period_cycles if races else 0.0
    known = {_key(best.mapping)}
    evaluations, measurements = answer.evaluations, answer.measurements
    started = time.thread_time()
    way = leg._replace(cold=leg.hot * COOLED, narrow=min(1.0, leg.wide))
    steps = allowance.steps // 2 if races else allowance.steps
    cost_s = allowance.cost_s * (mapper.racers if races else 1)
    while (now := time.thread_time()) + cost_s < allowance.ends_at:
        share = (now - started) / max(allowance.ends_at - started, 1e-9)
        heat = TOLERANCE * (1.0 - share)
        formula = corrected(model, judge.plays, mapper.prior) if mapper.prior else model.formula
        looks: list[tuple[Stand, bool]] = []
        for _ in range(mapper.racers):
            chains = Walkers(formula, current.mapping, mapper._shares, rng)  # pyright: ignore[reportPrivateUsage]
            chains.forget()
            chains.go(steps, way)
            evaluations += chains.evaluations
            proposed = chains.best_mappings
            if np.isfinite(chains.best_costs[0]) and _key(proposed) not in known:
                known.add(_key(proposed))
                looks.append(looked_at(proposed) if races else (Stand(proposed, 0.0, 0.0), False))
        if not looks:
            continue
        look, exact = min(looks, key=lambda pair: pair[0].period_cycles)
        limit = 1.0 - heat * math.log1p(-rng.random())
        if races and not exact and look.period_cycles > first_look * limit:
            continue
        found = look if exact else measure(look.mapping)
        measurements += 1
        if found.period_cycles <= current.period_cycles * limit:
            current, first_look = found, look.period_cycles
        if found.period_cycles < best.period_cycles:
            best = found
    return dataclasses.replace(
        answer,
        found=best.mapping,
        evaluations=evaluations,
        measurements=measurements,
        period_cycles=best.period_cycles,
        latency_cycles=best.latency_cycles,
    )


def corrected(
    model: PreparedFormula, plays: Sequence[tuple[Mappings, float]], prior: float
) -> Formula:
    """The ridge with coefficients that were fitted again to plays."""
    formula = model.formula
    terms = np.concatenate([model.terms(mapping) for mapping, _ in plays])
    features, slowest = features_of(terms)
    away = np.clip((features - formula.centre) / formula.spread, -FARTHEST, FARTHEST)
    columns = np.concatenate([np.ones((len(away), 1)), away], axis=1)
    left = np.log([period for _, period in plays] / slowest) - columns @ formula.weights
    normal = columns.T @ columns + prior * np.eye(columns.shape[1])
    return formula._replace(weights=formula.weights + np.linalg.solve(normal, columns.T @ left))


def _key(mapping: Mappings) -> bytes:
    return mapping.site.tobytes() + mapping.turn.tobytes()


BASE = "ridge, refined"
FLOWS = tuple(
    Flow(name, "ridge", MANY, mapper, fitted=True)
    for name, mapper in (
        (BASE, "annealing"),
        ("ridge, races of four", "racing{racers=4}"),
        ("ridge, residual", "racing{prior=0.5}"),
        ("ridge, both", "racing{prior=0.5,racers=4}"),
    )
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs what is missing; prints or writes what is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", default="1 s")
    parser.add_argument("--blocks", type=int, default=24)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--page", action="store_true")
    given = parser.parse_args(argv)
    use_one_thread()
    if not given.page:
        run(given.limit, given.blocks, given.seeds)
    text = page_of(json.loads(RECORD.read_text(encoding="utf-8"))["rows"])
    print(text)
    if given.page:
        write_section("racing", text, PAGE)
    return 0


def run(limit: str, count: int, seeds: int) -> None:
    """All cells of a limit that are not there, block by block."""
    register("mapper")(Racing)
    fabric = fabric_12().fabric
    rows: list[dict[str, Any]] = []
    if RECORD.exists():
        rows = json.loads(RECORD.read_text(encoding="utf-8"))["rows"]
    there = {(row["limit"], row["flow"], row["block"], row["seed"]) for row in rows}
    problems = list(blocks(fabric, HELD_OUT, count, most_cycles=KINDS["short"].most))
    for flow in FLOWS:
        cell(flow, fabric, problems[0], 0, f"{WARM_S} s", "short")
    for seed in range(seeds):
        for problem in problems:
            for flow in FLOWS:
                if (limit, flow.name, problem.name, seed) not in there:
                    rows.append(cell(flow, fabric, problem, seed, limit, "short"))
            script = "python tools/reproduce/fabrics/lcm_racing.py"
            record = {
                "command": f'{script} --limit "{limit}" --seeds {seeds}',
                "versions": {
                    "python": platform.python_version(),
                    "numpy": np.__version__,
                    "numba": numba.__version__,
                },
                "knows": knows(FLOWS[0]),
                "rows": rows,
            }
            write_whole(RECORD, (json.dumps(record, indent=1) + "\n").encode())


def page_of(rows: Sequence[dict[str, Any]]) -> str:
    """A line for each limit."""
    lines: list[str] = []
    names = [flow.name for flow in FLOWS]
    for limit in sorted({row["limit"] for row in rows}):
        there = [row for row in rows if row["limit"] == limit]
        found = [f"{row.flow} {row.text}" for row in compared(there, names, BASE)[1:]]
        lines.append(f"- {limit}, {len(shared_cells(there, names))} cells: {'; '.join(found)}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
