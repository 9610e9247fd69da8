"""Learned and classical search where every sample is measured: MCM on a ring of processes.

Figures 6 and 7 and table 3 of Xie et al. 2022 (MCM), with two and four processes of this machine in
place of its package, and CPU seconds. Searches know the roofline of `cpu-ring`; `dp, measured
kernels` and `dp, roofline` measure nothing but their answer. What was measured is kept, so that a
later run goes on where this one ends.

    PYTHONPATH=. python tools/reproduce/mcm_ring.py --cpu-minutes 10

`tools.reproduce.machines.ring_page` writes the page.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from mcm_study.methods import CONTROL, Method, run_method, standard_methods
from mcm_study.problems import StudyProblem
from mcm_study.recording import RecordedPeriods

from mcm_compiler.contracts.partition import Budget, Ints, PartitionProblem
from mcm_compiler.processes.one_thread import use_one_thread
from mcm_passes.families.ring.contiguous.contiguous_dp import ContiguousDp
from mcm_passes.families.ring.strategies.thompson import Thompson
from mcm_passes.mapping.machine.evaluation import evaluate
from mcm_passes.mapping.machine.periods import AnalyticPeriods
from tools.kept_records import KeptRecords, Record
from tools.reproduce.machines.ring_searches import (
    CHIPS,
    DATA,
    MODELS,
    SAMPLES,
    SEEDS,
    MeasuredRing,
    SpentError,
    cpu_seconds,
    search_key,
)

TAKEN = (
    "random", "sa", "rl", "rl-no-prior", "rl-published", "zero-shot", "zero-shot-no-prior",
    "fine-tuned", "fine-tuned-no-prior",
)  # fmt: skip
"""Of the comparison by a model; those that learn have a control each."""

PATIENCE = 6
"""Rounds without a better partition after which `corrected` ends."""

Search = Callable[[MeasuredRing, int, int], object]
"""Runs a number of samples with a seed."""


def main(arguments: Sequence[str]) -> int:
    """Runs searches that have no record yet, until the CPU seconds are spent."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cpu-minutes", type=float, default=10.0, help="most (10)")
    parser.add_argument("--samples", type=int, nargs="*", default=SAMPLES)
    given = parser.parse_args(arguments)
    use_one_thread()
    records, until_s = KeptRecords(DATA, "code"), cpu_seconds() + 60.0 * given.cpu_minutes
    rings: dict[tuple[str, int], MeasuredRing] = {}
    try:
        for samples, chips, model, seed in itertools.product(
            given.samples, CHIPS, MODELS, range(SEEDS)
        ):
            for name, search in searches(samples, seed).items():
                key = search_key(model, chips, name, samples, seed)
                if records.find(key) is not None:
                    continue
                if (ring := rings.get((model, chips))) is None:
                    ring = rings[model, chips] = MeasuredRing(model, chips, records, until_s)
                found = searched(ring, search, samples, seed)
                head = {"model": model, "chips": chips, "search": name, "seed": seed}
                records.keep({"key": key, **head, "samples": samples, **found})
                print(head, samples, found["steps"][-1:], f"{cpu_seconds():.0f} s", flush=True)
    except SpentError:
        print("the CPU seconds are spent; run again to go on", file=sys.stderr)
    finally:
        for ring in rings.values():
            ring.close()
    return 0


def searched(ring: MeasuredRing, search: Search, samples: int, seed: int) -> Record:
    """The improvements of one search, and how many of its samples did not run."""
    ring.seen.clear()
    search(ring, samples, seed)
    seen = np.array(ring.seen[:samples])
    best = np.minimum.accumulate(seen)
    better = np.flatnonzero(np.isfinite(best) & (best < np.append(np.inf, best[:-1])))
    steps = [(int(at) + 1, float(best[at])) for at in better]
    return {"steps": steps, "seen": len(seen), "failed": int(np.isinf(seen).sum())}


def searches(samples: int, seed: int) -> dict[str, Search]:
    """All searches with a number of samples by name.

    Before a policy's second round of rollouts it is its control, which stands for it.
    """
    published = {m.name: m for m in standard_methods(samples, samples)}
    taken = [published[name] for name in TAKEN]
    taken += [published[one.name + CONTROL] for one in taken if one.kind == "learn"]
    first = [one for one in taken if one.recipe is None or samples > one.recipe.rollouts]
    first += [one for one in taken if one not in first and one.kind != "learn"]
    found = {method.label: _method(method) for method in first}
    found["Thompson"] = _thompson(updates=True)
    found["Thompson, no updates"] = _thompson(updates=False)
    found["corrected"] = _corrected
    if not seed:
        found["dp, roofline"] = lambda ring, n, seed: _dp(ring, ring.problem)
        found["dp, measured kernels"] = lambda ring, n, seed: _dp(ring, ring.in_place)
    return found


def _method(method: Method) -> Search:
    def search(ring: MeasuredRing, samples: int, seed: int) -> None:
        del samples
        study = StudyProblem(ring.problem, 1.0, ring)
        run_method(method, study, seed, RecordedPeriods(study, ()))

    return search


def _thompson(*, updates: bool) -> Search:
    def search(ring: MeasuredRing, samples: int, seed: int) -> None:
        problem, budget = ring.problem, Budget(evaluations=sys.maxsize, evaluator=ring)
        rng = np.random.default_rng(seed)
        strategy = Thompson(samples=samples, updates=updates)
        strategy.solve(problem, AnalyticPeriods(problem), rng, budget)

    return search


def _dp(ring: MeasuredRing, problem: PartitionProblem) -> Ints:
    rng = np.random.default_rng(0)
    found = ContiguousDp().solve(problem, AnalyticPeriods(problem), rng, Budget())
    assert found.chip_of is not None
    ring.evaluate(found.chip_of[None])
    return found.chip_of


def _corrected(ring: MeasuredRing, samples: int, seed: int) -> None:
    """Solves again with times scaled by what each chip was busy for over what was expected.

    Each round sees other units together, so that errors of single units come out (as in the
    algebraic reconstruction technique, Gordon et al. 1970). The seed decides the first times.
    """
    problem, left = ring.problem, PATIENCE
    spread = np.random.default_rng(seed).lognormal(0.0, 0.1 if seed else 0.0, problem.num_units)
    problem = replace(problem, compute_s=problem.compute_s * spread)
    while left and len(ring.seen) < samples:
        best_s = min(ring.seen, default=np.inf)
        chip_of = _dp(ring, problem)
        left = PATIENCE if ring.seen[-1] < best_s else left - 1
        expected_s = evaluate(problem, chip_of).chip_busy_s
        measured_s = ring.evaluate(chip_of[None]).chip_busy_s[0]
        ring.seen.pop()
        busy = expected_s > 0.0
        scale = np.divide(measured_s, expected_s, where=busy, out=np.ones_like(expected_s))
        problem = replace(problem, compute_s=problem.compute_s * scale[chip_of])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
