"""Explores: every model on every variant of a target, in processes, and what is on the front."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from pathlib import Path, PurePath
from typing import Any, Final

import numpy as np

from mcm_compiler.api import prepare_model
from mcm_compiler.arrays.types import Bools
from mcm_compiler.components.target_loading import given_target
from mcm_compiler.contracts import zoo
from mcm_compiler.contracts.levels import load_level
from mcm_compiler.contracts.replication import Placement
from mcm_compiler.contracts.requests import ExploreOptions, Measure
from mcm_compiler.contracts.target import OrdersKeys, Target
from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.diagnostics.refusals import is_of_the_moment
from mcm_compiler.execution.workers import other_files, results_of_workers
from mcm_compiler.exploration.journal import (
    Exploration,
    ExploredModel,
    ExploredPoint,
    Journal,
    request_digest,
)
from mcm_compiler.exploration.sweeps import Settings, Sweep, Variant, parse_sweep, variants_of
from mcm_compiler.exploration.texts import Explored, setting_text
from mcm_compiler.graph.source import SOURCE
from mcm_compiler.options import CompileOptions
from mcm_compiler.pipeline.pass_manager import silent
from mcm_compiler.pipeline.passes import parse_pipeline, print_pipeline
from mcm_compiler.processes.side_by_side import usable_cores
from mcm_compiler.processes.staging import refuse_irregular
from mcm_compiler.report.versions import versions
from mcm_compiler.results.points import PlacedPoint, without_placement
from mcm_compiler.variants.points import (
    Prepared,
    failed_point,
    faster,
    no_slower,
    point_of,
    points_of,
)
from mcm_compiler.variants.prepared_model import kept_copy, split_pipeline
from mcm_compiler.variants.sensitivities import content_text

_ROWS = 256
"""Points that are compared with all others at once."""

MEASURES: Final[Mapping[Measure, Callable[[Mapping[str, Any]], float | None]]] = {
    "throughput": lambda point: (
        None if point["throughput_per_s"] is None else -point["throughput_per_s"]
    ),
    "latency": lambda point: point["latency_s"],
    "chips": lambda point: point["chips"],
    "sram": lambda point: point["sram_bytes"],
    "area": lambda point: point.get("package_mm2"),
    "energy": lambda point: point.get("energy_j"),
}
"""Period by which a point is ranked, less being better; None where it is unknown."""


def known_measures(points: Sequence[Mapping[str, Any]]) -> tuple[Measure, ...]:
    """Measures that all points that ran know, in the order of `MEASURES`."""
    ran = [point for point in points if not point["faults"]]
    return tuple(
        name for name, of in MEASURES.items() if all(of(point) is not None for point in ran)
    )


def on_front(points: Sequence[Mapping[str, Any]], measures: Sequence[Measure]) -> list[bool]:
    """Return whether each point is on the front: none is as good in all measures and better in one.

    Of points that are equal in all of them each is. Those that did not run are not.

    Args:
        points: as `PointFacts`.
        measures: names from `MEASURES`, which all points that ran know.
    """
    ran = [at for at, point in enumerate(points) if not point["faults"]]
    values = np.array(
        [[MEASURES[name](points[at]) for name in measures] for at in ran], np.float64
    ).reshape(len(ran), len(measures))
    beaten = _beaten(values)
    front = {at for at, lost in zip(ran, beaten.tolist(), strict=True) if not lost}
    return [at in front for at in range(len(points))]


def _beaten(values: np.ndarray[Any, np.dtype[np.float64]]) -> Bools:
    """`[points]`, whether another row is nowhere greater and somewhere less."""
    beaten = np.zeros(len(values), np.bool_)
    for begin in range(0, len(values), _ROWS):
        rows = values[begin : begin + _ROWS, None, :]
        as_good = (values[None] <= rows).all(axis=2)
        better = (values[None] < rows).any(axis=2)
        beaten[begin : begin + _ROWS] = (as_good & better).any(axis=-1)
    return beaten


def explore(
    models: str | Path | Sequence[str | Path],
    target: str | Path | Target = "mcm36",
    asked: ExploreOptions | Mapping[str, Sequence[bool | float | str]] | None = None,
    options: CompileOptions | None = None,
    *,
    journal: Path | None = None,
    force: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Explored:
    """Compiles models for all combinations of values of a target's keys, up to the simulation.

    A model that cannot be read, and a variant that is no target or that a model does not fit, is
    named in the result; the rest goes on.

    Args:
        models: a path or `zoo:NAME`, or several.
        target: a name, a path of a description, or a target.
        asked: values by key of the description, such as `{"chip.sram_mib": (16, 32)}`, or options.
        options: of the compiles.
        journal: file that keeps what is found, for the option `resume`.
        force: remove a journal that is left, but to resume.
        progress: called with how far it is.

    Returns:
        The result, and the journal, which is to be ended when the result is written.

    Raises:
        CompileError: MCM-U060 for a pipeline that simulates nothing, MCM-U061 and MCM-U062 for
            sweeps, MCM-U063 for a journal, also one of a model that has changed since; as
            `results_of_workers`.
    """
    named = [models] if isinstance(models, str | Path) else models
    if not isinstance(asked, ExploreOptions):
        swept = (asked or {}).items()
        texts = (f"{key}={','.join(map(setting_text, each))}" for key, each in swept)
        asked = ExploreOptions(tuple(texts))
    names, package = tuple(map(str, named)), given_target(target)
    options = options or CompileOptions()
    # What is malformed or unknown is refused before anything is read or removed.
    sweeps = tuple(map(parse_sweep, asked.sweeps))
    if journal is not None and force and not asked.resume:
        refuse_irregular(journal)
        journal.unlink(missing_ok=True)
    load_level(options.level)
    passes = parse_pipeline(options.passes)
    split_pipeline(passes, options.passes, "explore")
    variants = variants_of(package, sweeps, options)
    digest = _digest(names, package, sweeps, options)
    kept = None if journal is None else Journal(journal, digest, resume=asked.resume)
    work = _Work(package, asked, options, variants, kept, progress or silent)
    found: Exploration = {
        "schema_version": 1,
        "target": {
            "name": package.name,
            "sha256": hashlib.sha256(package.source_text.encode()).hexdigest(),
        },
        "sweeps": [{"key": one.key, "values": list(one.values)} for one in sweeps],
        "pipeline": print_pipeline(passes),
        "level": options.level,
        "partitioner": options.partitioner,
        "seed": options.seed,
        "models": [work.model(at, name) for at, name in enumerate(names)],
        "versions": versions(),
    }
    return Explored(found, kept)


def _digest(
    names: Sequence[str], target: Target, sweeps: Sequence[Sweep], options: CompileOptions
) -> str:
    """Identify a request, as far as points depend on it; models have hashes."""
    return request_digest(
        {
            "models": names,
            "target": content_text(target.source_text),
            "sweeps": [asdict(sweep) for sweep in sweeps],
            "options": asdict(replace(options, sources={})),
            "versions": versions(),
        }
    )


@dataclass
class _Work:
    target: Target
    asked: ExploreOptions
    options: CompileOptions
    variants: Sequence[Variant]
    journal: Journal | None
    progress: Callable[[str], None]

    def model(self, at: int, name: str) -> ExploredModel:
        shown = name if name.startswith(zoo.PREFIX) else PurePath(name).name
        self.progress(f"{shown}: import")
        try:
            prepared = prepare_model(name, self.target, self.options)
        except CompileError as error:
            faults = failed_point(error.diagnostics)["faults"]
            return {"name": shown, "sha256": None, "measures": [], "points": [], "faults": faults}
        sha256 = SOURCE.get(prepared.model).sha256
        points = self._known(at, name, sha256)
        asked = {
            index: (one.target, ())
            for index, one in enumerate(self.variants)
            if one.target is not None and index not in points
        }
        indices = [*asked]
        found = self._points(name, prepared, sha256, [*asked.values()])
        for number, (which, point) in enumerate(found, start=1):
            points[indices[which]] = point
            # A kill may reach the process of a point first.
            passing = any(is_of_the_moment(fault["code"]) for fault in point["faults"])
            if self.journal is not None and not passing:
                self.journal.add((at, indices[which]), sha256, point)
            self.progress(f"{shown}: {number} of {len(asked)} points")
        self._raise(prepared, points)
        return self._explored(shown, sha256, points)

    def _points(
        self,
        name: str,
        prepared: Prepared,
        sha256: str,
        asked: Sequence[tuple[Target, tuple[Placement, ...]]],
    ) -> Iterable[tuple[int, PlacedPoint]]:
        if (scheduler := self.asked.scheduler) is None:
            return points_of(prepared, asked, self.asked.jobs or usable_cores(), warm=True)
        if not asked:
            return ()
        model = pickle.dumps((name, self.target, self.options, sha256))
        works = [partial(_point_on_worker, model, *one) for one in asked]
        return enumerate(results_of_workers(scheduler, works))

    def _raise(self, prepared: Prepared, points: dict[int, PlacedPoint]) -> None:
        """Compiles variants again that are slower than one with less, from its placement."""
        for more in sorted(points, key=lambda one: len(self._less(one, points))):
            target = self.variants[more].target
            less = [points[one] for one in self._less(more, points) if points[one]["period_s"]]
            fastest = min(less, key=lambda one: one["period_s"] or 0.0, default=None)
            if target is None or fastest is None or not faster(fastest, points[more]):
                continue
            if (placement := fastest.get("placement")) is not None:
                ((_, found),) = points_of(prepared, [(target, (placement,))], 1)
                if not faster(points[more], found):
                    points[more] = found
            points[more] = no_slower(points[more], fastest, target)

    def _less(self, at: int, points: Mapping[int, PlacedPoint]) -> list[int]:
        """Points with less of some resource and no more of any, and else the same settings."""
        target, own = self.target, self.variants[at].settings
        more = target.ordered_keys if isinstance(target, OrdersKeys) else {}
        return [
            other
            for other in points
            if other != at and _is_less(self.variants[other].settings, own, more)
        ]

    def _known(self, at: int, name: str, sha256: str) -> dict[int, PlacedPoint]:
        """Points of earlier runs, and those that cannot be."""
        points = {
            index: failed_point(one.faults) for index, one in enumerate(self.variants) if one.faults
        }
        for (model, index), (hashed, point) in (self.journal.found if self.journal else {}).items():
            if model != at or index >= len(self.variants):
                continue
            if hashed != sha256:
                raise CompileError(_changed(name))
            points[index] = point
        return points

    def _explored(self, name: str, sha256: str, points: Mapping[int, PlacedPoint]) -> ExploredModel:
        facts = [
            points[index if one.same_as is None else one.same_as]
            for index, one in enumerate(self.variants)
        ]
        known = known_measures(facts)
        measures: list[Measure] = [one for one in self.asked.front or known if one in known]
        front = on_front(facts, measures)
        rows: list[ExploredPoint] = [
            {
                "settings": one.settings,
                "front": lies,
                "same_as": one.same_as,
                **without_placement(fact),
            }
            for one, lies, fact in zip(self.variants, front, facts, strict=True)
        ]
        return {"name": name, "sha256": sha256, "measures": measures, "points": rows, "faults": []}


def _point_on_worker(model: bytes, target: Target, known: tuple[Placement, ...]) -> PlacedPoint:
    try:
        prepared = _prepared_on_worker(model)
    except CompileError as error:
        return failed_point(error.diagnostics)
    return point_of(replace(prepared, model=kept_copy(prepared.model)), target, known)


@lru_cache(maxsize=1)
def _prepared_on_worker(model: bytes) -> Prepared:
    """Imports a model for all its points on a worker.

    Raises:
        CompileError: MCM-L015 where its file is not that of the command; as `prepare_model`.
    """
    name, target, options, sha256 = pickle.loads(model)  # noqa: S301 - from the command
    prepared = prepare_model(name, target, options)
    if SOURCE.get(prepared.model).sha256 != sha256:
        raise other_files("the file of a worker is not the one that the command has read", name)
    return prepared


def _is_less(one: Settings, other: Settings, more: Mapping[str, bool]) -> bool:
    """Return whether settings have less of some resource, and no more of any, and else are equal.

    Args:
        one: the settings.
        other: of the same keys.
        more: as `OrdersKeys.ordered_keys`.
    """
    less = False
    for key, value in one.items():
        theirs = other[key]
        if value == theirs:
            continue
        if isinstance(value, str) or isinstance(theirs, str) or key not in more:
            return False
        if (value > theirs) is more[key]:
            return False
        less = True
    return less


def _changed(name: str) -> Diagnostic:
    return Diagnostic(
        "MCM-U063",
        "the model is not the one that the journal's points are of",
        at=name,
        hint="start again with --force",
    )
