"""Pipeline planning as a whole: several methods, and the best of what they find."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.text.units import bytes_text
from mcm_models.pipelines.problem import Pipeline, PipelineProblem
from mcm_passes.parallelism.pipelines.baselines import balanced, descended, random_search
from mcm_passes.parallelism.pipelines.exact import best_pipeline, least_memory

Method = Literal["exact", "dqn", "policy", "descent", "balanced", "random"]

RANDOM_SAMPLES = 1_000


@dataclass(frozen=True)
class MethodOutcome:
    """What one method found.

    Attributes:
        method: which.
        pipeline: what it found; None if nothing that fits.
        seconds: wall time.
        gap: length over the exact optimum's, minus 1; None where there is none to compare with.
    """

    method: Method
    pipeline: Pipeline | None
    seconds: float
    gap: float | None


@dataclass(frozen=True)
class PipelinePlan:
    """The best pipeline, and how every method did.

    Attributes:
        pipeline: the shortest of all.
        found_by: the first method that found it.
        outcomes: of all methods, in the order asked for.
    """

    pipeline: Pipeline
    found_by: Method
    outcomes: tuple[MethodOutcome, ...]


def plan_pipeline(
    problem: PipelineProblem,
    methods: Sequence[Method] = ("exact", "descent", "balanced"),
    seed: int = 0,
    at: str | None = None,
) -> PipelinePlan:
    """Runs methods and keeps the shortest pipeline.

    Args:
        problem: what is decided.
        methods: which to run; gaps are told where `exact` is among them.
        seed: of those that draw.
        at: what diagnostics call the model.

    Raises:
        CompileError: MCM-S042 if nothing fits into memory, MCM-S043 if there are more stages than
            parts or devices.
    """
    _check(problem, at)
    runs: list[tuple[Method, Pipeline | None, float]] = []
    for method in methods:
        started = time.perf_counter()
        found = _SEARCHES[method](problem, seed) if problem.stages > 1 else balanced(problem)
        usable = found if found is not None and found.length_s < float("inf") else None
        runs.append((method, usable, time.perf_counter() - started))
    exact = next((p.length_s for m, p, _ in runs if m == "exact" and p is not None), None)
    outcomes = tuple(
        MethodOutcome(
            method,
            pipeline,
            seconds,
            None if exact is None or pipeline is None else pipeline.length_s / exact - 1.0,
        )
        for method, pipeline, seconds in runs
    )
    candidates: list[tuple[Pipeline, Method]] = [
        (o.pipeline, o.method) for o in outcomes if o.pipeline is not None
    ]
    if not candidates:
        fallback = best_pipeline(problem)
        if fallback is None:
            raise _out_of_memory(problem, at)
        return PipelinePlan(fallback, "exact", outcomes)
    best, method = min(candidates, key=lambda pair: pair[0].length_s)
    return PipelinePlan(best, method, outcomes)


def _check(problem: PipelineProblem, at: str | None) -> None:
    most = min(problem.num_parts, problem.devices.num_devices)
    least = least_memory(problem) if problem.stages <= most else float("inf")
    if problem.stages > most or least == float("inf"):
        raise CompileError(
            Diagnostic(
                "MCM-S043",
                f"the model cannot be cut into {problem.stages} stages: it has "
                f"{problem.num_parts} parts between which cuts are allowed, and there are "
                f"{problem.devices.num_devices} devices",
                at=at,
                hint="ask for fewer stages",
            )
        )
    if least > problem.devices.memory_bytes:
        raise _out_of_memory(problem, at)


def _out_of_memory(problem: PipelineProblem, at: str | None) -> CompileError:
    least = least_memory(problem)
    return CompileError(
        Diagnostic(
            "MCM-S042",
            f"no pipeline of {problem.stages} stages fits: the one that needs least has "
            f"{bytes_text(int(least))} on a device, which has "
            f"{bytes_text(int(problem.devices.memory_bytes))}",
            at=at if at is None else quote(at),
            hint="take more stages or a larger cluster, an optimiser with less state (adafactor, "
            "sgd), a smaller micro-batch, or recompute activations",
        )
    )


def _learned_online(problem: PipelineProblem, seed: int) -> Pipeline | None:
    from mcm_passes.parallelism.pipelines.online import learn_online

    return learn_online(problem, seed).pipeline


def _policy(problem: PipelineProblem, seed: int) -> Pipeline | None:
    from mcm_models.pipelines.policy_checkpoint import load_pipeline_policy
    from mcm_models.pipelines.policy_inference import infer_pipeline
    from mcm_models.pipelines.tables import pipeline_tables

    del seed
    network, _ = load_pipeline_policy()
    return infer_pipeline(network, pipeline_tables(problem), problem.stages, descent=True)


def _random(problem: PipelineProblem, seed: int) -> Pipeline:
    return random_search(problem, RANDOM_SAMPLES, seed)


def _exact(problem: PipelineProblem, seed: int) -> Pipeline | None:
    del seed
    return best_pipeline(problem)


def _descent(problem: PipelineProblem, seed: int) -> Pipeline:
    del seed
    return descended(problem)


def _balanced(problem: PipelineProblem, seed: int) -> Pipeline:
    del seed
    return balanced(problem)


_SEARCHES: dict[Method, Callable[[PipelineProblem, int], Pipeline | None]] = {
    "exact": _exact,
    "dqn": _learned_online,
    "policy": _policy,
    "descent": _descent,
    "balanced": _balanced,
    "random": _random,
}
