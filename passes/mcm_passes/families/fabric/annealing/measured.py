"""The end of every mapper: the best candidates are measured, and the best measured one wins."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from mcm_compiler.arrays.types import Floats
from mcm_compiler.contracts.fabrics.fabric import Mappings
from mcm_compiler.contracts.fabrics.mappers import MapperAnswer, MapperRequest
from mcm_compiler.contracts.fabrics.models import PreparedMappingModel
from mcm_compiler.diagnostics import CompileError


def distinct(mappings: Mappings, costs: Floats, most: int) -> Mappings:
    """The cheapest of candidates, each once, cheapest first."""
    both = np.concatenate([mappings.site, mappings.turn], axis=1)
    _, first = np.unique(both, axis=0, return_index=True)
    order = first[np.argsort(costs[first], kind="stable")][: max(most, 1)]
    return Mappings(mappings.site[order], mappings.turn[order])


def time_of_measurement(request: MapperRequest, start: Mappings) -> float:
    """CPU time that one measurement takes; 0 where time is not limited or nothing is measured."""
    if request.budget_s is None or request.measurements == 0:
        return 0.0
    begin = time.thread_time()
    request.judge.measure(request.problem, request.fabric, start)
    return time.thread_time() - begin


def measured_answer(
    request: MapperRequest, candidates: Mappings, found: MapperAnswer
) -> MapperAnswer:
    """Measures candidates and answers with the one with the shortest period.

    Args:
        request: with the simulator, and the model, which says the period where nothing may be
            measured.
        candidates: cheapest first; ones that are equally fast keep that order.
        found: what is known so far; `measurements` says how many candidates may be measured.
    """
    count = min(found.measurements, len(candidates))
    if count == 0:
        period = float(asked_periods(request.model, candidates[0])[0])
        return replace(found, found=candidates[0], measurements=0, period_cycles=period)
    chosen = Mappings(candidates.site[:count], candidates.turn[:count])
    results = request.judge.measure(request.problem, request.fabric, chosen)
    best = int(np.argmin(results.period_cycles))
    cycles = results.period_cycles[best]
    request.progress(f"{request.problem.name}: {cycles:.0f} cycles measured, best of {count}")
    return replace(
        found,
        found=chosen[best],
        measurements=count,
        period_cycles=float(cycles),
        latency_cycles=float(results.latency_cycles[best]),
    )


NO_PERIODS = "MCM-M041"
"""Code of answers that are not finite and positive."""


def asked_costs(model: PreparedMappingModel, mappings: Mappings) -> Floats:
    """`[B]`, what search minimises.

    Raises:
        CompileError: MCM-M040 where the model answers with another shape than one number per
            mapping; MCM-M041 where one is not finite and positive.
    """
    return _checked(model, "search_cost", model.search_cost(mappings), len(mappings))


def asked_periods(model: PreparedMappingModel, mappings: Mappings) -> Floats:
    """`[B]`, the periods that it expects; raises as `asked_costs`."""
    return _checked(model, "period_cycles", model.period_cycles(mappings), len(mappings))


def _checked(model: PreparedMappingModel, method: str, answer: object, count: int) -> Floats:
    name = type(model).__name__
    try:
        values = np.asarray(answer, np.float64)
    except (TypeError, ValueError):
        values = None
    if values is None or values.shape != (count,):
        found = type(answer).__name__ if values is None else f"shape {values.shape}"
        raise CompileError.of(
            "MCM-M040",
            f"{method} was asked about {count} mappings and answered {found}",
            at=f"mapping model {name}",
            hint="A mapping model answers with one number per mapping, shape "
            f"({count},); fix the model, or choose another one.",
        )
    wrong = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
    if len(wrong):
        raise CompileError.of(
            NO_PERIODS,
            f"{method} answered {values[wrong[0]]} for mapping {wrong[0]}; {len(wrong)} of "
            f"{count} answers are no finite numbers above 0",
            at=f"mapping model {name}",
        )
    return values
