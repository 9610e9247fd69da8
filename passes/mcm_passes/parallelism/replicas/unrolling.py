"""Rounds: a graph of several inferences, which share weights and constants.

Every op that depends on an input is there once a class. What constants alone decide is computed
once. Everything behind takes the graph as it takes any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import onnx_ir as ir

from mcm_compiler.contracts.fusion import FUSION_PLAN, FusionGroup, FusionPlan
from mcm_compiler.contracts.replication import COPIED_FOR, CopiedFor
from mcm_compiler.contracts.sharding import sharding
from mcm_compiler.contracts.target import Target
from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.graph.constants import attribute_data, attribute_weights, constants_and_placeable
from mcm_compiler.graph.dimensions import free_inputs
from mcm_compiler.graph.rounds import class_name, class_of
from mcm_compiler.graph.states import STATES
from mcm_compiler.ir.rewriting.node_copying import copy_node
from mcm_compiler.options import CompileOptions
from mcm_passes.mapping.problem.measured_names import kernels_of

SHARED_READ = "shared_read"
"""Kind of groups of the ops of several classes that read one streamed weight."""

LIGHT_DATA = 0.25
"""Share of a chip's SRAM that data of all classes may take in a kernel that they share."""


def round_obstacle(model: ir.Model, options: CompileOptions) -> str:
    """Why a pipeline cannot compute several inferences together; empty where it can."""
    if not options.goal.plain:
        return "the objective is about one inference, not about a round"
    states = STATES.find(model)
    if states is not None and states.pairs:
        past = quote(states.pairs[0].past)
        return f"the state {past} stays on its chip from one inference to the next"
    constants, nodes = constants_and_placeable(model.graph)
    for value in model.graph.outputs:
        if value in constants:
            return f"the output {quote(value.name or '')} depends on no input"
    copied = {v.name for v in free_inputs(model)} | {v.name for n in nodes for v in n.outputs}
    copied |= {node.name for node in nodes}
    kept = {value.name for value in constants} | {n.name for n in set(model.graph) - set(nodes)}
    for name in sorted(filter(None, kept)):
        if (found := class_of(name)) is not None and found[0] in copied:
            return f"{quote(name)}, which all of them share, has the name of a copy"
    return ""


def refuse_round(model: ir.Model, count: int, options: CompileOptions) -> None:
    """MCM-P065 where `round_obstacle` says why a pipeline cannot compute `count` inferences."""
    if obstacle := round_obstacle(model, options):
        message = f"rounds of {count} inferences are asked for, and {obstacle}"
        raise CompileError.of("MCM-P065", message, at="option round")


def unroll(model: ir.Model, count: int, options: CompileOptions) -> None:
    """Makes the graph one of `count` inferences, with the facts about each.

    Class k has the ops, values, inputs and outputs `class_name(name, k)`: class 0 in the places of
    the originals, the others behind, class by class.

    Args:
        model: with facts of ops, groups, divided operators and pieces of outputs.
        count: classes.
        options: of the compile.

    Raises:
        CompileError: MCM-P065 where `round_obstacle` says why not.
    """
    if count == 1:
        return
    refuse_round(model, count, options)
    COPIED_FOR.set(model, (COPIED_FOR.find(model) or CopiedFor())._replace(classes=count))
    graph = model.graph
    inputs, outputs = free_inputs(model), list(graph.outputs)
    _, nodes = constants_and_placeable(graph)
    for index in range(1, count):
        value_of: dict[ir.Value, ir.Value] = {}
        for value in inputs:
            shape = None if value.shape is None else value.shape.copy()
            name = class_name(value.name or "", index)
            value_of[value] = ir.Value(name=name, type=value.type, shape=shape)
        graph.inputs.extend(value_of.values())
        copies: list[ir.Node] = []
        for node in nodes:
            copy = copy_node(node, value_of, class_name(node.name or "", index))
            value_of.update(zip(node.outputs, copy.outputs, strict=True))
            _rename(copy.outputs, index)
            copies.append(copy)
        graph.extend(copies)
        graph.outputs.extend(value_of[value] for value in outputs)
    for node in nodes:
        node.name = class_name(node.name or "", 0)
        _rename(node.outputs, 0)
    _rename(inputs, 0)
    _carry_records(model, count)


