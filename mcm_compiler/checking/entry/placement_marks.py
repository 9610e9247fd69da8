"""Check the marks in a folder's models: chips of ops and their times there."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from mcm_compiler.artifact import emit
from mcm_compiler.artifact.manifest import Manifest
from mcm_compiler.components.op_support import runs_on_host, unsupported_ops
from mcm_compiler.contracts.chips import (
    CHIP_PROPERTY,
    GROUP_PROPERTY,
    ORIGIN_PROPERTY,
    RUNS_ON_HOST,
    RUNS_ON_PROPERTY,
)
from mcm_compiler.contracts.cost import KnowsHostOps, costs_in
from mcm_compiler.contracts.replication import Replication
from mcm_compiler.contracts.target import ChipModel, Target
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph import constants, trip_counts
from mcm_compiler.ir.rewriting.device_stages import HOST_CONFIGURATION
from mcm_compiler.text.units import count_text

SHOWN = 10
"""Faults that are spelled out."""

MARGIN = 1e-9
"""Relative space for seconds that are added up in another order."""


@dataclass
class _Found:
    """Places of an op of the source model on the chips."""

    chips: set[int] = field(default_factory=set[int])
    groups: set[str] = field(default_factory=set[str])
    seconds: float = 0.0


def check_placement_marks(
    chips: Sequence[ChipModel], source: ir.Model, manifest: Manifest, target: Target
) -> None:
    """Checks chip, group, cost and stage of every op of the annotated source model.

    They follow from the chips' models, whose ops say which op of the source they come from. A mark
    that is missing says nothing wrong.

    Args:
        chips: the chips' models.
        source: the annotated source model.
        manifest: says how many pipelines there are.
        target: the package.

    Raises:
        CompileError: MCM-V053, one diagnostic per op up to `SHOWN`.
    """
    model = target.cost_model()
    found: dict[str, _Found] = {}
    faults: list[Diagnostic] = []
    for chip in chips:
        placed = set(constants.placeable_nodes(chip.model.graph))
        costs = costs_in(chip.model.graph, model)
        for node in chip.model.graph:
            marks = node.metadata_props
            if (said := marks.get(CHIP_PROPERTY, str(chip.chip))) != str(chip.chip):
                place = f"node {quote(node.name or '')} of chip {chip.chip}"
                faults.append(_told(place, f"is marked for chip {quote(said)}"))
            origin = marks.get(ORIGIN_PROPERTY)
            if origin is None or node not in placed:
                continue  # what is constant is on every chip that reads it
            own = found.setdefault(origin, _Found())
            own.chips.add(chip.chip)
            own.groups |= {marks[GROUP_PROPERTY]} if GROUP_PROPERTY in marks else set()
            own.seconds += costs.node_cost(node).seconds
    faults += _trip_count_faults(chips, source, manifest)
    replication = Replication(manifest.replicas, manifest.chips_each)
    for node in source.graph:
        place = f"node {quote(node.name or '')} of the source"
        own = found.get(node.name or "", _Found())
        faults += [_told(place, fault) for fault in _faults(node, own, replication)]
    for name, number in (
        (emit.REPLICAS_PROPERTY, manifest.replicas),
        (emit.CHIPS_EACH_PROPERTY, manifest.chips_each),
    ):
        if (said := source.metadata_props.get(name, str(number))) != str(number):
            faults.append(_told("the source", f"has {name} {quote(said)}, and not {number}"))
    if faults:
        raise CompileError(faults[:SHOWN])


def _trip_count_faults(
    chips: Sequence[ChipModel], source: ir.Model, manifest: Manifest
) -> Iterator[Diagnostic]:
    """Differences between the stated trip counts of the manifest, the source and the chips."""
    if (found := trip_counts.stated_counts(source.graph)) != dict(manifest.counted.trip_counts):
        yield _told("the source", f"states trip counts {found}, the manifest says otherwise")
    for label, count in trip_counts.sequence_counts(source.graph).items():
        if found.get(label, count) != count:
            yield _told(
                f"loop {quote(label)}", f"runs {count} times, the source states another count"
            )
    loops = {node for _, node in trip_counts.loops_of(source.graph)}
    known = {node.name or "": _stated_within(node, loops) for node in source.graph} if loops else {}
    for chip in chips:
        loops = {node for _, node in trip_counts.loops_of(chip.model.graph)}
        for node in chip.model.graph if loops else ():
            stated = known.get(node.metadata_props.get(ORIGIN_PROPERTY, ""), {})
            other = frozenset[int | None]().union(*stated.values())
            for name, counts in _stated_within(node, loops).items():
                if not counts <= stated.get(name, other):
                    place = f"loop {quote(name)} of chip {chip.chip}"
                    yield _told(place, f"has trip counts {sorted(map(str, counts))}")


def _stated_within(node: ir.Node, loops: Container[ir.Node]) -> dict[str, frozenset[int | None]]:
    """Stated counts of an op and of the loops within it, by the names of their ops."""
    found: dict[str, frozenset[int | None]] = {}
    for inner in (node, *(n for graph in constants.subgraphs(node) for n in graph.all_nodes())):
        if inner in loops:
            name = inner.name or inner.op_type
            found[name] = found.get(name, frozenset()) | {trip_counts.stated_trips(inner)}
    return found


def _faults(node: ir.Node, found: _Found, replication: Replication) -> Iterator[str]:
    marks = node.metadata_props
    places = ",".join(map(str, replication.places(found.chips)))
    if (said := marks.get(CHIP_PROPERTY, places)) != places:
        yield f"is marked for chips {quote(said)}, it runs on {places or 'none'}"
    if found.chips and emit.REMOVED_PROPERTY in marks:
        yield "is marked as removed, and chips run it"
    group = marks.get(GROUP_PROPERTY)
    if found.chips and group is not None and group not in found.groups:
        yield f"is marked for group {quote(group)}, in which no chip runs it"
    said = marks.get(emit.COST_PROPERTY)
    if found.chips and said is not None and not _is_number(said, found.seconds):
        yield f"is said to take {quote(said)} s, it takes {found.seconds!r} s"
    first = min(found.chips, default=None)
    # A model that was compiled before, or by others, has further configurations.
    stages = [
        stage.pipeline_stage
        for stage in node.device_configurations
        if stage.configuration is not None
        and not (stage.configuration.name or "").startswith(HOST_CONFIGURATION)
    ]
    if first is not None and stages and first not in stages:
        yield f"is in stage {stages[-1]}, it runs on chip {first}"


def _is_number(text: str, number: float) -> bool:
    try:
        return math.isclose(float(text), number, rel_tol=MARGIN)
    except ValueError:
        return False


def _told(place: str, fault: str) -> Diagnostic:
    return Diagnostic("MCM-V053", f"{place} {fault}", at=place)


def check_host_marks(chips: Sequence[ChipModel], source: ir.Model, target: Target) -> str:
    """Checks marks in the chips' models and in the annotated source model.

    An op that chips lack is marked; else only ops that take no time are, in the group of one.
    Metadata and the multi-device fields say the same.

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
        nodes = constants.placeable_nodes(chip.model.graph)
        wanted = _wanted(nodes, target)
        for node in chip.model.graph:
            place = f"node {quote(node.name or '')} of chip {chip.chip}"
            faults += _host_faults(node, node in wanted, place)
            if node in wanted:
                marked.add(node.metadata_props.get(ORIGIN_PROPERTY, ""))
    for node in source.graph:
        faults += _host_faults(
            node, node.name in marked, f"node {quote(node.name or '')} of the source"
        )
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


def _host_faults(node: ir.Node, wanted: bool, place: str) -> Iterator[Diagnostic]:
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
        yield Diagnostic("MCM-V051", problem, at=place)
