"""From a graph to stages: cheap ops join the stage of what they read, moved data stays in place."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from mcm_compiler.contracts.fabrics.fabric import Fabric
from mcm_compiler.graph.constants import attribute_weights, consumed_values
from mcm_compiler.graph.estimated_dims import is_estimated
from mcm_hardware.families.fabric.layout.op_work import (
    ATTENTION,
    ELEMENTWISE,
    MOST,
    MOST_WORK,
    MOVEMENT,
    NORMALIZATION,
    PRODUCT,
    REDUCTION,
    SOFTMAX,
    OpWork,
    is_ready,
    op_work,
    reads_in_place,
)
from mcm_hardware.families.fabric.layout.stages import (
    ALL,
    INPUTS,
    LEFT,
    OUTSIDE,
    RIGHT,
    SHARE,
    Demand,
    Read,
    Stage,
)
from mcm_hardware.tensors.storage_widths import element_count

_MOST_PIECES = 16
"""Values that lie in more pieces are put together by a stage, or long chains of Concat would make
every stage read every other one."""

_CHEAP_LANE_OPS = 4
"""Lane operations per element of an op that always joins its producer's stage."""

_GROWTH = 4
"""An op that makes more than this many times what a stage makes does not join it."""

_IN_REGISTERS = 4096
"""Elements of weights other than products, such as biases, that compute units hold themselves."""

FUSINGS = (APART, ROWS_TOGETHER, ATTENTION_TOGETHER) = (0, 1, 2)
"""How much of an attention is one stage: nothing; the scores and their softmax; all of it. What is
together makes longer stages, and saves the memory between them."""

_SMALL_INPUT = 1024
"""Elements of inputs that take no memory unit: they come from outside for each stage."""

Pieces = tuple[tuple[ir.Value, int], ...]


