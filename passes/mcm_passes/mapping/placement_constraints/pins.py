"""Where the user pins ops, and what can contradict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from mcm_compiler.contracts.fusion import FusionPlan
from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.constants import placeable_nodes
from mcm_passes.mapping.models import mapping_of
from mcm_passes.mapping.placement_constraints.name_matching import KnownNames

MAX_FAULTS = 10
"""Contradictions that are spelled out."""

AT = "option --pin"


def known_names(model: ir.Model, plan: FusionPlan) -> KnownNames:
    """Names that a pin or an assignment may use: those of ops and of fusion groups."""
    nodes = [node.name or "" for node in placeable_nodes(model.graph)]
    return KnownNames([*nodes, *(group.name for group in plan.groups)])


def match_pins(pins: Sequence[tuple[str, int]], names: KnownNames) -> dict[str, int]:
    """The chip of each name that a pin matches.

    Args:
        pins: names or patterns, and chips.
        names: of the graph.

    Raises:
        CompileError: MCM-F011 for a pin that matches nothing, MCM-F012 where two pins want one op
            on two chips.
    """
    chip_of: dict[str, int] = {}
    by: dict[str, str] = {}
    faults: list[Diagnostic] = []
    for wanted, chip in pins:
        found = names.matching(wanted)
        if not found:
            message = f"{quote(wanted)} is pinned to chip {chip}, and no op or group has that name"
            faults.append(Diagnostic("MCM-F011", message, at=AT, hint=names.hint(wanted)))
        for name in found:
            if chip_of.setdefault(name, chip) == chip:
                by.setdefault(name, wanted)
                continue
            if len(faults) < MAX_FAULTS:
                message = (
                    f"{quote(name)} is pinned to chip {chip_of[name]} by {quote(by[name])} and to "
                    f"chip {chip} by {quote(wanted)}"
                )
                hint = "an op runs on one chip; leave one of the two out"
                faults.append(Diagnostic("MCM-F012", message, at=AT, hint=hint))
            break
    if faults:
        raise CompileError(faults)
    return chip_of


def refuse_contradictions(problem: PartitionProblem, pins: Mapping[str, int]) -> None:
    """Refuses pins that no partition can keep.

    Args:
        problem: with the pins in `pinned_chip`.
        pins: from `match_pins`.

    Raises:
        CompileError: MCM-F012 for ops of one unit on two chips, and for what the
            family adds: on a ring dataflow against it, and chips that would have to stay empty.
    """
    faults = _torn_units(problem, pins)
    if not faults and int(problem.pinned_chip.max(initial=-1)) < problem.num_chips:
        faults = mapping_of(problem).contradictions(problem)
    if faults:
        raise CompileError(faults[:MAX_FAULTS])


def _torn_units(problem: PartitionProblem, pins: Mapping[str, int]) -> list[Diagnostic]:
    faults: list[Diagnostic] = []
    for unit, members in zip(problem.names, problem.members, strict=True):
        wanted = {name: pins[name] for name in (unit, *members) if name in pins}
        if len(set(wanted.values())) > 1:
            first, *rest = wanted
            second = next(name for name in rest if wanted[name] != wanted[first])
            message = (
                f"{quote(first)} is pinned to chip {wanted[first]} and {quote(second)} to chip "
                f"{wanted[second]}, but they stay together in {quote(unit)}"
            )
            hint = "pin both to one chip, or compile without `fuse` (--passes)"
            faults.append(Diagnostic("MCM-F012", message, at=AT, hint=hint))
    return faults