def share_reads(model: ir.Model, count: int, target: Target) -> None:
    """Runs kernels of all classes as one, so that what they stream is read once a round.

    They read more bytes of weights than they have other data, of which all classes together take a
    small part of a chip. So do all kernels behind them, so that classes meet only there.

    Args:
        model: of a round, with its fusion plan.
        count: classes.
        target: whose weights are streamed.
    """
    constants, nodes = constants_and_placeable(model.graph)
    plan, size = FUSION_PLAN.find(model) or FusionPlan(()), target.cost_model().storage_bytes
    groups = {group.name: group for group in plan.groups}
    most = LIGHT_DATA * max(target.limits.sram_bytes) / count
    last = set[ir.Node]()
    for kernel in reversed(kernels_of(nodes, plan)):
        names = [name for name, index in map(_class_of, kernel) if not index]
        used = {v for node in kernel for v in (*node.inputs, *node.outputs) if v is not None}
        data, weights = sum(map(size, used - constants)), sum(map(size, used & constants))
        readers = {n for node in kernel for v in node.outputs for n in v.consumers()}
        if len(names) < len(kernel) or data > most or not readers <= last.union(kernel):
            continue
        last.update(kernel)
        if weights > data:
            alike = tuple(class_name(name, k) for k in range(count) for name in names)
            for k in range(count):
                groups.pop(class_name(names[-1], k), None)
            groups[alike[-1]] = FusionGroup(alike[-1], SHARED_READ, alike)
    FUSION_PLAN.set(model, FusionPlan(tuple(groups.values())))


def _class_of(node: ir.Node) -> tuple[str, int]:
    return class_of(node.name or "") or ("", 1)


def own_weights(model: ir.Model, count: int) -> dict[str, tuple[str, ...]]:
    """Weights in attributes of ops, by name, with those of their copies in each of `count` classes.

    Args:
        model: of one inference.
        count: classes.
    """
    found: dict[str, tuple[str, ...]] = {}
    for node in constants_and_placeable(model.graph)[1]:
        found |= {
            value.name or "": (value.name or "",) * count for value in attribute_weights(node)
        }
        for value in attribute_data(node):
            base, name = node.name or "", value.name or ""
            found[name] = tuple(
                f"{class_name(base, k)}{name.removeprefix(base)}" for k in range(count)
            )
    return found


def _rename(values: Sequence[ir.Value], index: int) -> None:
    for value in values:
        if value.name:
            value.name = class_name(value.name, index)


def _carry_records(model: ir.Model, count: int) -> None:
    classes = range(count)
    if (plan := FUSION_PLAN.find(model)) is not None:
        groups = tuple(
            FusionGroup(
                class_name(group.name, k), group.kind, tuple(class_name(n, k) for n in group.nodes)
            )
            for k in classes
            for group in plan.groups
        )
        FUSION_PLAN.set(model, FusionPlan(groups))
    if (divided := sharding.SHARDING_PLAN.find(model)) is not None:
        sharding.SHARDING_PLAN.set(
            model, sharding.ShardingPlan(_of_classes(divided.operators, count))
        )
    if (applied := sharding.APPLIED_PLAN.find(model)) is not None:
        operators = _of_classes(applied.operators, count)
        sharding.APPLIED_PLAN.set(model, replace(applied, operators=operators))
    if parts := sharding.OUTPUT_PARTS.find(model):
        sharding.OUTPUT_PARTS.set(
            model, {class_name(n, k): _of_class(p, k) for k in classes for n, p in parts.items()}
        )


def _of_classes(
    operators: tuple[sharding.OperatorSharding, ...], count: int
) -> tuple[sharding.OperatorSharding, ...]:
    return tuple(
        replace(one, pieces=tuple(class_name(name, k) for name in one.pieces))
        for k in range(count)
        for one in operators
    )


def _of_class(part: sharding.OutputPart, index: int) -> sharding.OutputPart:
    within = None if part.within is None else _of_class(part.within, index)
    return replace(part, output=class_name(part.output, index), within=within)
