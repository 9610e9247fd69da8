"""Replaces operators whose weights do not fit a chip by operators that hold a slice each."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir

from mcm_compiler.components.op_support import runs_on_host
from mcm_compiler.contracts.cost import CostModel
from mcm_compiler.contracts.sharding.sharding import OperatorSharding
from mcm_compiler.contracts.target import PackageLimits
from mcm_compiler.graph.constants import (
    attribute_weights,
    constants_and_placeable,
    consumed_values,
    memory_of,
)
from mcm_compiler.ir.rewriting.naming import UnusedNames
from mcm_passes.parallelism.oversized import graph_edits, output_pieces
from mcm_passes.parallelism.oversized.weight_slices import Slice, WeightSlicer, can_slice

_MOST_FOR_ACTIVATIONS = 0.25
"""Share of the SRAM that the activations of a whole operator may claim."""

_MOST_FOR_RELAYS = 0.75
"""Share of the SRAM that activations may claim next to one piece of an operator."""

_LEAST_ROOMY = 0.3
"""Fraction of a chip below which operators claim less for activations, in proportion."""

_MOST_FOR_STREAMED = 0.5
"""Share of what is left for weights that one operator may claim where chips have to stream: a chip
that does has two buffers for its largest weight."""

_MOST_BESIDE_STATES = 0.1
"""The same where the memory is for states as well, of as many sequences as fit."""

_NEARLY_FULL = 0.8
"""Share of all SRAM above which weights are cut because whole ones leave too many gaps."""

_MOST_OF_GAPS = 0.75
"""Most that a piece takes in a nearly full package, of the memory that weights leave free per chip:
chips that are filled in turn waste less than a piece each."""

_MOST_OF_A_CHIP = 0.95
"""Fraction of the SRAM for a piece and its buffers if a smaller one has no memory for buffers."""

_LEAST_PIECE = 1 / 64
"""Share of the SRAM below which pieces are not made smaller for that."""


LIGHT, MOST_BESIDE_LIGHT = 1 / 16, 0.2
"""Share of the SRAM up to which the activations of an op are few, and of streamed weights then."""

FEW_COLUMNS = (32, 16, 8, 4, 2, 1)
"""Columns or channels of the pieces of streamed weights that are not computed to the same bits."""


@dataclass(frozen=True)
class Oversized:
    """An operator that is too large for a chip.

    Attributes:
        node: the operator.
        weight: its largest weight.
        weight_bytes: bytes of all its weights, as the chip stores them.
        cut: how it is cut, or None where it cannot be.
        pieces: bounds of the pieces along the cut; empty where `cut` is None.
    """

    node: ir.Node
    weight: ir.Value
    weight_bytes: int
    cut: output_pieces.WeightCut | None
    pieces: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class WeightDemand:
    """Demand of a graph's weights on the chips.

    Attributes:
        total_bytes: all distinct weights that placed operators read.
        oversized: operators that are too large for a chip, in graph order.
        full: share of all SRAM that weights take where they nearly fill it; else 0.
    """

    total_bytes: int
    oversized: tuple[Oversized, ...]
    full: float = 0.0


class WeightDemands:
    """Finds the operators whose weights leave no memory for anything else on the largest chip.

    An operator counts as too large if its weights take more than a fraction of the SRAM less the
    buffers of its inputs and outputs. These are at most a quarter of the SRAM: no cut makes them
    smaller. One that cannot be cut, but whose weights alone fit, is left to the memory plan. Where
    the package can stream weights and has to, half of that is too large. Where weights nearly fill
    the package, so is what takes most of the memory that they leave free on a chip. Of `tiles`,
    which may share weights, those count whose weights alone exceed the fraction of the SRAM. Where
    chips hold `states`, buffers of streamed weights have to leave memory for them.
    """

    def __init__(
        self,
        graph: ir.Graph,
        cost_model: CostModel,
        limits: PackageLimits,
        tiles: Collection[ir.Node] = (),
        *,
        states: bool = False,
    ) -> None:
        self._size, self._limits, self._tiles = cost_model.storage_bytes, limits, tiles
        self._constants, nodes = constants_and_placeable(graph)
        self._weights_of = {
            node: [v for v in consumed_values(node) if v in self._constants]
            + attribute_weights(node)
            for node in nodes
            if not runs_on_host(cost_model, (node,))
        }
        values = dict.fromkeys(value for own in self._weights_of.values() for value in own)
        self._sizes = {value: self._size(value) for value in values}
        # Slices of a weight that two operators read are stored for both.
        shared = {value for node, own in self._weights_of.items() if node in tiles for value in own}
        apart = (own for node, own in self._weights_of.items() if node not in tiles)
        stored = sum(self._sizes[value] for own in (shared, *apart) for value in own)
        streams = limits.stream_bytes_per_s > 0.0 and stored > sum(limits.sram_bytes)
        self._part = (_MOST_BESIDE_STATES if states else _MOST_FOR_STREAMED) if streams else 1.0
        self._most = _most_of_a_piece(stored, limits)
        self._full = stored / sum(limits.sram_bytes) if self._most < math.inf else 0.0
        self._total = sum({memory_of(value): size for value, size in self._sizes.items()}.values())

    def above(self, fraction: float) -> WeightDemand:
        """Those that are too large by a fraction of the SRAM."""
        largest = max(self._limits.sram_bytes)
        claimed = _MOST_FOR_ACTIVATIONS * min(1.0, fraction / _LEAST_ROOMY)
        light = max(fraction - claimed, fraction / 2)
        easy = min(self._part * light * largest, self._most)
        found: list[Oversized] = []
        for node, weights in self._weights_of.items():
            own = [self._sizes[value] for value in weights]
            if sum(own) <= (fraction * largest if node in self._tiles else easy):
                continue
            if one := self._oversized(node, weights, own, fraction):
                found.append(one)
        return WeightDemand(self._total, tuple(found), self._full)

    def _oversized(
        self, node: ir.Node, weights: Sequence[ir.Value], own: Sequence[int], fraction: float
    ) -> Oversized | None:
        read = [value for value in consumed_values(node) if value not in self._constants]
        outputs = sum(self._size(v) for v in node.outputs if v.name)
        inputs, demand = sum(map(self._size, read)), sum(own)
        room = _Room(inputs, outputs, self._limits, fraction, self._part, self._most)
        if demand <= room.beside_whole():
            return None
        weight = max(weights, key=lambda value: self._sizes[value])
        found = _cut(node, weight, own, self._constants, room)
        whole = replace(room, part=1.0, most=math.inf)
        if found is None and demand > whole.beside_whole():
            found = _cut(node, weight, own, self._constants, whole)
        if found is None and demand <= max(self._limits.sram_bytes):
            return None
        return Oversized(node, weight, demand, *(found or (None, ())))


def _most_of_a_piece(stored: int, limits: PackageLimits) -> float:
    """Bytes of weights that an op may have where they nearly fill the package; else no limit."""
    memory = sum(limits.sram_bytes)
    if not _NEARLY_FULL * memory < stored <= memory:
        return math.inf
    free = (memory - stored) / limits.num_chips
    return max(_MOST_OF_GAPS * free, _LEAST_PIECE * max(limits.sram_bytes))


@dataclass(frozen=True)
class _Room:
    inputs: int
    outputs: int
    limits: PackageLimits
    fraction: float
    part: float
    most: float

    def beside_whole(self) -> float:
        """Bytes for the weights of the operator as it is."""
        return self._left(self.inputs + self.outputs, _MOST_FOR_ACTIVATIONS)

    def beside_piece(self, share: float) -> float:
        """Bytes for weights on a chip that computes `share` of the outputs and relays nothing."""
        return self._left(self.inputs + share * self.outputs, _MOST_FOR_ACTIVATIONS)

    def beside_relays(self, share: float) -> float:
        """Bytes for weights on the chip of the last piece, which computes `share` of the outputs.

        Pieces stand on one chip after the other. In the worst case a chip hands on the inputs to
        the next piece and the outputs of all former ones, each received and sent again.
        """
        relayed = self.inputs + (1 - share) * self.outputs
        return self._left(2 * relayed + share * self.outputs, _MOST_FOR_RELAYS)

    def _left(self, activations: float, most: float) -> float:
        sram, most = max(self.limits.sram_bytes), most * min(1.0, self.fraction / _LEAST_ROOMY)
        left = self.fraction * sram - min(self.limits.channel_slots * activations, most * sram)
        return min(self.part * left, self.most)


def _cut(
    node: ir.Node, weight: ir.Value, sizes: Sequence[int], constants: set[ir.Value], room: _Room
) -> tuple[output_pieces.WeightCut, tuple[tuple[int, int], ...]] | None:
    """The cut into as few pieces as fit."""
    cut = output_pieces.weight_cut(node)
    shape = output_pieces.static_shape(weight)
    if cut is None or shape is None or node.inputs[cut.operand] is not weight:
        return None
    if not _divides(node, weight, cut, constants):
        return None
    extent, unit = shape[cut.axis], cut.unit
    rest = sum(sizes) - max(sizes)
    candidates: list[tuple[float, tuple[tuple[int, int], ...]]] = []
    # Pieces that are small enough to be streamed may share a chip.
    most = round(room.limits.num_chips / room.part)
    for count in range(2, min(extent // unit, most) + 1):
        bounds = cut.bounds(extent, count)
        extents = [stop - start for start, stop in bounds]
        if min(extents) < cut.min_extent:
            break
        candidates.append((max(extents) / extent, tuple(bounds)))
    # Where relays leave room for no piece, the memory plan may still find a way without them.
    for beside in (room.beside_relays, room.beside_piece):
        for share, bounds in candidates:
            if rest + share * max(sizes) <= beside(share):
                return cut, bounds
    # If buffers alone take more than the fraction, it counts for weights.
    sram = max(room.limits.sram_bytes)
    most = min(room.most, room.fraction * sram)
    small = [one for one in candidates if rest + one[0] * max(sizes) <= most]
    streams = room.limits.stream_bytes_per_s > 0.0
    small = small or candidates[-1:] * (not streams)
    roomy = replace(room, most=math.inf, fraction=max(room.fraction, _MOST_OF_A_CHIP))
    fits = [one for one in small[:1] if rest + one[0] * max(sizes) <= roomy.beside_piece(one[0])]
    if fits or not streams or sum(sizes) <= most:
        return (cut, fits[0][1]) if fits else None
    # Streamed weights are as small as asked for; sums of so few columns may take another order.
    if room.inputs + room.outputs <= LIGHT * sram:
        most = max(most, MOST_BESIDE_LIGHT * sram)
    few = [u for u in FEW_COLUMNS if u % unit == 0]
    step = next((u for u in few if rest + u / extent * max(sizes) <= most), 0)
    finer = tuple((at, min(at + step, extent)) for at in range(0, extent, step)) if step else ()
    return (cut, finer) if len(finer) > 1 else None


def _divides(
    node: ir.Node, weight: ir.Value, cut: output_pieces.WeightCut, constants: set[ir.Value]
) -> bool:
    """True where all operands that are cut can be."""
    if len(node.outputs) != 1 or node.inputs.count(weight) != 1:
        return False
    extent, unit = graph_edits.fixed_shape(weight)[cut.axis], cut.unit
    if extent % unit or not can_slice(weight, cut.axis, unit):
        return False
    return all(
        value is not None
        and value in constants
        and can_slice(value, axis)
        and graph_edits.fixed_shape(value)[axis] * unit % extent == 0
        for value, axis in ((node.inputs[at], axis) for at, axis in cut.beside)
    )


class OperatorSharder:
    """Rewrites operators of one graph.

    Args:
        graph: changed in place.
    """

    def __init__(self, graph: ir.Graph) -> None:
        self._graph = graph
        self._names = UnusedNames(graph)
        self._slicer = WeightSlicer(graph, self._names)

    def shard(self, found: Oversized) -> tuple[OperatorSharding, list[ir.Node]]:
        """Replaces an operator by its pieces and a `Concat` that makes the same value.

        Weights that nothing reads any more are dropped.

        Returns:
            The record for the sharding plan, and the new operators (the `Concat` last).
        """
        node, cut = found.node, found.cut
        assert cut is not None
        result = node.outputs[0]
        pieces = [
            self._piece(found, cut, index, bounds) for index, bounds in enumerate(found.pieces)
        ]
        name = self._names.take(f"{node.name}/concat")
        parts = [piece.outputs[0] for piece in pieces]
        concat = graph_edits.concat_in_place(node, result, parts, cut.output_axis, name)
        self._graph.insert_before(node, [*pieces, concat])
        operands = [value for value in node.inputs if value is not None]
        record = OperatorSharding(
            node.name or "",
            found.weight.name or "",
            found.weight_bytes,
            cut.axis,
            tuple(piece.name or "" for piece in pieces),
        )
        self._graph.remove(node, safe=True)
        graph_edits.drop_unused(self._graph, operands)
        return record, [*pieces, concat]

    def _piece(
        self, found: Oversized, cut: output_pieces.WeightCut, index: int, bounds: tuple[int, int]
    ) -> ir.Node:
        node = found.node
        inputs = list(node.inputs)
        inputs[cut.operand] = self._slicer.part(found.weight, Slice(cut.axis, *bounds), node)
        extent = graph_edits.fixed_shape(found.weight)[cut.axis]
        for at, axis in cut.beside:
            value = inputs[at]
            assert value is not None
            part = _in_proportion(graph_edits.fixed_shape(value), axis, bounds, extent)
            inputs[at] = self._slicer.part(value, part, node)
        name = self._names.take(f"{node.name}/shard_{index}")
        result = node.outputs[0]
        part_name = self._names.take(f"{result.name}/shard_{index}")
        made = graph_edits.fixed_shape(result)
        value = _in_proportion(made, cut.output_axis, bounds, extent).of_value(result, part_name)
        attributes = [a for a in node.attributes.values() if a.name != cut.attribute]
        if cut.attribute:
            attributes.append(ir.AttrInt64(cut.attribute, bounds[1] - bounds[0]))
        return graph_edits.op_like(node, inputs, [value], name, attributes)


def _in_proportion(shape: Sequence[int], axis: int, bounds: tuple[int, int], extent: int) -> Slice:
    """The part of something of `shape` that `bounds` are of `extent`."""
    start, stop = (bound * shape[axis] // extent for bound in bounds)
    return Slice(axis, start, stop)
