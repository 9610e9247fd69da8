"""The passes behind `partition`: from placed ops to a simulated program and the chips' files.

They make the placement legal, cut the graph into a model for each chip, lay out chips that are
fabrics, lower the models, simulate the program and write the files.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler.additions import addition_of
from mcm_compiler.artifact.emit import write_chips
from mcm_compiler.components.capabilities import Capability, lowered
from mcm_compiler.components.cost_choice import refuse_refuted_times
from mcm_compiler.components.op_support import host_ops
from mcm_compiler.contracts.chips import CHIP_MODELS, MAPPED_CHIPS, WIRES
from mcm_compiler.contracts.cost import NODE_COST
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.partition import CHIP, LEGALIZATION, PARTITION, PARTITION_PROBLEM
from mcm_compiler.contracts.program import PROGRAM, SIMULATION, LoweredProgram, MemoryOverflow
from mcm_compiler.contracts.replication import REPLICATION, Replication
from mcm_compiler.contracts.sharding.sharding import OUTPUT_PARTS
from mcm_compiler.contracts.target import LowersMapped
from mcm_compiler.contracts.verification import EMITTED
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.constants import placeable_nodes
from mcm_compiler.graph.dimensions import free_inputs
from mcm_compiler.graph.rounds import class_names
from mcm_compiler.graph.source import SOURCE
from mcm_compiler.graph.states import STATES, States, mark_in_place
from mcm_compiler.ir.rewriting.device_stages import stage_on_host
from mcm_compiler.ir.rewriting.splitter import split
from mcm_compiler.options import CompileOptions
from mcm_compiler.pipeline.passes import AnyKey, Pass, PassContext
from mcm_compiler.placements.side_by_side import (
    fitting_sequences,
    most_served,
    simulate_pipelines,
    wanted_sequences,
)
from mcm_compiler.placements.steps_of_decoders import step_of_model
from mcm_compiler.text.units import bytes_text, count_text
from mcm_passes.mapping.problem.state_units import kept_states
from mcm_passes.mapping.solving.legalization import legalize, mark_host_ops


@dataclass(frozen=True)
class Legalize(Pass):
    """Copies clonable ops to the chips that read them and inserts relays; see `legalize`."""

    name: ClassVar[str] = "legalize"
    summary: ClassVar[str] = "clone cheap ops and insert relays, so that every hop is one chip"
    requires: ClassVar[tuple[AnyKey, ...]] = (FUSION_PLAN, PARTITION_PROBLEM, PARTITION)
    provides: ClassVar[tuple[AnyKey, ...]] = (CHIP, LEGALIZATION)
    preserves: ClassVar[tuple[AnyKey, ...]] = (
        NODE_COST,
        FUSION_PLAN,
        PARTITION_PROBLEM,
        PARTITION,
        REPLICATION,
    )

    def run(self, model: ir.Model, context: PassContext) -> None:
        """Changes the graph; every op that a chip runs has `CHIP` and `NODE_COST` afterwards.

        A graph that is legal already stays as it is.

        Raises:
            CompileError: MCM-T030 to MCM-T032 for ops that earlier passes brought in, and that
                nobody can or shall run.
        """
        if LEGALIZATION.present(model):
            return
        host_ops(context.target, placeable_nodes(model.graph), context.options)
        added = legalize(
            model, PARTITION_PROBLEM.get(model), PARTITION.get(model), FUSION_PLAN.get(model)
        )
        cost_model = context.target.cost_model()
        mark_host_ops(model.graph, cost_model)
        for node in model.graph:
            if CHIP.find(node) is not None and NODE_COST.find(node) is None:
                NODE_COST.set(node, cost_model.node_cost(node))
        LEGALIZATION.set(model, added)


@dataclass(frozen=True)
class Split(Pass):
    """Cuts the graph by the chip of each op; the model itself stays as it is."""

    name: ClassVar[str] = "split"
    summary: ClassVar[str] = "cut the graph into one ONNX model per chip"
    requires: ClassVar[tuple[AnyKey, ...]] = (CHIP,)
    uses: ClassVar[tuple[AnyKey, ...]] = (PARTITION_PROBLEM,)
    provides: ClassVar[tuple[AnyKey, ...]] = (CHIP_MODELS, WIRES)

    def run(self, model: ir.Model, context: PassContext) -> bool:
        """Attaches `CHIP_MODELS` and `WIRES`.

        Raises:
            CompileError: MCM-P012 for values without a type that cross a boundary.
        """
        del context
        problem = PARTITION_PROBLEM.find(model)
        kept = kept_states(model, problem) if problem is not None else States(())
        if STATES.present(model):
            mark_in_place(model.graph, kept.pairs)
        chips, wires = split(model, CHIP, kept)
        for chip in chips:
            stage_on_host(chip.model)
        CHIP_MODELS.set(model, chips)
        WIRES.set(model, wires)
        return False


@dataclass(frozen=True)
class MapChips(Pass):
    """Lays out the model of each used chip, where chips are fabrics; others it leaves alone."""

    name: ClassVar[str] = "map_chips"
    summary: ClassVar[str] = "place and route the units of each chip that is a fabric"
    requires: ClassVar[tuple[AnyKey, ...]] = (CHIP_MODELS, WIRES)
    provides: ClassVar[tuple[AnyKey, ...]] = (MAPPED_CHIPS,)

    def run(self, model: ir.Model, context: PassContext) -> bool:
        """Sets `MAPPED_CHIPS`; empty where chips are no fabrics.

        Chips whose problems are equal are mapped once.

        Raises:
            CompileError: MCM-M020 where a mapper or a mapping model is asked for, and chips are no
                fabrics. MCM-M001 to MCM-M005 for subgraphs that do not fit. MCM-M022 and MCM-M023
                for components that break their contracts, MCM-X007 for those that fail; MCM-M029
                for a chip that takes too long to be measured; MCM-U001 to MCM-U003 for names of
                components.
        """
        target, options = context.target, context.options
        named = options.mapper is not None or options.mapping_model is not None
        if named and not isinstance(target, LowersMapped):
            raise CompileError(_no_fabrics(target.name, options))
        found = addition_of(target)
        asked = CHIP_MODELS.get(model), target, options, context.progress
        MAPPED_CHIPS.set(model, () if found is None else found[1].search(*asked))
        return False


def _no_fabrics(target: str, options: CompileOptions) -> Diagnostic:
    given = {"--mapper": options.mapper, "--mapping-model": options.mapping_model}
    named = " and ".join(name for name, value in given.items() if value is not None)
    return Diagnostic(
        "MCM-M020",
        f"{named} is given, and the chips of {quote(target)} are no fabrics",
        at=f"target {quote(target)}",
    )


@dataclass(frozen=True)
class Lower(Pass):
    """Lowers the chips' models to the target, and refuses what does not fit."""

    name: ClassVar[str] = "lower"
    summary: ClassVar[str] = "schedule ops, plan memory and transfers for each chip"
    requires: ClassVar[tuple[AnyKey, ...]] = (CHIP_MODELS, WIRES)
    uses: ClassVar[tuple[AnyKey, ...]] = (REPLICATION, MAPPED_CHIPS)
    provides: ClassVar[tuple[AnyKey, ...]] = (PROGRAM,)
    needs_target: ClassVar[tuple[Capability, ...]] = ("lowers",)

    def run(self, model: ir.Model, context: PassContext) -> bool:
        """Sets `PROGRAM`.

        Chips hold the states of as many sequences as the option `sequences` says. Without it, these
        are as many as the pipeline needs to be as fast as for independent inferences. There must be
        memory for them, and their steps must keep the limits of the option `serve`. MCM-P053 notes
        that they are too few to keep the chips busy.

        Raises:
            CompileError: MCM-P020, one diagnostic per chip whose memory plan does not fit,
                MCM-T020 for a target that does not lower, and MCM-M021 for a fabric that is not
                mapped.
        """
        target = context.target
        chips, wires = CHIP_MODELS.get(model), WIRES.get(model)
        mapped = MAPPED_CHIPS.find(model)
        program = lowered(target, chips, wires, mapped)
        if program.overflows:
            raise CompileError([_explain(o, target.name) for o in program.overflows])
        if program.sequences:
            side = REPLICATION.find(model) or Replication(1, 0)
            step = step_of_model(model)
            limit_s = step.limit_s(context.options.serve) if step is not None else inf
            needed = wanted_sequences(program, target, side, limit_s)

            def holding(sequences: int) -> LoweredProgram:
                more = [replace(chip, sequences=sequences) for chip in chips]
                return lowered(target, more, wires, mapped)

            if context.options.sequences is not None:
                pass
            elif target.limits.stream_bytes_per_s > 0.0:
                program = most_served(program, target, side, needed, holding)
            elif (held := min(needed, fitting_sequences(program, target))) > program.sequences:
                program = holding(held)
            if program.sequences < needed:
                context.report(_too_few(program.sequences, needed))
        PROGRAM.set(model, program)
        return False


