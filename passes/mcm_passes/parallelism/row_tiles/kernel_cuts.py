"""Kernels that take too long for one chip, cut along the cheapest loop of their result.

Any loop divides a kernel that all of its ops have: rows, over which windows may slide, output
channels, columns, heads. The cost model prices the tiles, so that tiles which leave a part of the
MAC array idle lose against others. No graph is rewritten for cuts that lose.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import onnx_ir as ir

from mcm_compiler.components.op_support import runs_on_host
from mcm_compiler.contracts.cost import NODE_COST, CostModel
from mcm_compiler.contracts.fusion import FUSION_PLAN, FusionGroup, FusionPlan
from mcm_compiler.contracts.sharding.rules import FactorKind
from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.graph.constants import constant_values, leaves, subgraphs
from mcm_compiler.graph.states import STATES, States
from mcm_compiler.ir.rewriting.naming import UnusedNames
from mcm_compiler.text.units import count_text, seconds_text
from mcm_passes.mapping.problem.measured_names import planned_kernels
from mcm_passes.parallelism.oversized.graph_edits import fixed_shape
from mcm_passes.parallelism.oversized.model_division import ModelDivision
from mcm_passes.parallelism.oversized.output_pieces import static_shape
from mcm_passes.parallelism.oversized.weight_slices import (
    Slice,
    WeightSlicer,
    can_slice,
    slice_tensor,
)
from mcm_passes.parallelism.row_tiles.row_regions import CUT_OPS, RowRegion, RowRegions
from mcm_passes.parallelism.row_tiles.row_tiling import plan_of_tiles
from mcm_passes.parallelism.row_tiles.tile_rewriting import (
    Bounds,
    CutRegion,
    TiledRegions,
    tile_regions,
)
from mcm_passes.parallelism.rules.graph_rules import GraphRules, installed_rules
from mcm_passes.parallelism.rules.shard_forms import shard_form
from mcm_passes.parallelism.sharded_graph.new_ops import NewOps

MOST_EXTRA = 1.1
"""Tiles that take longer together than this many times the whole are chosen only where the whole
takes longer than its share of the package."""

ALIGNMENTS = (1, 64, 32, 16, 8, 4, 2)
"""Extents that tiles may be multiples of."""

EACH_COUNT = 64
"""From twice as many tiles on, not every number of tiles is tried."""

WASTE = 1.02
"""Tiles that take less together than this many times the whole need not be aligned."""

_SLIDING = frozenset(
    {"AveragePool", "Conv", "ConvInteger", "LpPool", "MaxPool", "QLinearConv"}
)  # fmt: skip

SLICES = "tile_slices"
"""Kind of groups of ops that were not fused, with slices and joins."""


@dataclass(frozen=True)
class KernelCut:
    """One way to cut a kernel.

    Attributes:
        cut: its ops and bounds.
        longest_s: seconds of the longest tile.
        total_s: of all tiles.
        whole_s: of the kernel.
    """

    cut: CutRegion
    longest_s: float
    total_s: float
    whole_s: float


class KernelCuts:
    """Cuts of the kernels of one model, which is not changed while this lives.

    Args:
        model: with shapes.
        cost_model: prices kernels.
        plan: the fusion plan.

    Attributes:
        kernels: ops that run as one.
        whole: kernels that should have been cut and cannot, with their seconds.
    """

    def __init__(self, model: ir.Model, cost_model: CostModel, plan: FusionPlan) -> None:
        self._cost_model = cost_model
        self._graph = model.graph
        self._rules = GraphRules(model, installed_rules())
        self._constants = constant_values(model.graph)
        self._regions = RowRegions(self._rules, self._constants, set(), lambda _: 1, 0.0, CUT_OPS)
        pairs = (STATES.find(model) or States(())).pairs
        self._states = {name for pair in pairs for name in (pair.past, pair.present)}
        self.whole: list[tuple[tuple[ir.Node, ...], float]] = []
        self.kernels = [tuple(kernel) for kernel in planned_kernels(model.graph, plan)]
        self._known: dict[tuple[object, ...], tuple[int, KernelCut] | None] = {}
        self._priced: dict[tuple[object, ...], float] = {}
        self._found: dict[ir.Node, list[RowRegion]] = {}

    @cached_property
    def seconds(self) -> list[float]:
        """Of each kernel."""
        return [self._seconds_of(kernel) for kernel in self.kernels]

    def _seconds_of(self, nodes: Sequence[ir.Node]) -> float:
        """Of one op, what it carries already."""
        cost = NODE_COST.find(nodes[0]) if len(nodes) == 1 else None
        return (cost or self._cost_model.group_cost(nodes)).seconds

    @cached_property
    def launch_s(self) -> float:
        """Of a kernel that does nothing."""
        return self._cost_model.node_cost(_nothing()).seconds

    @property
    def work_s(self) -> float:
        """Seconds of all kernels."""
        return math.fsum(self.seconds)

    def cut_above(self, most_s: float, share_s: float) -> list[KernelCut]:
        """A cut of each kernel that takes more than `most_s`, where one pays.

        Args:
            most_s: that a tile is to take.
            share_s: of the work that each chip has.
        """
        found: list[KernelCut] = []
        for kernel, seconds in zip(self.kernels, self.seconds, strict=True):
            if seconds <= most_s:
                continue
            if cut := self._best(kernel, seconds, most_s, share_s):
                found.append(cut)
            else:
                self.whole.append((kernel, seconds))
        return found

    def cut_for_memory(self, rows: int, most_bytes: float, small: float = 0.0) -> list[KernelCut]:
        """Kernels over whose rows windows slide, for chips with little memory.

        Args:
            rows: of the largest tile; twice as many where that fills the MAC array better. Where
                some images are small, of the lowest that kernels which are cut read; tiles of
                higher ones have fewer, in proportion.
            most_bytes: weights above which a kernel is cut along its channels instead.
            small: kernels are whole if they read nothing that takes more bytes, nor does any of
                the images as high as theirs.
        """
        size = self._cost_model.storage_bytes
        wanted: list[tuple[tuple[ir.Node, ...], float, RowRegion, int]] = []
        largest: dict[int, int] = {}
        for kernel, seconds in zip(self.kernels, self.seconds, strict=True):
            slides = any(node.op_type in _SLIDING for node in kernel)
            for region in self.regions(kernel) if slides else ():
                if height := _height(region):
                    most = rows if small else self._filling_rows(kernel, region, rows)
                    made = [size(value) for node in kernel for value in node.outputs]
                    largest[height] = max((largest.get(height, 0), *made))
                else:
                    weights = sum(size(v) for v in region.values if v in self._constants)
                    share = most_bytes / max(weights, 1)
                    most = max(1, int(region.rows * min(share, 1.0)))
                if region.rows > most:
                    wanted.append((kernel, seconds, region, most))
                    break
        if not small:
            return [
                self._within(kernel, region, most, seconds)
                for kernel, seconds, region, most in wanted
            ]
        tall: dict[ir.Node, tuple[float, RowRegion]] = {}
        for kernel, seconds, region, _ in wanted:
            read = [size(value) for node in kernel for value in node.inputs[:1] if value]
            if max((largest.get(region.rows, 0), *read)) > small:
                tall[kernel[0]] = seconds, region
        return self._in_step(tall, rows)

    def _in_step(
        self, tall: Mapping[ir.Node, tuple[float, RowRegion]], rows: int
    ) -> list[KernelCut]:
        """Tiles that end where those that read them need it, of `rows` rows of the lowest image."""
        lowest = min((_rows_read(region, region.rows) for _, region in tall.values()), default=0)
        wanted: dict[ir.Value, list[int]] = {}
        found: list[KernelCut] = []
        for kernel in reversed(self.kernels):
            stops = max((wanted.get(v, [0]) for n in kernel for v in n.outputs), key=min)
            seconds, region = tall.get(kernel[0], (0.0, None))
            if region is not None:
                read = _rows_read(region, region.rows)
                most = max(rows * lowest * region.rows // (read * read), 1)
                bounds = _bounds_in_step(region.rows, stops, most)
                stops = [stop for _, stop in bounds]
                if len(bounds) > 1:
                    tiles = self._prices(kernel, region, bounds)
                    cut = CutRegion(region, bounds)
                    found.append(KernelCut(cut, max(tiles), math.fsum(tiles), seconds))
            for node in kernel:
                slid = region is not None and node is next(iter(region.ops))
                for at, value in enumerate(node.inputs):
                    ends = (
                        [_rows_read(region, s) for s in stops]
                        if region and slid and not at
                        else stops
                    )
                    shape = () if value is None else static_shape(value) or ()
                    if value is not None and shape[2:3] == (ends[-1],):
                        wanted[value] = max(wanted.get(value, ends), ends, key=min)
        return found[::-1]

    def _within(
        self, kernel: Sequence[ir.Node], region: RowRegion, most: int, seconds: float
    ) -> KernelCut:
        """The least work in tiles of at most `most` rows, about as few as can be."""
        fewest = -(-region.rows // most)
        counts = range(fewest, min(fewest + fewest // 4, region.rows) + 1)
        tilings = (cut for n in counts for cut in self._tilings(kernel, region, n, seconds, most))
        return min(tilings, key=lambda cut: cut.total_s)

    def _filling_rows(self, kernel: Sequence[ir.Node], region: RowRegion, rows: int) -> int:
        if region.rows <= rows:
            return rows
        most = min(2 * rows, region.rows)
        each = {n: self._price(kernel, region, 0, n) / n for n in range(rows, most + 1)}
        best = min(each, key=lambda n: each[n])
        return best if each[rows] > MOST_EXTRA * each[best] else rows

    def regions(self, kernel: Sequence[ir.Node]) -> Iterator[RowRegion]:
        """Regions of a kernel, one for each loop that it can be cut along."""
        if runs_on_host(self._cost_model, kernel):
            return
        values = {v for node in kernel for v in (*node.inputs, *node.outputs) if v is not None}
        if any(static_shape(value) is None for value in values):
            return
        # In pieces, what was a state would cross the host's link.
        if any(value.name in self._states for value in values):
            return
        main = max(kernel, key=lambda n: (n.op_type in _SLIDING, self._seconds_of([n])))
        yield from self._regions.of_kernel(kernel, main)

    def along(self, node: ir.Node, axis: int, plan: FusionPlan) -> RowRegion | None:
        """An op, and those that run with it and read nothing else, divided along an axis of it.

        None where that cannot be, or the result is one of the model.
        """
        chain, group = [node], plan.group_of.get(node.name or "")
        while group is not None:
            readers = chain[-1].outputs[0].consumers()
            after = readers[0] if len(readers) == 1 else None
            if after is None or after.name not in group.nodes or len(after.outputs) != 1:
                break
            if sum(value not in self._constants for value in after.inputs if value) != 1:
                break
            chain.append(after)
        chain = chain[
            : next((k for k, n in enumerate(chain) if n.outputs[0].is_graph_output()), len(chain))
        ]
        for length in range(len(chain), 0, -1):
            for region in self._regions.of_kernel(chain[:length], node):
                if region.values[node.outputs[0]].axis == axis:
                    return region
        return None

    def _best(
        self, kernel: Sequence[ir.Node], seconds: float, most_s: float, share_s: float
    ) -> KernelCut | None:
        regions = self._found.get(kernel[0]) or list(self.regions(kernel))
        self._found[kernel[0]] = regions
        key = (most_s, share_s, *(self._rules.signature(node) for node in kernel))
        if key not in self._known:
            most = MOST_EXTRA if seconds <= share_s else math.inf
            self._known[key] = self._search(kernel, regions, seconds, most_s, most * seconds)
        found = self._known[key]
        if found is None or found[0] >= len(regions):
            return None
        index, cut = found
        return replace(cut, cut=CutRegion(regions[index], cut.cut.bounds))

    def _search(
        self,
        kernel: Sequence[ir.Node],
        regions: Sequence[RowRegion],
        seconds: float,
        most_s: float,
        most_total_s: float,
    ) -> tuple[int, KernelCut] | None:
        counts = _tile_counts(seconds / most_s, max((r.rows for r in regions), default=0))
        best: tuple[tuple[float, ...], tuple[int, KernelCut]] | None = None
        ways = [(self._read_whole(region), index) for index, region in enumerate(regions)]
        for shared, index in sorted(ways):
            region = regions[index]
            for count in counts:
                cut: KernelCut | None = None
                # Together tiles take no less than the whole, and a launch each.
                least_s = seconds + (count - 1) * self.launch_s
                relative = round(least_s / seconds, 2)
                bound = False, max(seconds / count, most_s), relative, count * shared
                if least_s > most_total_s or (best and best[0] <= bound):
                    continue
                for cut in self._tilings(kernel, region, count, seconds):
                    if cut.total_s > most_total_s or cut.longest_s >= seconds:
                        continue
                    relative = round(cut.total_s / seconds, 2)
                    # Of equally long ones, those whose tiles read least in common.
                    score = (
                        relative > MOST_EXTRA,
                        max(cut.longest_s, most_s),
                        relative,
                        count * shared,
                    )
                    if best is None or score < best[0]:
                        best = score, (index, cut)
                    if best[0] <= bound:
                        break
                if cut and cut.total_s <= WASTE * seconds and cut.longest_s <= most_s:
                    break
        return None if best is None else best[1]

    def _tilings(
        self,
        kernel: Sequence[ir.Node],
        region: RowRegion,
        count: int,
        seconds: float,
        most: float = math.inf,
    ) -> Iterator[KernelCut]:
        """Cuts into `count` tiles by multiples of several extents, up to one that wastes little."""
        known: set[Bounds] = set()
        for unit in ALIGNMENTS:
            bounds = even_bounds(region.rows, count, unit)
            if len(bounds) != count or bounds in known:
                continue
            known.add(bounds)
            if max(stop - start for start, stop in bounds) > most:
                continue
            tiles = self._prices(kernel, region, bounds)
            total_s = math.fsum(tiles)
            yield KernelCut(CutRegion(region, bounds), max(tiles), total_s, seconds)
            if total_s <= WASTE * seconds:
                return

    def _read_whole(self, region: RowRegion) -> int:
        """Bytes of what every tile reads all of."""
        return sum(
            self._cost_model.storage_bytes(value)
            for node, op in region.ops.items()
            for at, value in enumerate(node.inputs)
            if value is not None
            and value not in region.values
            and (at or op.rule.factors[op.factor].kind is not FactorKind.HALO)
        )

    def _prices(self, kernel: Sequence[ir.Node], region: RowRegion, bounds: Bounds) -> list[float]:
        prices: dict[int, float] = {}
        for start, stop in bounds:
            # Tiles at the border read less, which is not worth another price.
            if stop - start not in prices:
                prices[stop - start] = self._price(kernel, region, start, stop)
        return [prices[stop - start] for start, stop in bounds]

    def _price(self, kernel: Sequence[ir.Node], region: RowRegion, start: int, stop: int) -> float:
        """Seconds of one tile, priced once for each extent, whatever the grain."""
        factors = (op.factor for op in region.ops.values())
        key = (*kernel, *factors, region.rows, stop - start)
        if key not in self._priced:
            self._priced[key] = self._price_of(kernel, region, start, stop)
        return self._priced[key]

    def _price_of(
        self, kernel: Sequence[ir.Node], region: RowRegion, start: int, stop: int
    ) -> float:
        """Seconds of one tile, built in a graph of its own."""
        scratch = ir.Graph([], [], nodes=[], opset_imports=self._graph.opset_imports, name="tile")
        make, known = NewOps(scratch, UnusedNames(scratch)), dict[ir.Value, ir.Value]()
        slicer, first = WeightSlicer(scratch, make.names), ir.Node("", "Constant", [])
        scratch.append(first)

        def part_of(value: ir.Value, wanted: Slice | None) -> ir.Value:
            dims = fixed_shape(value)
            if value.producer() is not None and value in self._constants and dims:
                cut = wanted or Slice(0, 0, dims[0])
                if can_slice(value, cut.axis):
                    return slicer.part(value, cut, first)
            part = ir.val(
                value.name, type=value.type, shape=wanted.of_shape(dims) if wanted else dims
            )
            stored = value.const_value
            if stored is not None:
                part.const_value = slice_tensor(stored, wanted, "part") if wanted else stored
            return part

        inside = set(kernel)
        for node in kernel:
            op = region.ops[node]
            form = shard_form(op.facts, op.rule, op.factor, start * op.unit, stop * op.unit)
            operands: list[ir.Value | None] = []
            for at, value in enumerate(node.inputs):
                if value is not None and value not in known:
                    known[value] = part_of(value, region.slice_of(value, start, stop))
                if value is not None and at == 0 and form.reads is not None:
                    operands.append(part_of(value, Slice(*form.reads)))
                else:
                    operands.append(None if value is None else known[value])
            for value in node.outputs:
                known[value] = part_of(value, region.slice_of(value, start, stop))
            results = [known[value] for value in node.outputs]
            make.part(node, operands, results, form, node.name or "")
            scratch.outputs.extend(known[v] for v in node.outputs if leaves(v, inside))
        seconds = self._cost_model.group_cost(make.nodes).seconds
        scratch.outputs.clear()
        scratch.remove(list(scratch), safe=True)  # weights of the model have these parts as readers
        return seconds


def _nothing() -> ir.Node:
    """An Identity of one number, of no graph, to be priced."""
    value, made = (
        ir.Value(name=name, type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([1]))
        for name in ("one", "other")
    )
    return ir.Node("", "Identity", [value], outputs=[made], name="")


def _rows_read(region: RowRegion, stop: int) -> int:
    """Rows of the image that the first `stop` rows of a region read."""
    node, op = next(iter(region.ops.items()))
    reads = shard_form(op.facts, op.rule, op.factor, 0, stop * op.unit).reads
    how = region.values.get(node.inputs[0]) if node.inputs[0] is not None else None
    return reads[2] if reads is not None else stop * (how.unit if how is not None else 1)


def _bounds_in_step(rows: int, stops: Sequence[int], most: int) -> Bounds:
    """Tiles of about `most` rows, some of which end at each of `stops`."""
    ends = [0]
    for stop in sorted({*stops, rows} - {0}):
        while 2 * (stop - ends[-1]) >= 3 * most and stop - ends[-1] > most:
            ends.append(ends[-1] + most)
        ends.append(stop)
    return tuple(pairwise(ends))


def _height(region: RowRegion) -> int:
    """Rows of images, if windows slide over them; else 0."""
    for node, op in region.ops.items():
        dims = op.rule.outputs[0] or ()
        if node.op_type in _SLIDING and len(dims) > 2 and op.factor in dims[2]:
            return region.rows
    return 0


def _tile_counts(wanted: float, most: int) -> list[int]:
    """Numbers of tiles that are tried: a quarter more than wanted, then for twice the grain."""
    fewest = max(2, math.ceil(min(wanted, most)))
    more = range(fewest, fewest + fewest // 4 + 2, max(1, fewest // EACH_COUNT))
    return [*more, *(_tile_counts(fewest / 2.0, most) if fewest > 2 else ())]


def even_bounds(extent: int, count: int, unit: int) -> tuple[tuple[int, int], ...]:
    """`range(extent)` in `count` parts, or fewer, of nearly equal multiples of `unit`."""
    blocks = -(-extent // unit)
    cuts = sorted({min(extent, unit * (blocks * k // count)) for k in range(count + 1)})
    return tuple(pairwise(cuts))


def cut_kernels(
    division: ModelDivision,
    cuts: Sequence[CutRegion],
    given: Mapping[ir.Value, Sequence[ir.Value]] | None = None,
) -> TiledRegions:
    """Rewrites a model in place, with its fusion plan; `given` as of `tile_regions`."""
    graph = division.model.graph
    constants = constant_values(graph)

    def fuses(node: ir.Node) -> bool:
        if node.graph is not graph or subgraphs(node) or constants.issuperset(node.outputs):
            return False
        return not runs_on_host(division.cost_model, (node,))

    made = tile_regions(graph, cuts, constants, fuses, given)
    tiles = plan_of_tiles(division.plan, made.tiles)
    FUSION_PLAN.set(division.model, plan_with_slices(tiles, made.fused))
    return made


def cut_notes(
    found: Sequence[KernelCut], whole: Sequence[tuple[Sequence[ir.Node], float]], rows: int
) -> Iterator[Diagnostic]:
    """MCM-P068: kernels were cut; MCM-P069: others cannot be; MCM-P070: `rows` are too few."""
    tiles = sum(len(kernel.cut.bounds) for kernel in found)
    if found:
        yield Diagnostic(
            "MCM-P068",
            f"{count_text(len(found), 'kernel')} cut into {tiles} tiles, of which the longest "
            f"takes {seconds_text(max(kernel.longest_s for kernel in found))}",
            at="the model",
        )
    if whole:
        nodes, seconds = max(whole, key=lambda kernel: kernel[1])
        yield Diagnostic(
            "MCM-P069",
            f"{count_text(len(whole), 'kernel')} of more than the grain not cut, of which the "
            f"longest takes {seconds_text(seconds)}",
            at=f"node {quote(nodes[-1].name or '')} ({quote(nodes[-1].op_type)})",
        )
    before, after = (math.fsum(getattr(k, at) for k in found) for at in ("whole_s", "total_s"))
    if rows and after > MOST_EXTRA * before:
        yield Diagnostic(
            "MCM-P070",
            f"the tiles of `tile_rows={rows}` take {seconds_text(after)}, the kernels that they "
            f"are of {seconds_text(before)}",
            at="option tile_rows",
        )


def plan_with_slices(
    plan: FusionPlan, fused: Mapping[str, tuple[list[str], list[str]]]
) -> FusionPlan:
    """The fusion plan with ops that run with another one: see `TiledRegions.fused`."""
    known = plan.group_of
    groups: list[FusionGroup] = []
    for group in plan.groups:
        names: list[str] = []
        behind: list[str] = []
        for name in group.nodes:
            before, after = fused.get(name, ((), ()))
            names += [*before, name]
            behind += after
        groups.append(replace(group, nodes=(*names, *behind)))
    groups += [
        FusionGroup(name, SLICES, (*before, name, *after))
        for name, (before, after) in fused.items()
        if name not in known
    ]
    return FusionPlan(tuple(groups))
