"""The search for a mapping of each chip that is a fabric; equal problems are solved once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.fabrics import models
from mcm_compiler.contracts.fabrics.fabric import Fabric, MappingProblem, Mappings, same_problem
from mcm_compiler.contracts.fabrics.legality import faults_of_mapping, faults_of_problem
from mcm_compiler.contracts.fabrics.mappers import Mapper, MapperAnswer, MapperRequest
from mcm_compiler.contracts.fabrics.measurement import MappingJudge, Measurements
from mcm_compiler.contracts.fabrics.target import MappedChip, MapsChips, UnitChoice
from mcm_compiler.contracts.levels import load_level
from mcm_compiler.contracts.target import ChipModel
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.options import CompileOptions
from mcm_compiler.processes.side_by_side import side_by_side
from mcm_compiler.registry import MAPPERS, MAPPING_MODELS
from mcm_compiler.text import spec_text

_NO_PERIODS = ("MCM-M040", "MCM-M041")

PLAYED = 100
"""Samples that are played to measure a mapping, about, where no state comes back."""


class RememberingJudge:
    """Implements `MappingJudge` by another one, for one fabric and the problems of one compile.

    What a mapper has had measured needs no second play to be believed.

    Args:
        judge: measures what is not known yet.
    """

    def __init__(self, judge: MappingJudge) -> None:
        self._judge = judge
        self._known: dict[tuple[int, bytes, bytes], tuple[float, float, float]] = {}
        self._problems: dict[int, MappingProblem] = {}

    @property
    def name(self) -> str:
        return self._judge.name

    @property
    def physics(self) -> str:
        return self._judge.physics

    def bound_cycles(self, problem: MappingProblem, fabric: Fabric) -> float:
        return self._judge.bound_cycles(problem, fabric)

    def measure(self, problem: MappingProblem, fabric: Fabric, mappings: Mappings) -> Measurements:
        # A problem is kept, so that no other one gets its identity.
        self._problems[id(problem)] = problem
        keys = [
            (id(problem), site.astype(np.int32).tobytes(), turn.astype(np.int32).tobytes())
            for site, turn in zip(mappings.site, mappings.turn, strict=True)
        ]
        new = [row for row, key in enumerate(keys) if key not in self._known]
        if new:
            asked = Mappings(mappings.site[new], mappings.turn[new])
            found = self._judge.measure(problem, fabric, asked)
            for at, row in enumerate(new):
                self._known[keys[row]] = (
                    float(found.period_cycles[at]),
                    float(found.latency_cycles[at]),
                    float(found.error[at]),
                )
        figures = np.array([self._known[key] for key in keys], np.float64).reshape(-1, 3)
        return Measurements(figures[:, 0], figures[:, 1], figures[:, 2])


def mapped_chips(
    chips: Sequence[ChipModel],
    target: MapsChips,
    options: CompileOptions,
    progress: Callable[[str], None],
) -> tuple[MappedChip, ...]:
    """The mapping of each chip, ascending; see `MappingSearch`."""
    return MappingSearch(target, options, progress).mapped(chips)


class MappingSearch:
    """One search for the mappings of all chips.

    Args:
        target: whose chips are fabrics.
        options: of the user.
        progress: called with each chip.

    Raises:
        CompileError: MCM-U001 to MCM-U003 for names of components and levels.
    """

    def __init__(
        self, target: MapsChips, options: CompileOptions, progress: Callable[[str], None]
    ) -> None:
        level = load_level(options.level)
        # An empty text is a fault, and no choice of the level's.
        mapper = spec_text.parse_one(level.mapper if options.mapper is None else options.mapper)
        asked = options.mapping_model
        model = spec_text.parse_one(level.mapping_model if asked is None else asked)
        self._target, self._progress = target, progress
        self._names = (mapper.name, model.name)
        self._mapper: Mapper = MAPPERS.made(mapper)
        self._model: models.MappingModel = MAPPING_MODELS.made(model)
        self._judge = RememberingJudge(target.mapping_judge())
        kind = (target.fabric, target.lowering_hash, self._judge.physics)
        with MAPPING_MODELS.at_work(model.name):
            if isinstance(self._model, models.ChoosingMappingModel):
                self._model = self._model.chosen_for(*kind)
            if isinstance(self._model, models.LearnedMappingModel):
                self._model.check_learned_of(*kind)
            self._method = f"{mapper.name} by {self._model.name}"
        self._hops = level.measured_hops
        self._measurements = level.measured_mappings
        self._limits: dict[str, Any] = {
            "evaluations": options.samples or level.mappings,
            "seed": options.seed,
            "budget_s": options.budget_s,
            "progress": progress,
        }

    def mapped(self, chips: Sequence[ChipModel]) -> tuple[MappedChip, ...]:
        """The mapping of each chip, ascending."""
        problems = self._problems(chips)
        first: list[int] = []
        for k, problem in enumerate(problems):
            others = (i for i in range(k) if first[i] == i and same_problem(problems[i], problem))
            first.append(next(others, k))
        distinct = [k for k in range(len(chips)) if first[k] == k]

        def mapped(k: int) -> MappedChip:
            self._progress(f"map_chips: chip {chips[k].chip}")
            return self._mapped(chips[k].chip, problems[k])

        found = dict(zip(distinct, side_by_side(mapped, distinct), strict=True))
        return tuple(
            replace(
                found[i],
                chip=chips[k].chip,
                problem=problems[k],
                like=-1 if i == k else chips[i].chip,
            )
            for k, i in enumerate(first)
        )

    def _problems(self, chips: Sequence[ChipModel]) -> list[MappingProblem]:
        """The problems of all chips, before the first is mapped; one that does not fit is refused.

        Raises:
            CompileError: MCM-M001 to MCM-M005, MCM-M023; MCM-M004 where no chip has anything to do.
        """
        problems: list[MappingProblem] = []
        faults: list[Diagnostic] = []
        idle: list[Diagnostic] = []
        for chip in chips:
            try:
                problem = self._target.mapping_problem(chip.model, UnitChoice())
            except CompileError as error:
                found = [_of_chip(fault, chip.chip) for fault in error.diagnostics]
                if not is_nothing(error):
                    faults += found
                    continue
                idle += found
                problem = chip_problem(self._target, chip.model)
            if wrong := faults_of_problem(problem, self._target.fabric):
                faults.append(_impossible(chip.chip, wrong))
            problems.append(problem)
        if faults or len(idle) == len(chips) > 0:
            raise CompileError(faults or idle)
        return problems

    def _mapped(self, chip: int, problem: MappingProblem) -> MappedChip:
        fabric, judge = self._target.fabric, self._judge
        affordable = int(self._hops / _hops_of_a_play(problem, fabric))
        answer = self._answer(problem, int(np.clip(affordable, 1, self._measurements)))
        _check_answer(answer, problem, self._target, self._names[0])
        # What a mapper says of its mapping is not taken for granted, what the judge said is.
        measured = judge.measure(problem, fabric, answer.mapping)
        figures = (measured.period_cycles[0], measured.latency_cycles[0])
        if not np.isfinite(figures).all():
            raise CompileError(_never_seen(chip, problem))
        return MappedChip(
            chip=chip,
            problem=problem,
            mapping=answer.mapping,
            period_cycles=float(measured.period_cycles[0]),
            latency_cycles=float(measured.latency_cycles[0]),
            bound_cycles=judge.bound_cycles(problem, fabric),
            error=float(measured.error[0]),
            method=self._method,
        )

    def _answer(self, problem: MappingProblem, measurements: int) -> MapperAnswer:
        """The answer of the mapper.

        Raises:
            CompileError: MCM-X007 where it fails or the model does, and what these raise.
        """
        fabric, (mapper, model) = self._target.fabric, self._names
        with MAPPING_MODELS.at_work(model):
            prepared = self._model.prepared(problem, fabric)
        request = MapperRequest(
            problem, fabric, prepared, self._judge, measurements=measurements, **self._limits
        )
        try:
            with MAPPERS.at_work(mapper), MAPPING_MODELS.at_work(model, prepared):
                return self._mapper.map(request)
        except CompileError as error:
            # Who asks a model knows the object alone.
            place = f"mapping model {quote(model)} of {MAPPING_MODELS.origin_of(model)}"
            raise CompileError(
                [
                    replace(found, at=place) if found.code in _NO_PERIODS else found
                    for found in error.diagnostics
                ]
            ) from error.__cause__


def _hops_of_a_play(problem: MappingProblem, fabric: Fabric) -> float:
    """About how many hops of flits are played to measure a mapping.

    Flits go to each of their destinations, as far as two sites are apart on average, in each of
    `PLAYED` samples.
    """
    flits = int(np.repeat(problem.flits, np.diff(problem.leaf_ptr)).sum())
    return PLAYED * max(flits, 1) * ((fabric.rows + fabric.cols) / 3 + 1)


def _check_answer(answer: object, problem: MappingProblem, target: MapsChips, mapper: str) -> None:
    """Refuse an answer that is not one legal mapping; the mapper of a plug-in may give anything.

    Raises:
        CompileError: MCM-M022.
    """
    faults = _faults_of_answer(answer, problem, target.fabric)
    if faults:
        raise CompileError.of(
            "MCM-M022",
            f"mapper {quote(mapper)} broke its contract: {faults[0]}",
            at=f"mapper {quote(mapper)} of {MAPPERS.origin_of(mapper)}",
        )


def _faults_of_answer(answer: object, problem: MappingProblem, fabric: Fabric) -> list[str]:
    """Why an answer is not one legal mapping: one sentence each."""
    if not isinstance(answer, MapperAnswer):
        return [f"it gives {type(answer).__name__} instead of a MapperAnswer"]
    mapping = cast("Any", answer).mapping
    if not isinstance(mapping, Mappings):
        return [f"it gives {type(mapping).__name__} instead of Mappings"]
    for name, array in (("sites", mapping.site), ("turns", mapping.turn)):
        if not isinstance(cast("Any", array), np.ndarray):
            return [f"{name} are {type(array).__name__}, no array"]
    if mapping.site.ndim != 2 or len(mapping) != 1:
        return [f"sites have the shape {mapping.site.shape}, and one mapping is one row"]
    return faults_of_mapping(problem, fabric, mapping)


def _never_seen(chip: int, problem: MappingProblem) -> Diagnostic:
    largest = int(np.argmax(problem.flits))
    reader = int(problem.leaf[problem.leaf_ptr[largest]])
    stage = problem.stages[int(problem.stage[reader])]
    return Diagnostic(
        "MCM-M029",
        "no inference leaves the chip while flits are simulated, so that nothing is known of its "
        f"period; the largest stream, into {quote(stage)}, has {problem.flits[largest]:,} flits "
        "per inference",
        at=f"chip {chip}",
    )


def _of_chip(fault: Diagnostic, chip: int) -> Diagnostic:
    place = f"chip {chip}" if not fault.at else f"chip {chip}: {fault.at}"
    return replace(fault, at=place)


def _impossible(chip: int, wrong: Sequence[str]) -> Diagnostic:
    return Diagnostic(
        "MCM-M023", f"what was laid out could come to a standstill: {wrong[0]}", at=f"chip {chip}"
    )


NOTHING = "MCM-M004"
"""Code of subgraphs of which nothing depends on their inputs."""


def chip_problem(target: MapsChips, model: ir.Model) -> MappingProblem:
    """The units and streams of a chip of a package.

    A chip may have been given only ops whose results are known before the first inference, or of
    which nothing comes. It takes part in each inference by passing one element on.

    Args:
        target: the package.
        model: of the chip.

    Raises:
        CompileError: as `MapsChips.mapping_problem`, but for MCM-M004.
    """
    try:
        return target.mapping_problem(model, UnitChoice())
    except CompileError as error:
        if not is_nothing(error):
            raise
    return target.mapping_problem(_passing_on(model.graph.name), UnitChoice())


def is_nothing(error: CompileError) -> bool:
    """True if all that is wrong with a chip is that there is nothing to lay out."""
    return [fault.code for fault in error.diagnostics] == [NOTHING]


def _passing_on(name: str | None) -> ir.Model:
    element, shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape([1])
    taken = ir.Value(name="in", type=element, shape=shape)
    passed = ir.Node("", "Identity", [taken], name="pass on")
    made = passed.outputs[0]
    made.name, made.type, made.shape = "out", element, shape
    graph = ir.Graph([taken], [made], nodes=[passed], name=name, opset_imports={"": 18})
    return ir.Model(graph, ir_version=10)
