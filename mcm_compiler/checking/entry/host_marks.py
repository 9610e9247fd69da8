"""Whether the ops that are marked for the host are those that the target's chips lack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx_ir as ir

from mcm_compiler.components.op_support import runs_on_host, unsupported_ops
from mcm_compiler.contracts.chips import (
    GROUP_PROPERTY,
    ORIGIN_PROPERTY,
    RUNS_ON_HOST,
    RUNS_ON_PROPERTY,
)
from mcm_compiler.contracts.cost import KnowsHostOps
from mcm_compiler.contracts.target import ChipModel, Target
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.constants import placeable_nodes
from mcm_compiler.ir.rewriting.device_stages import HOST_CONFIGURATION
from mcm_compiler.text.units import count_text

SHOWN = 10
"""Faults that are spelled out."""


def check_host_marks(chips: Sequence[ChipModel], source: ir.Model, target: Target) -> str:
    """Checks marks in the chips' models and in the annotated source model.

    An op that chips lack is marked; beside such ops only ops that take no time are, in the group
    of one. Metadata and the multi-device fields say the same.

    Args:
        chips: the chips' models.
        source: the annotated source model.
        target: the package.

    Returns:
        A summary; empty where the host runs nothing.

    Raises:
        CompileError: MCM-V051, one diagnostic per op up to `SHOWN`.
    """
    marked: set[str] = set()
    faults: list[Diagnostic] = []
    for chip in chips:
        nodes = placeable_nodes(chip.model.graph)
        wanted = _wanted(nodes, target)
        for node in chip.model.graph:
            place = f"node {quote(node.name or '')} of chip {chip.chip}"
            faults += _faults(node, node in wanted, place)
            if node in wanted:
                marked.add(node.metadata_props.get(ORIGIN_PROPERTY, ""))
    for node in source.graph:
        faults += _faults(node, node.name in marked, f"node {quote(node.name or '')} of the source")
    if faults:
        raise CompileError(faults[:SHOWN])
    return f"{count_text(len(marked), 'op')} on the host" if marked else ""


def _wanted(nodes: Sequence[ir.Node], target: Target) -> set[ir.Node]:
    """Ops of kernels that the host runs, as far as they may be in one."""
    lacking = unsupported_ops(target, nodes)
    if not lacking:
        return set()
    model = target.cost_model()
    if not isinstance(model, KnowsHostOps):
        return set(lacking)
    groups: dict[str, list[ir.Node]] = {}
    for node in nodes:
        if (group := node.metadata_props.get(GROUP_PROPERTY)) is not None:
            groups.setdefault(group, []).append(node)
    wanted = set(lacking)
    for members in groups.values():
        if runs_on_host(model, members):
            wanted.update(node for node in members if model.node_cost(node).seconds == 0)
    return wanted


def _faults(node: ir.Node, wanted: bool, place: str) -> Iterator[Diagnostic]:
    mark = node.metadata_props.get(RUNS_ON_PROPERTY)
    staged = any(
        (stage.configuration.name or "").startswith(HOST_CONFIGURATION)
        and stage.pipeline_stage == 0
        for stage in node.device_configurations
        if stage.configuration is not None
    )
    problem = ""
    if wanted and mark != RUNS_ON_HOST:
        problem = f"chips cannot run {quote(node.op_type)}, and it is not marked for the host"
    elif not wanted and mark is not None:
        problem = f"chips run {quote(node.op_type)}, and it is marked for {quote(mark)}"
    elif wanted and not staged:
        problem = f"the multi-device fields of {quote(node.op_type)} say otherwise than its mark"
    if problem:
        yield Diagnostic(
            "MCM-V051", problem, at=place, hint="a model or the target was changed; compile again"
        )
