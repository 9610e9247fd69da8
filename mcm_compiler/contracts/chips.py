"""Facts about the per-chip models, once the graph is split."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import onnx_ir as ir

from mcm_compiler.arrays.dags import following_lists, topological
from mcm_compiler.contracts.partition import CHIP
from mcm_compiler.contracts.sharding.sharding import OUTPUT_PARTS, OutputPart
from mcm_compiler.contracts.target import HOST, ChipModel, ChipState, Wire
from mcm_compiler.graph.annotations import GRAPH, AnnotationKey
from mcm_compiler.graph.states import STATES, StatePair, States

CHIP_MODELS: AnnotationKey[tuple[ChipModel, ...]] = AnnotationKey(
    "chip_models", derived_from=(GRAPH, CHIP)
)
"""One model per used chip, ascending."""

MAPPED_CHIPS: AnnotationKey[tuple[Any, ...]] = AnnotationKey(
    "mapped_chips", derived_from=("chip_models", "wires")
)
"""Records of the target's addition about each used chip, ascending; see `Addition`."""

WIRES: AnnotationKey[tuple[Wire, ...]] = AnnotationKey("wires", derived_from=(GRAPH, CHIP))
"""All tensors that travel between chips and the host, in order of first use."""

OWN_PROPERTIES = "mcm."
"""Prefix of the keys of all of the compiler's own `metadata_props`."""

GROUP_PROPERTY = "mcm.group"
"""Key in a node's `metadata_props`: its fusion group."""

ORIGIN_PROPERTY = "mcm.origin"
"""Key in a node's `metadata_props`: the node of the source model that it comes from."""

PLANNED_PROPERTY = "mcm.plan"
"""Key in the `metadata_props` of an annotated model whose ops a plan divides."""

CHIP_PROPERTY = "mcm.chip"
"""Key in a node's `metadata_props`: its chip."""

RUNS_ON_PROPERTY = "mcm.runs_on"
"""Key in a node's `metadata_props`: `RUNS_ON_HOST` where its chip lets the host run it."""

RUNS_ON_HOST = "host"


def kernels_of(nodes: Iterable[ir.Node]) -> list[list[ir.Node]]:
    """The ops of a chip's graph, those of a fusion group together, in the order of their first."""
    kernels: dict[str, list[ir.Node]] = {}
    for node in nodes:
        group = node.metadata_props.get(GROUP_PROPERTY)
        # A lone op may be named like a group.
        key = f"node {node.name}" if group is None else f"group {group}"
        kernels.setdefault(key, []).append(node)
    return list(kernels.values())


def states_of(chips: Iterable[ChipModel]) -> tuple[ChipState, ...]:
    """The states of all chips."""
    return tuple(state for chip in chips for state in chip.states)


def with_state_wires(wires: Iterable[Wire], states: Iterable[ChipState]) -> tuple[Wire, ...]:
    """The wires of one inference as the source model sees it.

    The host sends each past to its chip and receives the present from there. An inference computes
    the same with a state on the chip and with a state that is transferred.
    """
    found = list(wires)
    for state in states:
        past, present = state.places or (None, None)
        found.append(Wire(state.past, HOST, (state.chip,), past))
        found.append(Wire(state.present, state.chip, (HOST,), present))
    return tuple(found)


def pieces_of(wires: Iterable[Wire], *, inputs: bool = False) -> dict[str, OutputPart]:
    """The places of pieces of outputs, which the host puts together; of inputs, which it cuts."""
    return {w.tensor: w.part for w in wires if w.part and (w.source == HOST) == inputs}


def whole_states(model: ir.Model) -> tuple[StatePair, ...]:
    """The states of a model as its source has them, of which it may hold pieces."""
    parts = OUTPUT_PARTS.find(model) or {}

    def whole(name: str) -> str:
        return parts[name].graph_output if name in parts else name

    pairs = (STATES.find(model) or States(())).pairs
    return tuple(dict.fromkeys(StatePair(whole(p.past), whole(p.present)) for p in pairs))


def dataflow_order(chips: Iterable[int], wires: Iterable[Wire]) -> tuple[int, ...]:
    """The chips, each behind those that send to it; see `ordered_by`.

    Args:
        chips: used chips.
        wires: all tensors that travel.
    """
    return ordered_by(((w.source, c) for w in wires for c in w.destinations), chips)


def chips_in_dataflow_order(
    chips: Iterable[ChipModel], wires: Iterable[Wire]
) -> tuple[ChipModel, ...]:
    """The models of chips, each behind those that send to it; see `ordered_by`."""
    model_of = {chip.chip: chip for chip in chips}
    return tuple(model_of[chip] for chip in dataflow_order(model_of, wires))


def ordered_by(pairs: Iterable[tuple[int, int]], chips: Iterable[int]) -> tuple[int, ...]:
    """The chips, each after those that send to it; of several that may be next, the lowest.

    If all tensors go to higher chips, that is ascending. Chips that wait for each other in a
    circle come last, ascending.

    Args:
        pairs: sender and receiver; the host, and pairs of one chip, are ignored.
        chips: all chips to order.
    """
    numbers = sorted(set(chips))
    place = {chip: at for at, chip in enumerate(numbers)}
    sent = {(a, b) for a, b in pairs if a != b and a in place and b in place}
    edges = [(place[a], place[b]) for a, b in sorted(sent)]
    order = [numbers[at] for at in topological(following_lists(len(numbers), edges))]
    return (*order, *sorted({*numbers} - {*order}))


_COPY_SUFFIX = re.compile(r"/on_chip_\d+(?:_\d+)?$")
"""Suffix of the name of an op that `legalize` copies to another chip."""


def name_before_copying(node: ir.Node) -> str:
    """Name of the op that `node` is a copy of on another chip, or else its own."""
    name = node.name or ""
    if "/on_chip_" not in name or node.metadata_props.get(ORIGIN_PROPERTY, name) == name:
        return name
    return _COPY_SUFFIX.sub("", name)


def is_relay(node: ir.Node) -> bool:
    """Return whether `legalize` added `node` to forward a tensor; no op of the model is one."""
    named = "/relay_" in (node.name or "") and ORIGIN_PROPERTY not in node.metadata_props
    return named and node.op_type == "Identity" and not node.domain
