"""Fits the mapping model `ridge` to measured mappings of training blocks.

    python tools/reproduce/fabrics/lcm_ridge.py [--blocks 30] [--write]

Of each block, mappings of three sorts are measured: random ones, ones built along the flow of data,
and ones that searches of all lengths find by each formula. With `--write` the coefficients go to
`ridge.json` beside the model, with what they hold for and where they come from. Errors are of five
folds by block: of the throughput, and beside them those of `round-trips` on the same samples.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time

import numpy as np
from lcm_study.blocks import TRAINING, blocks

from mcm_compiler.arrays.types import Floats
from mcm_compiler.contracts.fabrics.fabric import Fabric, MappingProblem, Mappings
from mcm_compiler.contracts.fabrics.mappers import MapperRequest
from mcm_hardware.families.fabric.fabric_package import fabric_12
from mcm_hardware.families.fabric.layout.rules import lowering_hash
from mcm_hardware.families.fabric.measuring.player import FlitJudge
from mcm_passes.families.fabric.annealing.annealing import Annealing
from mcm_passes.families.fabric.annealing.starts import built_mappings, random_mappings
from mcm_passes.families.fabric.formulas.analytic import Busiest, Heuristic, RoundTrips, WireLength
from mcm_passes.families.fabric.formulas.ridge import (
    SHIPPED_RIDGE,
    Coefficients,
    features_of,
    fitted,
    ridge_card,
    save_ridge,
)
from mcm_passes.families.fabric.formulas.terms import FARTHEST
from mcm_passes.families.fabric.routing_trees import tables_of

JUDGE = FlitJudge(most_work=150_000, most_samples=200)
LARGEST_ERROR = 0.02


def main() -> int:
    """Collects, fits, tells, and writes if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=30)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    begin = time.process_time()
    fabric = fabric_12().fabric
    terms, periods, graphs = [], [], []
    for number, problem in enumerate(blocks(fabric, TRAINING, args.blocks)):
        mappings = _samples(problem, fabric, number)
        measured = JUDGE.measure(problem, fabric, mappings)
        sure = measured.error <= LARGEST_ERROR
        terms.append(RoundTrips().prepared(problem, fabric).terms(mappings)[sure])
        periods.append(measured.period_cycles[sure])
        graphs.append(np.full(int(sure.sum()), number))
        spent = time.process_time() - begin
        print(f"{number} {problem.name} {int(sure.sum())} samples, {spent:.0f} s", flush=True)
    all_terms, all_periods = np.concatenate(terms), np.concatenate(periods)
    scores = _scores(all_terms, all_periods, np.concatenate(graphs))
    print(json.dumps(scores))
    found = fitted(all_terms, all_periods)
    if args.write:
        _write(found, fabric, len(all_periods), args.blocks, scores)
    return 0


def _samples(problem: MappingProblem, fabric: Fabric, seed: int) -> Mappings:
    rng = np.random.default_rng(seed)
    parts = [
        random_mappings(problem, fabric, 3, rng),
        built_mappings(problem, tables_of(problem, fabric), 1, rng),
    ]
    models = (WireLength(), Heuristic(), Busiest(), RoundTrips(), RoundTrips(1.0), RoundTrips(4.0))
    for number, model in enumerate(models):
        evaluations = int(np.exp(rng.uniform(np.log(500), np.log(30_000))))
        prepared = model.prepared(problem, fabric)
        request = MapperRequest(
            problem, fabric, prepared, JUDGE, 0, evaluations=evaluations, seed=number
        )
        parts.append(Annealing(chains=1).map(request).mapping)
    return Mappings.stacked(parts)


def _scores(terms: Floats, periods: Floats, graphs: np.ndarray) -> dict[str, float]:
    expected = np.empty(len(periods))
    for fold in range(5):
        held = graphs % 5 == fold
        found = fitted(terms[~held], periods[~held])
        expected[held] = _expected(found, terms[held])
    plain = features_of(terms)[1]
    return {
        "relative_error": round(float(np.abs(periods / expected - 1).mean()), 4),
        "relative_error_of_round_trips": round(float(np.abs(periods / plain - 1).mean()), 4),
    }


def _expected(found: Coefficients, terms: Floats) -> Floats:
    features, most = features_of(terms)
    away = np.clip((features - found.centre) / found.spread, -FARTHEST, FARTHEST)
    factor = np.exp(np.clip(found.weights[0] + away @ found.weights[1:], -1, 1))
    return np.maximum(most * factor, terms[:, 0])


def _write(
    found: Coefficients, fabric: Fabric, samples: int, count: int, scores: dict[str, float]
) -> None:
    provenance = {
        "command": f"python tools/reproduce/fabrics/lcm_ridge.py --blocks {count} --write",
        "blocks": count,
        "samples": samples,
        "numpy": np.__version__,
        "python": platform.python_version(),
        **scores,
    }
    card = ridge_card(found, fabric, (lowering_hash(), JUDGE.physics), provenance)
    save_ridge(SHIPPED_RIDGE, card)


if __name__ == "__main__":
    sys.exit(main())
