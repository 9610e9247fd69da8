"""States that stay on a chip: which do, and the units that this makes.

What reads a past and what makes its present are one unit, with all that is on paths between
them, so that they are on one chip. The state itself is a weight of that unit: it is there before an
inference and after it, takes the space of all sequences in flight, and crosses no link.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import onnx_ir as ir

from mcm_compiler.contracts.cost import CostModel
from mcm_compiler.contracts.fusion import FusionPlan
from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.contracts.target import Target, holds_states
from mcm_compiler.diagnostics import CompileError, Diagnostic, Severity, quote
from mcm_compiler.graph.constants import (
    attribute_weights,
    constants_and_placeable,
    consumed_values,
    placeable_nodes,
)
from mcm_compiler.graph.states import (
    STATES,
    StatePair,
    States,
    copies_held,
    kept_bytes,
    named_pasts,
)
from mcm_compiler.text.units import bytes_text, count_text
from mcm_passes.mapping.problem.contraction import Unit, contract


@dataclass(frozen=True, eq=False)
class HeldState:
    """A state that stays on a chip.

    Attributes:
        past: graph input.
        present: graph output.
        room_bytes: what all buffers of it take, alignment included.
    """

    past: ir.Value
    present: ir.Value
    room_bytes: int


@dataclass(frozen=True, eq=False)
class StateUnits:
    """The units of a graph whose states stay where they can.

    Attributes:
        units: in a topological order.
        held: states that stay.
        dropped: those that cannot, with the reason.
    """

    units: list[Unit]
    held: tuple[HeldState, ...]
    dropped: tuple[tuple[StatePair, str], ...] = ()

    @property
    def lack_of_memory(self) -> str | None:
        """Why a state was dropped that fewer sequences would have kept."""
        whys = [why for _, why in self.dropped if not why.startswith(tuple(_REMEDIES))]
        return whys[0] if whys else None


def units_with_states(
    model: ir.Model,
    target: Target,
    plan: FusionPlan,
    pins: Mapping[str, int] | None = None,
    *,
    keep: bool = True,
) -> StateUnits:
    """Contracts a graph, with its `STATES` on one chip each where that is possible.

    A pair is given up if its unit has ops pinned to different chips, or needs more memory than any
    chip has. From the last one on, pairs are also given up as long as all states and weights
    together need more than all chips have.

    Args:
        model: the graph.
        target: the package.
        plan: the fusion plan.
        pins: chip by name of a node or group that the user wants there.
        keep: whether any state is to stay.

    Raises:
        CompileError: MCM-P001 if the plan's groups form a cycle, MCM-P080 where states of several
            sequences are asked for that do not fit.
    """
    states = STATES.find(model)
    if states is None or not states.pairs or not keep:
        return StateUnits(contract(placeable_nodes(model.graph), plan), ())
    made = _kept_where_possible(model, target, plan, pins, states)
    if states.sequences > 1 and (why := made.lack_of_memory) is not None:
        fit, beyond = 0, states.sequences
        while beyond - fit > 1:
            tried = (fit + beyond) // 2
            fewer = replace(states, sequences=tried)
            if _kept_where_possible(model, target, plan, pins, fewer).lack_of_memory is None:
                fit = tried
            else:
                beyond = tried
        raise CompileError(too_many_sequences(states.sequences, why, fit))
    return made


def too_many_sequences(sequences: int, why: str, fit: int | None = None) -> Diagnostic:
    """MCM-P080, an error.

    Args:
        sequences: that are asked for.
        why: what is lacking.
        fit: upper bound of those that fit, None where none is known.
    """
    most = "" if fit is None else f"; by weights and states alone, at most {fit} fit"
    return Diagnostic(
        "MCM-P080",
        f"the states of {sequences} sequences do not fit: {why}{most}",
        at="option sequences",
    )


def _kept_where_possible(
    model: ir.Model,
    target: Target,
    plan: FusionPlan,
    pins: Mapping[str, int] | None,
    states: States,
) -> StateUnits:
    constants, nodes = constants_and_placeable(model.graph)
    readers: dict[ir.Value, list[ir.Node]] = {}
    for node in model.graph:
        for value in dict.fromkeys(consumed_values(node)):
            readers.setdefault(value, []).append(node)
    held, dropped = _possible(model.graph, states, target, readers, set(nodes))
    costs, memory = target.cost_model(), target.limits.sram_bytes
    streams = target.limits.stream_bytes_per_s > 0.0
    while True:
        links = [link for state in held for link in _links(state, readers)]
        units = contract(nodes, plan, links)
        bad: dict[HeldState, str] = {}
        members = {node: u for u, unit in enumerate(units) for node in unit.nodes}
        homes = [members[_maker(state)] for state in held]
        needs = {u: 0 if streams else _weights_of(units[u], constants, costs) for u in homes}
        for state, unit in zip(held, homes, strict=True):
            needs[unit] += state.room_bytes
        for state, unit in zip(held, homes, strict=True):
            chips = _pinned(units[unit], pins or {})
            if len(chips) > 1:
                bad[state] = f"{_PINNED} to chips {', '.join(map(str, chips))}"
            elif needs[unit] > max(memory):
                bad[state] = (
                    f"the {count_text(len(units[unit].nodes), 'op')} that must be on its chip need "
                    f"{bytes_text(needs[unit])} with their states, a chip has "
                    f"{bytes_text(max(memory))}"
                )
        if not bad and held:
            weights = 0 if streams else _all_weights(units, constants, costs)
            total = weights + sum(state.room_bytes for state in held)
            if total > sum(memory):
                bad[held[-1]] = (
                    f"weights and states need {bytes_text(total)}, all chips have "
                    f"{bytes_text(sum(memory))}"
                )
        if not bad:
            return StateUnits(units, tuple(held), tuple(dropped))
        dropped += [(_pair(state), why) for state, why in bad.items()]
        held = [state for state in held if state not in bad]


def kept_states(model: ir.Model, problem: PartitionProblem) -> States:
    """The states of a model that stay on their chips in a problem of it."""
    states = STATES.find(model) or States(())
    stored = frozenset(problem.weight_names)
    kept = tuple(pair for pair in states.pairs if pair.past in stored)
    return States(kept, states.sequences)


_NO_PLACE = "the target"
_NO_MAKER = "the present is the input itself, or a constant"
_NO_READER = "no op reads the past"
_PINNED = "its ops are pinned"

_REMEDIES = {
    _NO_PLACE: "take a target whose chips keep states",
    _NO_MAKER: "nothing has to be done; --state names the pairs that are states, or none",
    _NO_READER: "nothing has to be done; --state names the pairs that are states, or none",
    _PINNED: "leave out the pins that part the ops",
}
"""Remedies by the beginning of the reason; all others are for want of memory."""


def dropped_note(dropped: Sequence[tuple[StatePair, str]]) -> Diagnostic | None:
    """MCM-P052 where states do not stay on their chips."""
    if not dropped:
        return None
    why = dropped[0][1]
    return Diagnostic(
        "MCM-P052",
        f"{count_text(len(dropped), 'state')} cannot stay on a chip and cross the host's link in "
        f"every inference: {why}",
        at=f"input {named_pasts([pair for pair, _ in dropped])}",
        severity=Severity.NOTE if why.startswith((_NO_MAKER, _NO_READER)) else Severity.WARNING,
        hint=next(
            (hint for start, hint in _REMEDIES.items() if why.startswith(start)),
            "take a target with more memory per chip, or a smaller batch or context",
        ),
    )


def _possible(
    graph: ir.Graph,
    states: States,
    target: Target,
    readers: Mapping[ir.Value, Sequence[ir.Node]],
    placed: set[ir.Node],
) -> tuple[list[HeldState], list[tuple[StatePair, str]]]:
    """States whose past an op reads and whose present one makes."""
    inputs = {value.name: value for value in graph.inputs}
    outputs = {value.name: value for value in graph.outputs}
    costs, unit = target.cost_model(), target.limits.buffer_alignment_bytes
    held: list[HeldState] = []
    dropped: list[tuple[StatePair, str]] = []
    for pair in states.pairs:
        past, present = inputs.get(pair.past), outputs.get(pair.present)
        why = ""
        if not holds_states(target):
            why = f"{_NO_PLACE} {quote(target.name)} gives them no memory"
        elif past is None or present is None or present.producer() not in placed:
            why = _NO_MAKER
        elif placed.isdisjoint(readers.get(past, ())):
            why = _NO_READER
        else:
            kept = kept_bytes(past, present, max(costs.storage_bytes(present), 0))
            size = -(-kept // unit) * unit
            copies = copies_held(past, present, states.sequences)
            held.append(HeldState(past, present, copies * size))
        if why:
            dropped.append((pair, why))
    return held, dropped


def _links(
    state: HeldState, readers: Mapping[ir.Value, Sequence[ir.Node]]
) -> list[tuple[ir.Node, ir.Node]]:
    """Pairs of ops that have to be on one chip."""
    return list(pairwise([*readers[state.past], _maker(state)]))


def _maker(state: HeldState) -> ir.Node:
    maker = state.present.producer()
    assert maker is not None, "presents without an op are not held"
    return maker


def _pair(state: HeldState) -> StatePair:
    return StatePair(state.past.name or "", state.present.name or "")


def _pinned(unit: Unit, pins: Mapping[str, int]) -> list[int]:
    names = (unit.name, *(node.name or "" for node in unit.nodes))
    return sorted({pins[name] for name in names if name in pins})


def _weights_of(unit: Unit, constants: set[ir.Value], costs: CostModel) -> int:
    weights = [value for value in unit.reads if value in constants]
    weights += [value for node in unit.nodes for value in attribute_weights(node)]
    return sum(max(costs.storage_bytes(value), 0) for value in dict.fromkeys(weights))


def _all_weights(units: Sequence[Unit], constants: set[ir.Value], costs: CostModel) -> int:
    weights = dict.fromkeys(value for unit in units for value in unit.reads if value in constants)
    return sum(max(costs.storage_bytes(value), 0) for value in weights)