class StageBuilder:
    """Collects the stages of a graph.

    Args:
        fabric: whose compute units work.
        fusing: of `FUSINGS`.

    Attributes:
        stages: so far; the first one holds the inputs.
        unknown: values of unknown size that some stage would have to make.
    """

    def __init__(self, fabric: Fabric, fusing: int) -> None:
        self._fabric = fabric
        self._fusing = fusing
        self._ready: set[ir.Value] = set()
        self._pieces: dict[ir.Value, Pieces] = {}
        self._maker: dict[ir.Value, int] = {}
        self.stages: list[Stage] = [Stage("in", MOVEMENT)]
        self.unknown: list[ir.Value] = []

    def add_graph(self, graph: ir.Graph) -> None:
        """All ops of a graph in topological order."""
        self._ready.update(graph.initializers.values())
        for value in graph.inputs:
            if value.name not in graph.initializers:
                self._make(value, INPUTS)
        for node in graph:
            self._add(node)

    def demands(self, outputs: Sequence[ir.Value]) -> list[Demand]:
        """The stages that something depends on, as numbers; the first one holds the inputs."""
        wanted: dict[ir.Value, int] = {}
        for value in outputs:
            for root, elements in self._pieces.get(value, ()):
                wanted[root] = max(wanted.get(root, 0), elements)
        needed = set(wanted)
        alive: list[int] = []
        for index in range(len(self.stages) - 1, INPUTS, -1):
            stage = self.stages[index]
            if needed.isdisjoint(stage.makes):
                continue
            alive.append(index)
            needed.update(value for value, _ in stage.reads)
        numbers = [INPUTS, *reversed(alive)]
        return _numbered(self.stages, numbers, self._maker, wanted)

    def _add(self, node: ir.Node) -> None:
        values = consumed_values(node)
        if is_ready(node, values, self._ready):
            self._ready.update(node.outputs)
            return
        first = node.inputs[0] if node.inputs else None
        others_ready = all(value in self._ready for value in values if value is not first)
        if reads_in_place(node, others_ready) and self._alias(node):
            return
        work = op_work(node, self._fabric)
        active = [value for value in values if value not in self._ready]
        host = max((self._stage_of(value) for value in active), default=INPUTS)
        made = sum(element_count(value) for value in node.outputs)
        if host == INPUTS or not self._joins(self.stages[host], host, node, work, active):
            self.stages.append(Stage(node.name or node.op_type, work.kind))
            host = len(self.stages) - 1
        stage = self.stages[host]
        self._read(stage, host, node, work, active)
        self._count(stage, work, made, _weights_first(node, active))
        for value in node.outputs:
            self._make(value, host)

    def _alias(self, node: ir.Node) -> bool:
        """Lets results lie in pieces of the operands; False where they are too many."""
        operands = node.inputs if node.op_type == "Concat" else node.inputs[:1]
        pieces = tuple(
            piece
            for value in operands
            if value is not None and value not in self._ready
            for piece in self._pieces[value]
        )
        # A constant that takes part in a Concat has to be put there by somebody.
        if not pieces or len(pieces) > _MOST_PIECES or any(v in self._ready for v in operands):
            return False
        held = sum(elements for _, elements in pieces)
        for value in node.outputs:
            made = element_count(value)
            part = min(made / held, 1.0) if held else 1.0
            self._pieces[value] = tuple((root, math.ceil(e * part)) for root, e in pieces)
        return True

    def _stage_of(self, value: ir.Value) -> int:
        return max((self._maker[root] for root, _ in self._pieces[value]), default=INPUTS)

    def _joins(
        self, stage: Stage, index: int, node: ir.Node, work: OpWork, active: Sequence[ir.Value]
    ) -> bool:
        """Return whether an op runs on the units of the stage of its last operand."""
        if work.gemms:
            return (
                self._fusing >= ATTENTION_TOGETHER
                and stage.whole_rows
                and len(active) == 2
                and self._stage_of(active[0]) == index > self._stage_of(active[1])
            )
        if work.kind == MOVEMENT:
            return False
        if work.kind == SOFTMAX and stage.kind == ATTENTION:
            return self._fusing >= ROWS_TOGETHER
        made = sum(element_count(value) for value in node.outputs)
        known = all(
            self._maker[root] == index or any(read == root for read, _ in stage.reads)
            for value in active
            for root, _ in self._pieces[value]
        )
        if made > _GROWTH * stage.out_elements and not known:
            return False
        if work.kind != ELEMENTWISE:
            return stage.macs == 0 and work.kind in (REDUCTION, NORMALIZATION)
        busy = stage.macs / self._fabric.macs_per_cycle + stage.lane_ops / self._fabric.lanes
        cheap = work.lane_ops <= _CHEAP_LANE_OPS * made
        return cheap or work.lane_ops / self._fabric.lanes <= busy

    def _count(self, stage: Stage, work: OpWork, made: int, flipped: bool) -> None:
        if work.kind == REDUCTION and stage.kind == ELEMENTWISE:
            stage.kind = REDUCTION
        elif work.kind == NORMALIZATION and stage.kind in (ELEMENTWISE, REDUCTION):
            stage.kind = NORMALIZATION
        elif work.kind == ELEMENTWISE and stage.kind == REDUCTION and made > stage.out_elements:
            stage.kind = NORMALIZATION  # what is reduced and then applied to all elements again
        stage.whole_rows |= work.kind == SOFTMAX and stage.macs > 0
        stage.lane_ops = min(stage.lane_ops + work.lane_ops, MOST_WORK)
        stage.out_elements = max(stage.out_elements, min(made, MOST))
        if work.gemms:
            main = max(work.gemms, key=lambda gemm: gemm.macs)
            first = stage.macs == 0
            stage.macs = min(stage.macs + work.macs, MOST_WORK)
            if not first:
                return
            rows, cols = max(main.m, 1), max(main.n, 1)
            stage.rows, stage.cols = (cols, rows) if flipped else (rows, cols)

    def _read(
        self, stage: Stage, index: int, node: ir.Node, work: OpWork, active: Sequence[ir.Value]
    ) -> None:
        if work.gemms and len(active) > 1:
            stage.kind = ATTENTION if node.op_type not in ("LSTM", "GRU", "RNN") else PRODUCT
        made = sum(element_count(value) for value in node.outputs)
        positions = {value: k for k, value in reversed(list(enumerate(node.inputs)))}
        left = active[0] if active else None
        for value in active:
            part = work.reads.get(positions.get(value, -1))
            for root, elements in self._pieces[value]:
                read = elements if part is None else min(part, MOST)
                if self._maker[root] == index or read == 0:
                    continue
                if work.gemms:
                    mode = LEFT if value is left else RIGHT
                else:
                    mode = ALL if 2 * read <= made and len(active) > 1 else SHARE
                _raise_to(stage.reads, (root, mode), read)
        ready = [value for value in consumed_values(node) if value in self._ready]
        for value in (*ready, *attribute_weights(node)):
            held = min(element_count(value), MOST)
            read = min(work.reads.get(positions.get(value, -1), held), MOST)
            product = bool(work.gemms) and (positions.get(value, 9) < 3 or held > _IN_REGISTERS)
            if read == 0 or (not product and held <= _IN_REGISTERS):
                continue
            stage.weights[value, RIGHT if product else SHARE] = (held, read)

    def _make(self, value: ir.Value, index: int) -> None:
        elements = min(element_count(value), MOST)
        used = index == INPUTS or value.uses() or value.is_graph_output()
        if used and not _has_size(value):
            self.unknown.append(value)
        self._pieces[value] = ((value, elements),)
        self._maker[value] = index
        self.stages[index].makes[value] = elements


