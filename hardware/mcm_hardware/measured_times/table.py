"""The cost model `table`: measured times from a CSV file."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

import onnx_ir as ir

from mcm_compiler.components.cost_choice import CostBasis, CostModelMaker
from mcm_compiler.contracts.chips import name_before_copying
from mcm_compiler.contracts.cost import (
    Calibration,
    CostModel,
    MeasuredKernels,
    ModelNames,
    NodeCost,
    OpCosts,
)
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.graph.rounds import class_of
from mcm_hardware.chip.calibration import PARTS, calibration, scaled
from mcm_hardware.chip.roofline import Roofline
from mcm_hardware.measured_times import learned_times
from mcm_hardware.measured_times.times_file import MeasuredTime, TimesTable, op_kind, read_times


@dataclass(frozen=True)
class TableCosts(CostModelMaker):
    """Times by name of op or kernel, or by kind of op; the rest by the target's own model.

    Where the table has few of a model's kernels, its rows calibrate the own model for the rest.
    Scales of its constants or one factor do so, whichever predicts kernels better that were left
    out. With kernels of other models that `mcmc calibrate` learned from, those and the rows correct
    the own model kernel by kernel instead.

    Attributes:
        file: the table.
        chip: kind of chip whose rows hold, where the table is about several.
        factor: what times of the own model are multiplied by; without it and `scales`, the rows
            decide for the model that is compiled.
        scales: four numbers instead: what launches, and times of the MAC array, the vector unit and
            the memory are multiplied by.
        deviation: share by which computed times may be off.
        known: kernels of other models that were measured on the same machine.

    Raises:
        ValueError: if a number is not above 0, factor and scales are given, or no table is.
    """

    name: ClassVar[str] = "table"
    summary: ClassVar[str] = "measured times from a CSV file, the rest by the target's own model"
    files: ClassVar[tuple[str, ...]] = ("file", "known")

    file: str
    chip: str = ""
    factor: float | None = None
    scales: str = ""
    deviation: float = 0.0
    known: str = ""

    def __post_init__(self) -> None:
        if not self.file:
            raise ValueError("file has to name a table")
        if self.factor is not None and not 0.0 < self.factor < math.inf:
            raise ValueError("factor has to be a number above 0")
        if not 0.0 <= self.deviation < math.inf:
            raise ValueError("deviation has to be a number, at least 0")
        numbers = self._scales()
        other = self.factor is not None or self.known
        if self.scales and (other or len(numbers) != len(PARTS)):
            names = ", ".join(PARTS)
            raise ValueError(f"scales are {len(PARTS)} numbers: {names}, without factor and known")
        if not all(0.0 < number < math.inf for number in numbers):
            raise ValueError("scales have to be numbers above 0")

    @property
    def is_calibrated(self) -> bool:
        """True where factor or scales are given."""
        return self.factor is not None or bool(self.scales)

    def _scales(self) -> tuple[float, ...]:
        return tuple(map(float, self.scales.split()))

    def make(self, basis: CostBasis) -> OpCosts:
        """Reads the table.

        Raises:
            CompileError: MCM-C005, one diagnostic per fault of the table; MCM-C003 for scales or
                known kernels where the own model is no roofline; as `read_known`, `check_known`.
        """
        times = _read_once(basis.files["file"], basis.paths["file"], self.chip)
        factor = 1.0 if self.factor is None else self.factor
        rest: CostModel = basis.own
        if self.scales or self.known:
            if type(basis.own) is not Roofline:
                message = "the target's own cost model has no constants that scales could change"
                hint = "give a factor instead"
                option = "known" if self.known else "scales"
                raise CompileError.of("MCM-C003", message, f"option {option} of 'table'", hint)
            if self.scales:
                rest = scaled(basis.own, self._scales())
            else:
                process = learned_times.read_known(basis.files["known"], basis.paths["known"])
                learned_times.check_known(
                    process.known, times.machines, basis.own.chip, basis.paths["known"]
                )
                rest = learned_times.LearnedCosts(basis.own, process)
        return MeasuredTimes(times, basis.own, factor, rest=rest, deviation=self.deviation)


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
        factor: what times of `rest` are multiplied by.
        name: printed with every number that comes from it.
        rest: gives times that were not measured; None for `own`.
        deviation: share by which those may be off.
    """

    times: TimesTable
    own: CostModel
    factor: float = 1.0
    name: str = "table"
    rest: CostModel | None = None
    deviation: float = 0.0

    def node_cost(self, node: ir.Node) -> NodeCost:
        """Cost of `node` on its own."""
        return self.group_cost((node,))

    def group_cost(self, nodes: Sequence[ir.Node]) -> NodeCost:
        """Cost of `nodes` run as one kernel."""
        cost = self.own.group_cost(nodes)
        if len(nodes) > 1 and (whole := self._of_kernel(nodes)) is not None:
            return _measured(cost, [whole], len(nodes))
        found = [(node, self._of_op(node)) for node in nodes]
        rows = [time for _, time in found if time is not None]
        if not rows:
            return self._computed(cost, nodes)
        measured = _measured(cost, rows, len(rows))
        if len(rows) == len(nodes):
            return measured
        unmeasured = [node for node, time in found if time is None]
        others = self._computed(self.own.group_cost(unmeasured), unmeasured)
        return replace(
            measured,
            seconds=measured.seconds + others.seconds,
            deviation_s=measured.deviation_s + others.deviation_s,
            modelled=others.modelled,
        )

    def measured_kernels(self, kernels: Iterable[Sequence[ir.Node]]) -> MeasuredKernels:
        """See `CalibratesCosts`."""
        measured: list[tuple[Sequence[ir.Node], float]] = []
        for nodes in kernels:
            whole = self._of_kernel(nodes) if len(nodes) > 1 else None
            if whole is not None:
                measured.append((nodes, whole.seconds))
                continue
            found = [(node, time) for node in nodes if (time := self._of_op(node)) is not None]
            measured += [((node,), time.seconds) for node, time in found]
        return measured

    def calibration(self, models: Sequence[MeasuredKernels]) -> Calibration | None:
        """See `CalibratesCosts`; the common factor is a median, weighted by computed times.

        A median, since rows may be of kernels that the own model knows badly.
        """
        measured = [one for model in models for one in model]
        found = _calibration(self.own, measured)
        if found is None or type(self.own) is not Roofline:
            return found
        if isinstance(self.rest, learned_times.LearnedCosts):
            known = learned_times.with_rows(self.rest.process.known, self.own, measured)
            return Calibration({"factor": 1.0}, files={"known": known.encoded()})
        machines = self.times.machines
        if len(models) < learned_times.LEAST_MODELS or len(machines) != 1 or "" in machines:
            return found
        (machine,) = machines
        own = _completed(self.own, found)

        def by_rows(rows: MeasuredKernels) -> Callable[[Sequence[ir.Node]], float]:
            fit = _calibration(own, rows)
            completed = own if fit is None else _completed(own, fit)
            return lambda nodes: completed.group_cost(nodes).seconds

        return replace(found, learned=learned_times.learned_times(own, models, machine, by_rows))

    def _computed(self, cost: NodeCost, nodes: Sequence[ir.Node]) -> NodeCost:
        """A cost of the own model with the time that holds where none was measured."""
        computed = cost if self.rest is None else self.rest.group_cost(nodes)
        seconds = computed.seconds * self.factor
        off_s = computed.deviation_s * self.factor + seconds * self.deviation
        return replace(cost, seconds=seconds, deviation_s=off_s)

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


