"""Ops that follow a kernel or each other: epilogues, chains of elementwise ops, and views."""

from __future__ import annotations

import math

from mcm_compiler.graph.op_classes import ELEMENTWISE_OPS, VIEW_OPS
from mcm_passes.rewriting.fusion_rules.grouping import FusionGraph, Group, Grouping
from mcm_passes.rewriting.fusion_rules.rule import FusionRule

_WHOLE_GROUPS = frozenset({"gelu", "swish"})


def with_epilogue(grouping: Grouping, start: int) -> list[int]:
    """`start` and the elementwise ops that follow it one by one.

    Taken up are batch normalisations, elementwise ops whose result has as many elements (bias,
    residual, activation), whole groups of an activation in parts, and views between and behind
    these. Every op on the way is the only reader of the one before.
    """
    graph = grouping.graph
    members = [start]
    views: list[int] = []
    end = start
    while len(members) + len(views) < grouping.max_group:
        group = _activation_group(grouping, end)
        if group is not None:
            if len(members) + len(views) + len(group.members) > grouping.max_group:
                break
            members += [*views, *sorted(group.members)]
            views, end = [], group.exit
            continue
        reader = graph.only_reader(end)
        if reader is None or not grouping.is_free(reader):
            break
        if graph.op(reader) in VIEW_OPS:
            views.append(reader)
        elif _applies_in_place(graph, end, reader):
            members += [*views, reader]
            views = []
        else:
            break
        end = reader
    return members + views


def _activation_group(grouping: Grouping, end: int) -> Group | None:
    """The group of an activation that all readers of `end` belong to."""
    readers = grouping.graph.readers[end]
    group = grouping.group_of(readers[0]) if readers else None
    if group is None or group.kind not in _WHOLE_GROUPS:
        return None
    return group if all(reader in group.members for reader in readers) else None


def _applies_in_place(graph: FusionGraph, end: int, reader: int) -> bool:
    if graph.op(reader) == "BatchNormalization":
        statistics = graph.nodes[reader].outputs[1:]
        return not any(value.uses() or value.is_graph_output() for value in statistics)
    if graph.op(reader) not in ELEMENTWISE_OPS:
        return False
    before, after = graph.output(end).shape, graph.output(reader).shape
    if before is None or after is None or not (before.is_static() and after.is_static()):
        return before == after
    # A result that broadcasts this one is as large as another operand: no part of this kernel.
    return math.prod(before.numpy()) == math.prod(after.numpy())


CONV_BN_ACTIVATION = FusionRule(
    "conv_bn_activation",
    frozenset({"Conv", "ConvInteger", "ConvTranspose", "QLinearConv"}),
    with_epilogue,
)


MATMUL_BIAS_ACTIVATION = FusionRule(
    "matmul_bias_activation",
    frozenset({"Einsum", "Gemm", "MatMul", "MatMulInteger", "QLinearMatMul"}),
    with_epilogue,
)


def _chain(grouping: Grouping, anchor: int) -> list[int]:
    """Elementwise ops, each the only reader of the one before."""
    members = [anchor]
    while len(members) < grouping.max_group:
        reader = grouping.graph.only_reader(members[-1])
        if reader is None or not grouping.is_free(reader):
            break
        if grouping.graph.op(reader) not in ELEMENTWISE_OPS:
            break
        members.append(reader)
    return members


ELEMENTWISE = FusionRule("elementwise", ELEMENTWISE_OPS, _chain)


def _viewed(grouping: Grouping, anchor: int) -> set[int] | None:
    """A view of a group's result joins the group: it moves no data."""
    viewed = grouping.graph.nodes[anchor].inputs[0]
    producer = grouping.graph.producer(viewed) if viewed is not None else None
    group = grouping.group_of(producer) if producer is not None else None
    if group is None or group.exit != producer:
        return None
    return {*group.members, anchor}


VIEWS = FusionRule("view", VIEW_OPS, _viewed, extends=True)
