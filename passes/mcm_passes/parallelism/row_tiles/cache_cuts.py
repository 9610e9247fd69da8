"""Caches taken apart by heads, so that several chips hold the cache of a layer.

Each piece of a past and its present make a state of their own, on the chip that has the attention
of these heads. Pasts arrive in pieces and presents leave in pieces, where they cross the host's
link.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from mcm_compiler.contracts.sharding.sharding import OutputPart
from mcm_compiler.diagnostics import Diagnostic
from mcm_compiler.graph.constants import constant_values
from mcm_compiler.graph.states import STATES, StatePair, States, kept_bytes
from mcm_compiler.ir.rewriting.naming import UnusedNames
from mcm_compiler.text.units import count_text
from mcm_passes.parallelism.oversized import output_pieces
from mcm_passes.parallelism.oversized.graph_edits import fixed_shape
from mcm_passes.parallelism.oversized.model_division import ModelDivision
from mcm_passes.parallelism.row_tiles.kernel_cuts import cut_kernels, even_bounds
from mcm_passes.parallelism.row_tiles.row_regions import CACHE_OPS, RowRegion, RowRegions
from mcm_passes.parallelism.row_tiles.tile_rewriting import CutRegion
from mcm_passes.parallelism.rules.graph_rules import GraphRules, installed_rules
from mcm_passes.parallelism.rules.operators import attention
from mcm_passes.parallelism.rules.operators.composing import rule_maker

HEADS = 1
"""Axis of the heads of a cache."""


@dataclass(frozen=True)
class CacheCut:
    """The attention of a layer, and where its heads are cut.

    Attributes:
        cut: ops and bounds.
        pairs: pasts and presents.
    """

    cut: CutRegion
    pairs: tuple[tuple[ir.Value, ir.Value], ...]


CACHE_MAKERS = frozenset(
    {"Attention", "Concat", "GroupQueryAttention", "MultiHeadAttention", "TensorScatter"}
)
"""Ops that make the present of a cache."""

PACKED_RULE = (
    "com.microsoft::GroupQueryAttention",
    rule_maker(attention.grouped_query_attention, inputs=1, packed=True),
)
"""Rule by which caches are divided; elsewhere an op with packed operands stays whole."""


def least_pieces(division: ModelDivision) -> int:
    """Pieces that every cache is small enough in; 1 where a chip can hold all that one op makes.

    Of each of several pieces, a chip holds the caches of all sequences within its fraction.
    """
    model, sequences = division.model, division.context.options.sequences or 1
    made: dict[ir.Node, int] = {}
    for past, present in _values(model, STATES.get(model)):
        maker = present.producer()
        if maker is not None and maker.op_type in CACHE_MAKERS:
            own = kept_bytes(past, present, division.cost_model.storage_bytes(present))
            made[maker] = made.get(maker, 0) + sequences * own
    largest, room = max(made.values(), default=0), division.sram_bytes
    return 1 if largest <= room else math.ceil(largest / (division.fraction * room))


def cache_cuts(model: ir.Model, pieces: int) -> list[CacheCut]:
    """Cuts of all layers whose heads can be cut, each in `pieces` or as many as there are heads."""
    pairs = _values(model, STATES.find(model) or States(()))
    constants = constant_values(model.graph)
    rules = GraphRules(model, installed_rules().with_maker(*PACKED_RULE))
    regions = RowRegions(rules, constants, set(), lambda _: 1, 0.0, CACHE_OPS)
    pasts = {past: present for past, present in pairs if past.uses()}
    near = {node for past in pasts for node in _near(past)}
    found: list[CacheCut] = []
    taken: set[ir.Node] = set()
    for past in pasts:
        if any(past in dict(cut.pairs) for cut in found):
            continue
        region = regions.of_cache(past, near)
        if region is None or not taken.isdisjoint(region.ops):
            continue
        own = tuple((a, b) for a, b in pasts.items() if a in region.values or b in region.values)
        bounds = even_bounds(region.rows, min(pieces, region.rows), 1)
        if all(_whole(region, *pair) for pair in own):
            taken |= region.ops.keys()
            found.append(CacheCut(CutRegion(region, bounds), own))
    return found


def cut_caches(division: ModelDivision, cuts: Sequence[CacheCut]) -> None:
    """Rewrites a model in place, with its states and the places of their pieces."""
    model, graph, parts = division.model, division.model.graph, division.parts
    names = UnusedNames(graph)
    given: dict[ir.Value, tuple[ir.Value, ...]] = {}
    for one in cuts:
        for past, _ in one.pairs:
            given[past] = tuple(_pieces(past, one.cut, names, parts))
    done = cut_kernels(division, [one.cut for one in cuts], given)
    inputs = [piece for value in graph.inputs for piece in given.get(value, (value,))]
    graph.inputs.clear()
    graph.inputs.extend(inputs)
    wholes = {present.name: past for one in cuts for past, present in one.pairs}
    pairs: dict[str, list[StatePair]] = {}
    nodes = set(done.nodes)
    for join in done.joins:
        past = wholes.get(join.outputs[0].name)
        if past is None:
            continue
        joined = output_pieces.joined_output(graph, join)
        assert joined is not None, "a present is made by the tiles of its op"
        left = output_pieces.leave_in_pieces(graph, joined)
        parts |= left
        nodes.discard(join)
        pairs[past.name or ""] = [
            StatePair(own.name or "", name) for own, name in zip(given[past], left, strict=True)
        ]
    states = STATES.get(model)
    kept = tuple(p for old in states.pairs for p in pairs.get(old.past, [old]))
    STATES.set(model, States(kept, states.sequences))
    division.price(node for node in done.nodes if node in nodes)


def cache_note(model: ir.Model, cuts: Sequence[CacheCut]) -> Diagnostic:
    """MCM-P086: what becomes of the caches of a model that `cuts` are about to be made of."""
    caches = count_text(len(STATES.get(model).pairs), "cache")
    cut = sum(len(one.pairs) for one in cuts)
    pieces = max((len(one.cut.bounds) for one in cuts), default=1)
    into = f" into up to {pieces} pieces" if cuts else ""
    return Diagnostic("MCM-P086", f"{cut} of {caches} cut by heads{into}", at="the model")


def _values(model: ir.Model, states: States) -> list[tuple[ir.Value, ir.Value]]:
    inputs = {value.name: value for value in model.graph.inputs}
    outputs = {value.name: value for value in model.graph.outputs}
    return [
        (inputs[pair.past], outputs[pair.present])
        for pair in states.pairs
        if pair.past in inputs and pair.present in outputs
    ]


def _near(past: ir.Value) -> set[ir.Node]:
    """Ops that make of a cache what has at least half as many elements, and those that read it."""
    least = math.prod(fixed_shape(past)) / 2
    found: set[ir.Node] = set()
    pending = [past]
    while pending:
        for node in pending.pop().consumers():
            if node in found or any(v.shape is None for v in node.outputs):
                continue
            found.add(node)
            pending += [v for v in node.outputs if math.prod(fixed_shape(v)) >= least]
    return found


def _whole(region: RowRegion, past: ir.Value, present: ir.Value) -> bool:
    """True where all that reads a past or makes its present is divided along heads."""
    maker = present.producer()
    readers = {*past.consumers(), *present.consumers(), *([] if maker is None else [maker])}
    ends = [region.values.get(value) for value in (past, present)]
    along = all(how is not None and how.axis == HEADS for how in ends)
    return along and maker is not None and readers <= region.ops.keys()


def _pieces(
    past: ir.Value, cut: CutRegion, names: UnusedNames, parts: dict[str, OutputPart]
) -> list[ir.Value]:
    whole, made = fixed_shape(past), list[ir.Value]()
    for index, part in enumerate(cut.parts(past)):
        name = names.take(f"{past.name}/part_{index}")
        place = OutputPart(past.name or "", part.axis, part.start, part.stop, whole)
        parts[name] = place
        made.append(ir.Value(name=name, type=past.type, shape=ir.Shape(place.piece_shape)))
    return made