def _too_few(held: int, needed: int) -> Diagnostic:
    return Diagnostic(
        "MCM-P053",
        f"{count_text(held, 'sequence')} in flight keep the chips busy for a part of the time; "
        f"{needed} would for all of it",
        at="states on their chips",
        hint=f"re-run `mcmc compile` with --sequences {needed}, which reserves memory for them",
    )


def _explain(overflow: MemoryOverflow, target: str) -> Diagnostic:
    largest = ", ".join(f"{quote(n)} {bytes_text(size)}" for n, size in overflow.largest)
    parts = (
        ("weights", overflow.weight_bytes),
        ("receive and send buffers", overflow.channel_bytes),
        ("activations", overflow.activation_bytes),
        ("states of sequences", overflow.state_bytes),
    )
    demand = ", ".join(f"{bytes_text(size)} of {what}" for what, size in parts if size)
    return Diagnostic(
        "MCM-P020",
        f"the memory plan of chip {overflow.chip} needs {bytes_text(overflow.demand_bytes)}"
        f"{f' ({demand})' if demand else ''}, "
        f"and that chip of {quote(target)} has {bytes_text(overflow.limit_bytes)}",
        at=f"largest buffers: {largest}",
        hint="; or ".join(lever.action for lever in overflow.levers)
        or "choose another partitioner, a smaller batch, or a target with more memory",
    )


