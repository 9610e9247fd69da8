"""Result of a placement: everything that its folder and its report are made of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx_ir as ir

from mcm_compiler.arrays.types import Bools, Ints
from mcm_compiler.contracts.boxes.bounds import StepBound
from mcm_compiler.contracts.boxes.box import INPUT, VARIABLE, BoxTarget, StepProblem
from mcm_compiler.contracts.boxes.evaluation import StepResults, StepTrace
from mcm_compiler.contracts.boxes.placers import PlacerAnswer
from mcm_compiler.diagnostics import Diagnostic
from mcm_compiler.graph.source import SourceModel
from mcm_compiler.graph.states import StatePair
from mcm_compiler.placed.place_options import PlaceOptions
from mcm_compiler.placed.segments import Segments
from mcm_compiler.text.headline import Headline, Shown
from mcm_compiler.variants.plan_changes import StepChange


@dataclass(frozen=True)
class SegmentTimes:
    """A step that is cut into segments of one device each.

    Attributes:
        count: of segments.
        dispatch_s: seconds that the start of one takes.
        seconds: of the step.
    """

    count: int
    dispatch_s: float
    seconds: float


@dataclass(frozen=True)
class PlacedOp:
    """A node of a placed model.

    Attributes:
        name: of the node.
        op_type: its operator.
        device: where it runs.
        start_s: seconds from the start of the step.
        end_s: likewise.
    """

    name: str
    op_type: str
    device: str
    start_s: float
    end_s: float


@dataclass(frozen=True, eq=False, repr=False)
class PlacedModel(Shown):
    """A model and the device of each of its ops.

    Attributes:
        source: the model as given.
        model: what was placed: the model, or a training step of it.
        states: inputs of a step that are outputs of the step before.
        target: the box, with the cost models of its devices.
        options: what was asked.
        problem: the step, with the user's constraints.
        answer: what the placer found.
        results: of its placement, B = 1.
        trace: what happens when.
        bound: what no placement beats.
        segments: how the step is cut for runtimes; None where nobody asked.
        diagnostics: warnings and notes.
        timings: `(stage, seconds)`.
        folder: that was written, or None.
        changes: sensitivities; empty where nobody asked.
        verdict: as a terminal shows it; `place_model` gives it.
    """

    source: SourceModel
    model: ir.Model
    states: tuple[StatePair, ...]
    target: BoxTarget
    options: PlaceOptions
    problem: StepProblem
    answer: PlacerAnswer
    results: StepResults
    trace: StepTrace
    bound: StepBound
    segments: Segments | None
    diagnostics: tuple[Diagnostic, ...] = ()
    timings: tuple[tuple[str, float], ...] = ()
    folder: Path | None = None
    changes: tuple[StepChange, ...] = ()
    verdict: Headline | None = None

    @property
    def headline(self) -> Headline:
        """The verdict."""
        ends = self.source.name, self.target.name, "no report"
        return self.verdict or Headline(ends, (), True)

    @property
    def device_of(self) -> Ints:
        """`[N]`, the device of each op."""
        return self.answer.device_of

    @property
    def seconds(self) -> float:
        """Time of the step."""
        return float(self.results.seconds[0])

    @property
    def gap(self) -> float | None:
        """By what share the time is above the bound; None where nothing is proven."""
        return self.seconds / self.bound.seconds - 1.0 if self.bound.seconds > 0.0 else None

    @property
    def segment_times(self) -> SegmentTimes | None:
        """Those of the step as it is delivered; None where it was not cut."""
        cut = self.segments
        if cut is None or cut.seconds is None:
            return None
        return SegmentTimes(cut.count, self.options.dispatch_s, cut.seconds)

    @property
    def placements(self) -> list[PlacedOp]:
        """Nodes of the model, each with its device and times."""
        problem, trace, devices = self.problem, self.trace, self.target.box.devices
        return [
            PlacedOp(
                problem.names[op],
                problem.op_types[op],
                devices[self.device_of[op]],
                float(trace.start_s[op]),
                float(trace.end_s[op]),
            )
            for op in np.flatnonzero(runs_of(problem)).tolist()
        ]

    @property
    def device_of_node(self) -> dict[str, str]:
        """The name of the device of each op that is a node of the model."""
        return device_names_of_nodes(self.problem, self.device_of, self.target.box.devices)


def runs_of(problem: StepProblem) -> Bools:
    """`[N]`, which ops are nodes that a runtime runs; the others are inputs and variables."""
    return np.array([kind not in (INPUT, VARIABLE) for kind in problem.op_types], np.bool_)


def device_names_of_nodes(
    problem: StepProblem, device_of: Ints, devices: tuple[str, ...]
) -> dict[str, str]:
    """The name of the device of each op that is a node."""
    return {
        problem.names[op]: devices[device_of[op]]
        for op in np.flatnonzero(runs_of(problem)).tolist()
    }
