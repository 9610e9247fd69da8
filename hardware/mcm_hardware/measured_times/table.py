"""The cost model `table`: measured times from a CSV file."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler.components.cost_choice import CostBasis, CostModelMaker
from mcm_compiler.contracts.chips import name_before_copying
from mcm_compiler.contracts.cost import CostModel, ModelNames, NodeCost, OpCosts
from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.graph.rounds import class_of
from mcm_hardware.measured_times.times_file import MeasuredTime, TimesTable, op_kind, read_times


@dataclass(frozen=True)
class TableCosts(CostModelMaker):
    """Times by name of op or kernel, or by kind of op; the rest by the target's own model.

    Where the table has few of a model's kernels, what its rows have in common holds for the rest.

    Attributes:
        file: the table.
        chip: kind of chip whose rows hold, where the table is about several.
        factor: what times of the own model are multiplied by; None for the median of the rows'
            times over those of the own model, for the model that is compiled.

    Raises:
        ValueError: if the factor is no number above 0.
    """

    name: ClassVar[str] = "table"
    summary: ClassVar[str] = "measured times from a CSV file, the rest by the target's own model"
    files: ClassVar[tuple[str, ...]] = ("file",)

    file: str
    chip: str = ""
    factor: float | None = None

    def __post_init__(self) -> None:
        if self.factor is not None and not 0.0 < self.factor < math.inf:
            raise ValueError("factor has to be a number above 0")

    def make(self, basis: CostBasis) -> OpCosts:
        """Reads the table.

        Raises:
            CompileError: MCM-C005, one diagnostic per fault of the table.
        """
        times = _read_once(basis.files["file"], basis.paths["file"], self.chip)
        return MeasuredTimes(times, basis.own, 1.0 if self.factor is None else self.factor)


_read_once = lru_cache(maxsize=1)(read_times)
"""For search and for the simulator."""


MAX_FAULTS = 20
"""Faults that are spelled out."""

MOST_NAMES = 5000
"""Names among which the nearest one is looked for; that takes time linear in them."""


@dataclass(frozen=True)
class MeasuredTimes:
    """Implements `mcm_compiler.contracts.cost.OpCosts` and `MeasuredCosts`.

    A fused kernel takes the time of its own row. Without one, the times of its ops that have rows
    are added; the others take the own model's time for one kernel, times `factor`. An op takes
    the time of its row by name, or else by kind. Copies of an op on other chips take its time.

    Attributes:
        times: the table.
        own: the target's own model, for all that was not measured, and for operations and bytes.
        factor: what times of the own model are multiplied by.
        name: printed with every number that comes from it.
    """

    times: TimesTable
    own: CostModel
    factor: float = 1.0
    name: str = "table"

    def node_cost(self, node: ir.Node) -> NodeCost:
        """Cost of `node` on its own."""
        return self.group_cost((node,))

    def group_cost(self, nodes: Sequence[ir.Node]) -> NodeCost:
        """Cost of `nodes` run as one kernel."""
        cost = self.own.group_cost(nodes)
        if len(nodes) > 1 and (whole := self._of_kernel(nodes)) is not None:
            return _measured(cost, whole.seconds, whole.seconds, len(nodes))
        found = [(node, self._of_op(node)) for node in nodes]
        rows = [time.seconds for _, time in found if time is not None]
        if not rows:
            return replace(cost, seconds=cost.seconds * self.factor)
        rest = [node for node, time in found if time is None]
        measured_s = math.fsum(rows)
        if not rest:
            return _measured(cost, measured_s, measured_s, len(rows))
        others = self.own.group_cost(rest)
        return replace(
            _measured(cost, measured_s + others.seconds * self.factor, measured_s, len(rows)),
            modelled=others.modelled,
        )

    def common_factor(self, kernels: Iterable[Sequence[ir.Node]]) -> float | None:
        """The median of measured times over computed ones, weighted by the latter.

        A median, since rows may be of kernels that the own model knows badly.
        """
        ratios: list[tuple[float, float]] = []
        for nodes in kernels:
            whole = self._of_kernel(nodes) if len(nodes) > 1 else None
            if whole is not None:
                ratios.append((whole.seconds, self.own.group_cost(nodes).seconds))
                continue
            found = [(node, time) for node in nodes if (time := self._of_op(node)) is not None]
            ratios += [(time.seconds, self.own.node_cost(node).seconds) for node, time in found]
        ratios = sorted((m / own, own) for m, own in ratios if m > 0.0 and own > 0.0)
        half, reached = math.fsum(own for _, own in ratios) / 2, 0.0
        for ratio, own in ratios:
            reached += own
            if reached >= half:
                return ratio
        return None

    def name_faults(self, names: ModelNames) -> Sequence[Diagnostic]:
        """MCM-C006 for each row whose op or kernel is not there, MCM-C005 for two of one."""
        group_of = {op: kernel for kernel, ops in names.kernels.items() for op in ops}
        faults: list[Diagnostic] = []
        kernels = names.kernels.keys() | (names.ops - group_of.keys())
        for name, time in self.times.nodes.items():
            if name in names.removed:
                continue
            if name in names.ops:
                other = self.times.kernels.get(name)
                if other is not None and name in kernels and name not in names.kernels:
                    faults.append(self._twice(name, time, other))
                continue
            faults.append(self._unknown("node", name, time, names.ops))
        for name, time in self.times.kernels.items():
            if name in kernels or name in names.removed:
                continue
            if name in group_of:
                faults.append(self._inside(name, time, group_of[name]))
            else:
                faults.append(self._unknown("kernel", name, time, kernels))
        faults.sort(key=lambda fault: int((fault.at or "").rpartition(":")[2]))
        return faults[:MAX_FAULTS]

    def _of_kernel(self, nodes: Sequence[ir.Node]) -> MeasuredTime | None:
        if not self.times.kernels:
            return None
        named = (self.times.kernels.get(name) for node in nodes for name in _names(node))
        return next((time for time in named if time is not None), None)

    def _of_op(self, node: ir.Node) -> MeasuredTime | None:
        times = self.times
        named = (times.nodes.get(name) or times.kernels.get(name) for name in _names(node))
        found = next((time for time in named if time is not None), None)
        if found is None and times.kinds:
            found = times.kinds.get(op_kind(node))
        return found

    def _place(self, time: MeasuredTime) -> str:
        return f"{self.times.path}:{time.line}"

    def _unknown(
        self, column: str, name: str, time: MeasuredTime, known: Iterable[str]
    ) -> Diagnostic:
        names = sorted(known)
        near = difflib.get_close_matches(name, names, n=2) if len(names) <= MOST_NAMES else []
        what = "op" if column == "node" else "kernel"
        return Diagnostic(
            "MCM-C006",
            f"a time was measured of the {what} {quote(name)}, which the model does not have",
            self._place(time),
            f"did you mean {' or '.join(map(quote, near))}?"
            if near
            else "`mcmc opt MODEL --passes simplify` prints the names of ops; a fused kernel is "
            "called like its last op, and goes into the column kernel",
        )

    def _inside(self, name: str, time: MeasuredTime, kernel: str) -> Diagnostic:
        return Diagnostic(
            "MCM-C006",
            f"a time was measured of the kernel {quote(name)}, which is an op of {quote(kernel)}",
            self._place(time),
            "put the time of a single op into the column node",
        )

    def _twice(self, name: str, time: MeasuredTime, other: MeasuredTime) -> Diagnostic:
        return Diagnostic(
            "MCM-C005",
            f"{quote(name)} is a kernel of one op, and has times in lines {time.line} and "
            f"{other.line}",
            self._place(max(time, other, key=lambda one: one.line)),
            "leave one of the two out",
        )


def _measured(cost: NodeCost, seconds: float, measured_s: float, ops: int) -> NodeCost:
    return replace(cost, seconds=seconds, modelled=True, measured_ops=ops, measured_s=measured_s)


def _names(node: ir.Node) -> list[str]:
    """Names that a row may have for an op: its own, and that of all classes of a round."""
    name = name_before_copying(node)
    found = class_of(name)
    return [name] if found is None else [name, found[0]]