@dataclass(frozen=True)
class Simulate(Pass):
    """Measures period, latency and load of the lowered program."""

    name: ClassVar[str] = "simulate"
    summary: ClassVar[str] = "run the lowered program in the target's simulator"
    requires: ClassVar[tuple[AnyKey, ...]] = (PROGRAM,)
    provides: ClassVar[tuple[AnyKey, ...]] = (SIMULATION,)
    needs_target: ClassVar[tuple[Capability, ...]] = ("simulates",)

    def run(self, model: ir.Model, context: PassContext) -> bool:
        """Sets `SIMULATION`.

        Raises:
            CompileError: MCM-T021 for a target without a simulator, MCM-C001 for a chosen cost
                model that the bound and the simulator contradict.
        """
        program, inferences = PROGRAM.get(model), context.options.inferences
        side = REPLICATION.find(model) or Replication(1, 0)
        result = simulate_pipelines(
            context.target, program, inferences, side.replicas, side.chips_each
        )
        partition = PARTITION.find(model)
        if partition is not None:
            refuse_refuted_times(context.target, partition.bound.seconds, result.period_s)
        SIMULATION.set(model, result)
        return False


@dataclass(frozen=True)
class Emit(Pass):
    """Writes chip models, annotated model, target and program to the staging folder."""

    name: ClassVar[str] = "emit"
    summary: ClassVar[str] = "write the chips' models and the annotated model"
    requires: ClassVar[tuple[AnyKey, ...]] = (SOURCE, CHIP, CHIP_MODELS, WIRES)
    uses: ClassVar[tuple[AnyKey, ...]] = (PROGRAM, MAPPED_CHIPS, REPLICATION)
    provides: ClassVar[tuple[AnyKey, ...]] = (EMITTED,)

    def run(self, model: ir.Model, context: PassContext) -> bool:
        """Sets `EMITTED` to the names of the files, sorted.

        Raises:
            CompileError: MCM-X013 where earlier passes took outputs away or added inputs.
        """
        side = REPLICATION.find(model) or Replication(1, 0)
        _check_ends(SOURCE.get(model).original, model, side.round)
        folder = context.staging.path
        for stale in (*folder.glob("chip_*.onnx"), *folder.glob("*_*.onnx.data")):
            stale.unlink()  # of a run before the graph changed, perhaps on more chips
        write_chips(
            folder,
            SOURCE.get(model),
            model,
            CHIP_MODELS.get(model),
            context.target,
            PROGRAM.find(model),
        )
        if (found := addition_of(context.target)) is not None:
            found[1].write(folder, MAPPED_CHIPS.find(model) or (), context.target)
        EMITTED.set(model, tuple(sorted(path.name for path in folder.iterdir())))
        return False


def _check_ends(original: ir.Model, model: ir.Model, classes: int) -> None:
    """Checks that a compiled model still takes and gives what the original does.

    Raises:
        CompileError: MCM-X013.
    """
    given = {value.name for value in model.graph.outputs}
    parts = OUTPUT_PARTS.find(model) or {}
    given |= {part.graph_output for part in parts.values()}
    taken = {n for v in original.graph.inputs for n in class_names(v.name or "", classes)}
    lost = [
        value
        for value in original.graph.outputs
        if not given.issuperset(class_names(value.name or "", classes))
    ]
    taken |= {name for name, part in parts.items() if part.output in taken}
    added = [value for value in free_inputs(model) if value.name not in taken]
    told = [("no longer makes", "output", lost), ("takes", "input", added)]
    faults = [
        Diagnostic(
            "MCM-X013",
            f"after the passes the model {what} {quote(values[0].name or '')}"
            + (f" and {count_text(len(values) - 1, 'other')}" if len(values) > 1 else "")
            + ("" if values is lost else ", which the file does not take"),
            at=f"{kind} {quote(values[0].name or '')}",
        )
        for what, kind, values in told
        if values
    ]
    CompileError.raise_any(faults)
