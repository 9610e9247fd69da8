"""Compiles of one model for several targets at once, up to the simulation: points."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import msgspec
import numpy as np
import onnx_ir as ir

from mcm_compiler.components.target_loading import described
from mcm_compiler.contracts.chips import CHIP_MODELS, MAPPED_CHIPS
from mcm_compiler.contracts.partition import PARTITION, PARTITION_PROBLEM
from mcm_compiler.contracts.program import PROGRAM, SIMULATION
from mcm_compiler.contracts.replication import DIVISION, REPLICATION, Placement, Replication
from mcm_compiler.contracts.target import Target
from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity
from mcm_compiler.diagnostics.refusals import is_of_the_moment
from mcm_compiler.machines.package_limits import PackageLimits, area_of
from mcm_compiler.options import CompileOptions
from mcm_compiler.pipeline.pass_manager import PassManager
from mcm_compiler.pipeline.passes import AnyKey, Pass, PassContext
from mcm_compiler.processes.bounded_child import answers_of_children, can_fork, may_fork
from mcm_compiler.processes.staging import staging
from mcm_compiler.report.hardware.energy_section import energy_facts
from mcm_compiler.report.hardware.figures import gap, package_figures
from mcm_compiler.results.points import PlacedPoint
from mcm_compiler.variants.prepared_model import kept_copy

_WANTED: tuple[AnyKey, ...] = (
    PARTITION, PARTITION_PROBLEM, CHIP_MODELS, MAPPED_CHIPS, PROGRAM, SIMULATION, REPLICATION,
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Prepared:
    """A model that waits for targets.

    Attributes:
        model: behind the passes that are the same for all of them; never changed.
        passes: the others.
        options: of the compile.
    """

    model: ir.Model
    passes: tuple[Pass, ...]
    options: CompileOptions


def point_of(prepared: Prepared, target: Target, known: tuple[Placement, ...] = ()) -> PlacedPoint:
    """The figures of a compile for `target`, with its placement; faults where there is none.

    No slower than with any of the placements that are known, as far as they can be on the target.
    Where one is of ops that were divided or copied for less, or whose kernels leave something
    idle, another compile does likewise, and the faster one counts. Changes `prepared.model`.
    """
    ways = [
        (one, way) for one in known if (way := chosen_as(prepared, target, one)) is not prepared
    ]
    kept = kept_copy(prepared.model) if ways else prepared.model
    best = _point(prepared, target, known)
    for one, way in ways:
        if not is_of(one, best.get("placement")):
            found = _point(replace(way, model=kept_copy(kept)), target, (one,), one)
            best = found if faster(found, best) else best
    return best


def chosen_as(prepared: Prepared, target: Target, like: Placement) -> Prepared:
    """With the passes and the cost model of a placement, as far as they are for less.

    `prepared` itself where it makes no difference.
    """
    limits, options = target.limits, prepared.options
    chips = like["chips"] if like["chips"] < limits.num_chips else 0
    sram_bytes = like["sram_bytes"] if like["sram_bytes"] < max(limits.sram_bytes) else 0
    passes = tuple(one.for_chips_of(chips, sram_bytes) for one in prepared.passes)
    if (division := like.get("division")) is not None:
        passes = tuple(one.divided_as(division) for one in passes)
    asked = like.get("cost_model", options.cost_model)
    if passes == prepared.passes and asked == options.cost_model:
        return prepared
    return replace(prepared, passes=passes, options=replace(options, cost_model=asked))


def is_of(placement: Placement, other: Placement | None) -> bool:
    """True if two placements are of the same units, with the same copies and cost model."""
    return other is not None and _units(placement) == _units(other)


def _units(placement: Placement) -> tuple[Set[str], list[str], str | None]:
    return placement["chip_of"].keys(), placement["copied"], placement.get("cost_model")


def _point(
    prepared: Prepared, target: Target, known: tuple[Placement, ...], like: Placement | None = None
) -> PlacedPoint:
    model, options = prepared.model, prepared.options
    try:
        with staging(None) as stage:
            package = described(target, options)
            # Warnings and notes are those of the compile itself.
            context = PassContext(package, options, stage, lambda _: None, known=known)
            PassManager(prepared.passes).run(model, context, _WANTED)
            return compiled_point(model, context.target, like)
    except CompileError as error:
        return failed_point(error.diagnostics)


ROUNDING = 1e-9
"""Share by which periods that are equal may differ."""


def faster(one: PlacedPoint, other: PlacedPoint) -> bool:
    """True if a point has a shorter period than another, beyond rounding, or alone has one."""
    one_s, other_s = one["period_s"] or math.inf, other["period_s"] or math.inf
    return one_s < other_s * (1.0 - ROUNDING)


def no_slower(point: PlacedPoint, less: PlacedPoint, target: Target) -> PlacedPoint:
    """The point of a target that has no less of any resource than that of `less` has.

    Kernels may take longer on a larger array, and services may be in an order that costs more.
    A target can do without what it has more; where that is faster, the figures are those of `less`.
    Its bound is then the lower of both. A compile that failed for a moment stays one that failed.
    """
    passing = any(is_of_the_moment(fault["code"]) for fault in point["faults"])
    if passing or not faster(less, point):
        return point
    bounded = less if (less["lower_bound_s"] or 0.0) < (point["lower_bound_s"] or 0.0) else point
    found = {**point, **less, "idle": True, "lower_bound_s": bounded["lower_bound_s"]}
    found["bound_proof"] = bounded["bound_proof"]
    found["gap"] = gap(less["period_s"], bounded["lower_bound_s"])
    found["chips"] = target.limits.num_chips
    found["sram_bytes"] = sum(target.limits.sram_bytes)
    if (area := area_of(target)) is not None:
        found["package_mm2"] = area
    return cast("PlacedPoint", found)


def compiled_point(model: ir.Model, target: Target, like: Placement | None = None) -> PlacedPoint:
    """The figures of a compiled model, with its placement.

    Args:
        model: behind the passes.
        target: that it was compiled for.
        like: the placement whose choices it was compiled with; None for those of the target.
    """
    found = _facts(model, target)
    if (placement := _placement_of(model, target.limits, like)) is not None:
        found["placement"] = placement
    return found


def _placement_of(
    model: ir.Model, limits: PackageLimits, like: Placement | None
) -> Placement | None:
    problem, partition = PARTITION_PROBLEM.find(model), PARTITION.find(model)
    if problem is None or partition is None:
        return None
    replication = REPLICATION.find(model)
    chips, sram_bytes = limits.num_chips, max(limits.sram_bytes)
    found: Placement = {
        "replicas": replication.replicas if replication else 1,
        "chips": min(like["chips"], chips) if like else chips,
        "sram_bytes": min(like["sram_bytes"], sram_bytes) if like else sram_bytes,
        "chip_of": dict(zip(problem.names, partition.chip_of.tolist(), strict=True)),
        "copied": [problem.names[unit] for unit in np.flatnonzero(problem.clonable).tolist()],
    }
    if (division := DIVISION.find(model)) is not None:
        found["division"] = division
    if like is not None and "cost_model" in like:
        found["cost_model"] = like["cost_model"]
    return found


def failed_point(diagnostics: Sequence[Diagnostic]) -> PlacedPoint:
    """A point that there is no compile of, and why."""
    errors = [d for d in diagnostics if d.severity is Severity.ERROR]
    return {
        "throughput_per_s": None,
        "period_s": None,
        "latency_s": None,
        "lower_bound_s": None,
        "bound_proof": None,
        "gap": None,
        "chips": None,
        "chips_used": None,
        "sram_bytes": None,
        "faults": [{"code": d.code, "message": d.message, "hint": d.hint} for d in errors],
    }


def points_of(
    prepared: Prepared,
    asked: Sequence[tuple[Target, tuple[Placement, ...]]],
    at_once: int,
    *,
    warm: bool = False,
) -> Generator[tuple[int, PlacedPoint]]:
    """The points of several targets.

    They are compiled in forked children, which share the model and all kernels that are compiled
    already. Where this process may not fork, one after the other here; the figures are the same.

    Args:
        prepared: the model.
        asked: targets, each loaded and without faults, with known placements as in `point_of`.
        at_once: children at a time.
        warm: compile the first one here, so that the children find all kernels loaded.

    Yields:
        `(index, point)` as they come.
    """
    begin = len(asked)
    if can_fork() and may_fork():
        begin = min(int(warm), begin)
    for index, (target, known) in enumerate(asked[:begin]):
        yield index, point_of(replace(prepared, model=kept_copy(prepared.model)), target, known)
    works: list[Callable[[], bytes]] = [partial(_encoded, prepared, *one) for one in asked[begin:]]
    for position, answer in answers_of_children(works, at_once):
        index = begin + position
        if isinstance(answer, int):
            yield index, failed_point([_died(answer)])
        else:
            yield index, msgspec.json.decode(answer, type=PlacedPoint)


def _encoded(prepared: Prepared, target: Target, known: tuple[Placement, ...]) -> bytes:
    return msgspec.json.encode(point_of(prepared, target, known))


def _facts(model: ir.Model, target: Target) -> PlacedPoint:
    chips, replication = CHIP_MODELS.find(model) or (), REPLICATION.find(model)
    figures = package_figures(SIMULATION.find(model), PARTITION.find(model), replication)
    graphs = {chip.chip: chip.model.graph for chip in chips}
    side = replication or Replication(1, target.limits.num_chips)
    simulation = SIMULATION.find(model)
    energy = energy_facts(target, graphs, simulation, side.replicas, side.round)
    found: PlacedPoint = {
        "throughput_per_s": figures.throughput_per_s,
        "period_s": figures.period_s,
        "latency_s": figures.latency_s,
        "lower_bound_s": figures.bound_s,
        "bound_proof": (figures.bound.proof or None) if figures.bound else None,
        "gap": gap(figures.period_s, figures.bound_s),
        "chips": target.limits.num_chips,
        "chips_used": side.replicas * len(chips),
        "sram_bytes": sum(target.limits.sram_bytes),
        "faults": [],
    }
    if energy is not None:
        found["energy_j"] = energy["total_j"]
        if energy["energy_delay_js"] is not None:
            found["energy_delay_js"] = energy["energy_delay_js"]
    if (area := area_of(target)) is not None:
        found["package_mm2"] = area
    return found


def _died(code: int) -> Diagnostic:
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return Diagnostic("MCM-U037", f"the process that compiled this point ended with {how}")
