"""A compiled decoder with other batches and contexts, as its cost model estimates them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Literal

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.chips import whole_states
from mcm_compiler.contracts.cost import costs_in
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.program import PROGRAM, SIMULATION, LoweredProgram
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
from mcm_compiler.placements.steps_of_decoders import ROUNDING, Step, most_in_flight, step_of_model
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
        work = {b: self._work(step, b, lengths) for b in sorted({step.batch, *BATCHES})}
        now = work[step.batch].get(step.context)
        rows: list[SizeRow] = []
        for batch, context in product(work, lengths):
            size, here = replace(step, batch=batch, context=context), work[batch].get(context)
            if size == step:
                fit = _fitting(program, self.target, 1.0, 1.0)
                times = found.period_s, found.latency_s
                rows.append(self._row(size, times, fit, program.sequences))
            elif now is not None and here is not None:
                longer, larger = here[0] / now[0], here[1] / now[1]
                free = independent(self.target, program, self._side())
                # Steps as good as independent do not wait for turns, which those without an end do.
                period_s, latency_s = min(free.period_s, found.period_s), free.latency_s
                fit = _fitting(program, self.target, larger, batch / step.batch)
                rows.append(self._row(size, (period_s * longer, latency_s * longer), fit))
        return rows

    def _work(
        self, step: Step, batch: int, lengths: Sequence[int]
    ) -> Mapping[int, tuple[float, float]]:
        """Seconds of all kernels of a step and elements of its states, by contexts that it takes.

        Work is linear in the context. Positions may end with those of the compile.
        """
        first = lengths[0]
        for last in dict.fromkeys((lengths[-1], step.context)):
            try:
                ends = [self._measured(step, batch, context) for context in (first, last)]
            except CompileError:
                continue
            known = [length for length in lengths if length <= last]
            figures = [np.interp(known, (first, last), one) for one in zip(*ends, strict=True)]
            return dict(zip(known, zip(*(f.tolist() for f in figures), strict=True), strict=True))
        return {}

    def _measured(self, step: Step, batch: int, context: int) -> tuple[float, float]:
        model = self._resized(step, batch, context)
        options = replace(self.options, sequences=None, serve=None)
        set_states(model, options)
        with staging(None) as stage:
            ends = PassContext(self.target, options, stage, lambda _: None, silent, ())
            PassManager(self.passes).run(model, ends, ())
        costs = costs_in(model.graph, self.target.cost_model())
        plan = FUSION_PLAN.find(model)
        groups = plan.group_names if plan is not None else {}
        kernels: dict[str, list[ir.Node]] = {}
        for node in placeable_nodes(model.graph):
            name = node.name or ""
            kernels.setdefault(groups.get(name, name), []).append(node)
        seconds = math.fsum(costs.group_cost(nodes).seconds for nodes in kernels.values())
        presents = {pair.present for pair in STATES.get(model).pairs}
        sizes = [static_dims(v.shape) for v in model.graph.outputs if v.name in presents]
        return seconds, float(sum(math.prod(size or ()) for size in sizes))

    def _resized(self, step: Step, batch: int, context: int) -> ir.Model:
        """The model for other sizes, up to the passes.

        Raises:
            CompileError: where its sizes are refused, or named inside.
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
        CompileError.raise_any(n for n in infer_shapes(model) if n.severity is not Severity.NOTE)
        return model

    def _row(
        self, size: Step, times: tuple[float, float], fit: int, flight: int | None = None
    ) -> SizeRow:
        """A row for a period and a latency; `flight` are sequences, None for the best number."""
        (period_s, latency_s), limit_s = times, size.limit_s(self.options.serve)
        status: Literal["simulated", "estimated"] = "simulated"
        if flight is None:
            status = "estimated"
            flight = min(fit, needed_sequences(latency_s, period_s))
            if latency_s <= limit_s:
                flight = int(min(flight, most_in_flight(limit_s, period_s)))
        step_s = max(latency_s, flight * period_s)
        replicas, fits = self._side().replicas, fit > 0
        rate = flight * size.tokens * size.batch * replicas / step_s
        return {
            "batch": size.batch,
            "context": size.context,
            "status": status,
            "fitting_sequences": fit * replicas * size.batch,
            "tokens_per_s": rate if fits else None,
            "tpot_s": step_s / size.tokens if fits else None,
            "within_limits": fits and step_s <= limit_s * (1.0 + ROUNDING),
        }

    def _side(self) -> Replication:
        return REPLICATION.find(self.compiled) or Replication(1, 0)


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