def _weights_first(node: ir.Node, active: Sequence[ir.Value]) -> bool:
    """Return whether the right operand of a product changes, so that its columns are our rows."""
    return len(active) == 1 and node.op_type == "MatMul" and node.inputs[0] is not active[0]


def _has_size(value: ir.Value) -> bool:
    """Return whether its dimensions are known, or planned with; sequences count as one element."""
    if value.shape is None:
        return value.type is not None and not isinstance(value.type, ir.TensorType)
    return all(isinstance(dim, int) or is_estimated(dim) for dim in value.shape)


def _raise_to(reads: dict[tuple[ir.Value, int], int], key: tuple[ir.Value, int], size: int) -> None:
    reads[key] = max(reads.get(key, 0), size)


def _numbered(
    stages: Sequence[Stage],
    numbers: Sequence[int],
    maker: dict[ir.Value, int],
    wanted: dict[ir.Value, int],
) -> list[Demand]:
    """Demands of the stages that stay, with levels and depths."""
    new = {index: k for k, index in enumerate(numbers)}
    reads: list[tuple[Read, ...]] = []
    level = [0] * len(numbers)
    last = [0] * len(numbers)
    read_by_others: set[ir.Value] = set()
    for k, index in enumerate(numbers):
        merged: dict[tuple[int, int], int] = {}
        for (value, mode), elements in stages[index].reads.items():
            source = new[maker[value]]
            if source == INPUTS and elements <= _SMALL_INPUT and value not in wanted:
                source = OUTSIDE
            else:
                read_by_others.add(value)
                level[k] = max(level[k], level[source] + 1)
            merged[source, mode] = merged.get((source, mode), 0) + elements
        level[k] = max(level[k], min(k, 1))
        reads.append(tuple(Read(s, mode, e) for (s, mode), e in sorted(merged.items())))
        for source in {source for source, _ in merged if source != OUTSIDE}:
            last[source] = max(last[source], level[k])
    demands: list[Demand] = []
    sets: dict[frozenset[tuple[ir.Value, int]], int] = {}
    for k, index in enumerate(numbers):
        stage = stages[index]
        same = sets.setdefault(frozenset(stage.weights), len(sets)) if stage.weights else -1
        leaves = sum(wanted[v] for v in stage.makes if v in wanted)
        shared = [e for v, e in stage.makes.items() if v in read_by_others]
        made = sum(e for v, e in stage.makes.items() if v in read_by_others or v in wanted)
        by_columns = [pair for (_, mode), pair in stage.weights.items() if mode == RIGHT]
        by_share = [pair for (_, mode), pair in stage.weights.items() if mode == SHARE]
        demands.append(
            Demand(
                name=stage.name,
                kind=stage.kind,
                macs=stage.macs,
                rows=stage.rows if stage.macs else max(stage.out_elements, 1),
                cols=stage.cols if stage.macs else 1,
                whole_rows=stage.whole_rows,
                lane_ops=stage.lane_ops,
                reads=reads[k],
                weight_set=same,
                weights=sum(held for held, _ in by_columns),
                weight_reads=sum(read for _, read in by_columns),
                tables=sum(held for held, _ in by_share),
                table_reads=sum(read for _, read in by_share),
                makes=max(made, 1),
                leaves=leaves,
                kept=bool(shared) or (k == INPUTS and leaves > 0),
                level=level[k],
                depth=max(last[k] - level[k] + 1, 2),
            )
        )
    return demands
