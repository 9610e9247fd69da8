"""A compiled decoder with other batches and contexts, as its cost model estimates them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import onnx_ir as ir

from mcm_compiler.contracts.chips import whole_states
from mcm_compiler.contracts.cost import costs_in
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.program import PROGRAM, SIMULATION, LoweredProgram, SimulationResult
from mcm_compiler.contracts.replication import REPLICATION, Replication
from mcm_compiler.contracts.target import Target
from mcm_compiler.contracts.zoo import PREFIX
from mcm_compiler.diagnostics import CompileError, Severity
from mcm_compiler.graph.constants import placeable_nodes
from mcm_compiler.graph.dimensions import free_inputs
from mcm_compiler.graph.source import SOURCE
from mcm_compiler.graph.states import STATES
from mcm_compiler.graph.static_shapes import static_dims
from mcm_compiler.ir.shapes.inference import infer_shapes
from mcm_compiler.machines.choices import MOST_SEQUENCES
from mcm_compiler.model_import import import_any, set_states
from mcm_compiler.options import CompileOptions
from mcm_compiler.pipeline.pass_manager import PassManager, silent
from mcm_compiler.pipeline.passes import Pass, PassContext
from mcm_compiler.placements.side_by_side import independent, needed_sequences
from mcm_compiler.placements.steps_of_decoders import (
    ROUNDING,
    Step,
    most_in_flight,
    step_of_model,
)
from mcm_compiler.processes.staging import staging
from mcm_compiler.results.size_rows import SizeRow
from mcm_compiler.text import spec_text

BATCHES = (1, 2, 8, 32)
"""Sequences in a batch, next to those of the compile."""

CONTEXTS = (0.25, 0.5, 1.0, 2.0)
"""Positions, by those of the compile."""


@dataclass(frozen=True)
class Decoder:
    """A decoder that was compiled.

    Attributes:
        model: as it was given.
        compiled: behind the last pass.
        passes: those that run before any that looks at the target.
        options: of the compile.
        target: the package.
    """

    model: str | Path | ir.Model
    compiled: ir.Model
    passes: Sequence[Pass]
    options: CompileOptions
    target: Target

    def rows(self) -> list[SizeRow]:
        """Batches and contexts with what the placement of the compile would make of them.

        Only the compile itself is simulated. Elsewhere, times follow the work of all kernels under
        the cost model, memory the sizes of states, and other buffers the batch. Work grows linearly
        from the shortest context to the longest. Sizes that a model does not take are left out.
        Empty where no states are on chips, or nothing was simulated.
        """
        program, found = PROGRAM.find(self.compiled), SIMULATION.find(self.compiled)
        step = step_of_model(self.compiled)
        if program is None or found is None or step is None or not program.sequences:
            return []
        if step.context <= step.tokens:  # a prompt without a past
            return []
        lengths = sorted({round(step.context * factor) for factor in CONTEXTS})
        lengths = [length for length in lengths if length > step.tokens]
        work = {batch: self._work(step, batch, lengths) for batch in {step.batch, *BATCHES}}
        rows: list[SizeRow] = []
        base = work[step.batch]
        for batch, ends in sorted(work.items()):
            for context in lengths:
                size = replace(step, batch=batch, context=context)
                if size == step:
                    rows.append(self._simulated(step, program, found))
                elif ends is not None and base is not None:
                    here, now = _between(ends, context), _between(base, step.context)
                    rows.append(
                        self._estimated(
                            size, batch / step.batch, program, found.period_s, (here, now)
                        )
                    )
        return rows

    def _work(self, step: Step, batch: int, lengths: Sequence[int]) -> tuple[_Work, _Work] | None:
        try:
            with staging(None) as stage:
                found: list[_Work] = []
                for context in (lengths[0], lengths[-1]):
                    if (model := self._resized(step, batch, context)) is None:
                        return None
                    options = replace(self.options, sequences=None, serve=None)
                    set_states(model, options)
                    ends = PassContext(self.target, options, stage, lambda _: None, silent, ())
                    PassManager(self.passes).run(model, ends, ())
                    found.append(_work_of(model, context, self.target))
        except CompileError:
            return None
        return found[0], found[1]

    def _resized(self, step: Step, batch: int, context: int) -> ir.Model | None:
        """The model for other sizes, up to the passes; None where it names sizes inside.

        Raises:
            CompileError: where its sizes are refused.
        """
        if isinstance(self.model, str) and self.model.startswith(PREFIX):
            spec = spec_text.parse_one(self.model.removeprefix(PREFIX))
            sizes = {**dict(spec.options), "past": str(context - step.tokens)}
            sizes |= {"batch": str(batch)} if batch != step.batch or "batch" in sizes else {}
            listed = ",".join(f'{key}="{value}"' for key, value in sizes.items())
            return import_any(f"{PREFIX}{spec.name}{{{listed}}}", self.options)[0]
        model = SOURCE.get(self.compiled).original.clone()
        presents = {value.name: value for value in model.graph.outputs}
        behind = {pair.past: presents[pair.present] for pair in whole_states(self.compiled)}
        for value in free_inputs(model):
            present = behind.get(value.name or "")
            value.shape = ir.Shape(_sizes(value, present, step, (batch, context)))
        for node in model.graph:
            for value in node.outputs:
                value.shape = None
        notes = infer_shapes(model)
        return None if any(note.severity is not Severity.NOTE for note in notes) else model

    def _simulated(self, step: Step, program: LoweredProgram, found: SimulationResult) -> SizeRow:
        side = self._side()
        step_s = max(program.sequences * found.period_s, found.latency_s)
        fit = _fitting(program, self.target, 1.0, 1.0)
        rate = step.tokens * step.batch * side.replicas / found.period_s
        return _row(step, "simulated", fit * side.replicas, (rate, step_s), self.options)

    def _estimated(
        self,
        size: Step,
        batches: float,
        program: LoweredProgram,
        period_s: float,
        works: tuple[_Work, _Work],
    ) -> SizeRow:
        here, now = works
        side, free = self._side(), independent(self.target, program, self._side())
        longer = here.seconds / now.seconds
        fit = _fitting(program, self.target, here.state_size / now.state_size, batches)
        # Steps as good as independent do not wait for turns, which those without an end do.
        period_s, latency_s = min(free.period_s, period_s) * longer, free.latency_s * longer
        needed = needed_sequences(latency_s, period_s)
        flight, limit_s = min(fit, needed), size.limit_s(self.options.serve)
        if latency_s <= limit_s:
            flight = int(min(flight, most_in_flight(limit_s, period_s)))
        step_s = max(latency_s, flight * period_s)
        rate = flight * size.tokens * size.batch * side.replicas / step_s
        return _row(size, "estimated", fit * side.replicas, (rate, step_s), self.options)

    def _side(self) -> Replication:
        return REPLICATION.find(self.compiled) or Replication(1, 0)


@dataclass(frozen=True)
class _Work:
    """Work of a step with some context: seconds of its kernels, and elements of its states."""

    context: int
    seconds: float
    state_size: float


def _work_of(model: ir.Model, context: int, target: Target) -> _Work:
    costs = costs_in(model.graph, target.cost_model())
    plan = FUSION_PLAN.find(model)
    groups = plan.group_names if plan is not None else {}
    kernels: dict[str, list[ir.Node]] = {}
    for node in placeable_nodes(model.graph):
        name = node.name or ""
        kernels.setdefault(groups.get(name, name), []).append(node)
    seconds = math.fsum(costs.group_cost(nodes).seconds for nodes in kernels.values())
    presents = {pair.present for pair in STATES.get(model).pairs}
    sizes = [static_dims(v.shape) for v in model.graph.outputs if v.name in presents]
    return _Work(context, seconds, float(sum(math.prod(size or ()) for size in sizes)))


def _between(ends: tuple[_Work, _Work], context: int) -> _Work:
    first, last = ends
    share = (context - first.context) / max(last.context - first.context, 1)
    return _Work(
        context,
        first.seconds + share * (last.seconds - first.seconds),
        first.state_size + share * (last.state_size - first.state_size),
    )


def _sizes(
    value: ir.Value, present: ir.Value | None, step: Step, size: tuple[int, int]
) -> Iterator[int]:
    """The shape of an input for another batch and context.

    Args:
        value: the input.
        present: of a state, the output that the next step takes for it.
        step: of the compile.
        size: batch and context.
    """
    batch, context = size
    dims = static_dims(value.shape) or ()
    behind = None if present is None else static_dims(present.shape)
    for axis, dim in enumerate(dims):
        if axis == 0 and len(dims) > 1 and dim == step.batch:
            yield batch
        elif behind is not None and behind[axis] == dim + step.tokens:
            yield context - step.tokens
        elif behind == dims and axis == len(dims) - 2:  # a buffer for past and present
            yield dim * context // step.context
        elif behind is None and axis and dim == step.context > step.tokens:
            yield context
        else:
            yield dim


def _fitting(program: LoweredProgram, target: Target, states: float, batch: float) -> int:
    """Batches whose states fit a pipeline, with states and buffers larger by factors."""
    most = MOST_SEQUENCES
    for chip in program.chips:
        if chip.state_bytes:
            weights = sum(b.size_bytes for b in chip.buffers if b.kind == "weight")
            others = chip.high_water_bytes - weights - program.sequences * chip.state_bytes
            room = target.limits.sram_bytes[chip.chip] - weights - others * batch
            most = min(most, int(max(room, 0.0) // (chip.state_bytes * states)))
    return most


def _row(
    size: Step,
    status: str,
    batches: int,
    found: tuple[float, float],
    options: CompileOptions,
) -> SizeRow:
    rate, step_s = found
    fits = batches > 0
    limit_s = size.limit_s(options.serve)
    return {
        "batch": size.batch,
        "context": size.context,
        "status": "simulated" if status == "simulated" else "estimated",
        "fitting_sequences": batches * size.batch,
        "tokens_per_s": rate if fits else None,
        "tpot_s": step_s / size.tokens if fits else None,
        "within_limits": fits and step_s <= limit_s * (1.0 + ROUNDING),
    }