def _calibration(own: CostModel, measured: MeasuredKernels) -> Calibration | None:
    times = [(seconds, own.group_cost(nodes).seconds) for nodes, seconds in measured]
    ratios = sorted((m / computed, computed) for m, computed in times if m > 0.0 and computed > 0.0)
    half, reached = math.fsum(computed for _, computed in ratios) / 2, 0.0
    for ratio, computed in ratios:
        reached += computed
        if reached >= half:
            return calibration(own, measured, ratio)
    return None


def _completed(own: Roofline, fit: Calibration) -> Roofline:
    """A roofline with the options of a fit."""
    scales = fit.options.get("scales")
    factor = float(fit.options.get("factor", 1.0))
    return scaled(own, [float(s) for s in str(scales).split()] if scales else [factor] * 4)


def _measured(cost: NodeCost, times: Sequence[MeasuredTime], ops: int) -> NodeCost:
    seconds = math.fsum(time.seconds for time in times)
    return replace(
        cost,
        seconds=seconds,
        modelled=True,
        measured_ops=ops,
        measured_s=seconds,
        deviation_s=math.fsum(time.seconds * time.spread for time in times),
    )


def _names(node: ir.Node) -> list[str]:
    """Names that a row may have for an op: its own, and that of all classes of a round."""
    name = name_before_copying(node)
    found = class_of(name)
    return [name] if found is None else [name, found[0]]
