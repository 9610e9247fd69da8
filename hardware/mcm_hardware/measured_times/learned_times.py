"""Times of a calibrated roofline, corrected by kernels that were measured on the same machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import onnx_ir as ir

from mcm_compiler.contracts.cost import LearnedTimes, MeasuredKernels, NodeCost
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.text.json_text import UnreadableError, parse_json, record_of
from mcm_hardware.chip.chip_spec import ChipSpec
from mcm_hardware.chip.kernel_work import Likeness, formula_work, kernel_work
from mcm_hardware.chip.roofline import Roofline, once
from mcm_hardware.measured_times.kernel_process import COMPILED, KernelProcess, KnownKernels
from mcm_hardware.op_costs.node_shapes import NodeShapes
from mcm_hardware.op_costs.work import CONTROL_FLOW, Gemm
from mcm_hardware.tensors.storage_widths import StorageWidths

LEAST_MODELS = 5
"""Models from which times of another one are learned."""

MOST_KERNELS = 1000
"""Kernels that are kept, those that take longest."""

LONGEST = 3
"""Kernels of a model that count as measured when it is left out."""


def kernel_features(
    nodes: Sequence[ir.Node], storage: StorageWidths
) -> tuple[str, tuple[float, ...]]:
    """Type of the op with most work, and logarithms of sizes that times may depend on."""

    def operations(node: ir.Node) -> float:
        work = formula_work(node)
        if work is None:
            return 0.0
        return work.lane_ops + 2.0 * sum(gemm.macs for gemm in work.gemms)

    work = kernel_work(nodes, storage)
    gemms = [part.gemm for part in work.gemms]
    most = max(gemms, key=lambda gemm: gemm.macs, default=Gemm(0, 0, 0, 0))
    main = max(nodes, key=operations)
    shapes = NodeShapes(main)
    sizes = (
        sum(gemm.macs for gemm in gemms),
        work.lane_ops,
        work.read_bytes,
        work.write_bytes,
        work.weight_bytes,
        most.m,
        most.n,
        most.k,
        sum(gemm.count for gemm in gemms),
        len(gemms),
        sum(gemm.rounds for gemm in gemms),
        len(nodes),
        shapes.out_size(),
        next(reversed(shapes.out_dims()), 1),
        math.prod(shapes.integers("kernel_shape")),
        math.prod(shapes.integers("strides")),
        shapes.integer("group"),
    )
    return main.op_type, tuple(round(math.log1p(size), 4) for size in sizes)


@dataclass(frozen=True)
class LearnedCosts:
    """Implements `mcm_compiler.contracts.cost.CostModel` on a roofline that was calibrated.

    Attributes:
        own: the roofline.
        process: what measured kernels add to it.
        name: printed with every number that comes from this model.
    """

    own: Roofline
    process: KernelProcess
    name: str = "learned"
    _found: dict[Likeness, NodeCost] = field(
        default_factory=dict[Likeness, NodeCost], init=False, repr=False, compare=False
    )

    def storage_bytes(self, value: ir.Value) -> int:
        """Bytes of `value` in SRAM and on a link."""
        return self.own.storage_bytes(value)

    def node_cost(self, node: ir.Node) -> NodeCost:
        """Cost of `node` on its own."""
        return self.group_cost((node,))

    def group_cost(self, nodes: Sequence[ir.Node]) -> NodeCost:
        """Cost of `nodes` run as one kernel; its deviation is a standard deviation."""

        def cost() -> NodeCost:
            found = self.own.group_cost(nodes)
            if found.seconds <= 0.0 or not _is_learned(nodes):
                return found
            gain, deviation = self.process.predicted(*kernel_features(nodes, self.own.chip.storage))
            # Digits that libraries of linear algebra agree on.
            seconds = float(f"{found.seconds * math.exp(gain):.6g}")
            return replace(found, seconds=seconds, deviation_s=float(f"{seconds * deviation:.3g}"))

        return once(self._found, nodes, cost)


def _is_learned(nodes: Sequence[ir.Node]) -> bool:
    return not any((node.domain, node.op_type) in CONTROL_FLOW for node in nodes)


@lru_cache(maxsize=2)
def read_known(data: bytes, path: str) -> KernelProcess:
    """The process of a file of measured kernels.

    Raises:
        CompileError: MCM-C017 for a file that `KnownKernels.encoded` did not write.
    """
    try:
        return KernelProcess(record_of(parse_json(data.decode()), KnownKernels))
    except (UnreadableError, UnicodeDecodeError, ValueError) as error:
        raise CompileError.of("MCM-C017", f"the file holds no kernels: {error}", path) from error


def check_known(known: KnownKernels, machines: set[str], chip: ChipSpec, path: str) -> None:
    """Refuses kernels that do not go with a table of times and a chip.

    Args:
        known: measured kernels.
        machines: what rows of the table were measured on.
        chip: of the target.
        path: of the kernels.

    Raises:
        CompileError: MCM-C017.
    """
    if machines != {known.machine}:
        there = ", ".join(sorted(machines)) or "no machine that is named"
        message = f"its kernels were measured on {known.machine}, the rows on {there}"
        raise CompileError.of("MCM-C017", message, path)
    if not np.allclose(known.chip, _numbers(chip), rtol=2e-3, atol=0.0):
        message = "its kernels go with other numbers of the chip than those of the target"
        raise CompileError.of("MCM-C017", message, path)


def _numbers(chip: ChipSpec) -> tuple[float, ...]:
    array, vector = chip.array, chip.vector
    clocks = (chip.launch_s, array.clock_hz, vector.clock_hz, chip.sram_bytes_per_s)
    return (*clocks, array.rows, array.cols, vector.lanes)


@dataclass(frozen=True)
class _Distinct:
    """Kernels of a model that are alike."""

    kind: str
    features: tuple[float, ...]
    nodes: Sequence[ir.Node]
    count: int
    seconds: float
    computed_s: float


def _distinct(own: Roofline, measured: MeasuredKernels) -> list[_Distinct]:
    """Those whose computed times are longest first."""
    found: dict[tuple[str, tuple[float, ...]], list[tuple[Sequence[ir.Node], float, float]]] = {}
    for nodes, seconds in measured:
        computed_s = own.group_cost(nodes).seconds
        if seconds > 0.0 and computed_s > 0.0 and _is_learned(nodes):
            key = kernel_features(nodes, own.chip.storage)
            found.setdefault(key, []).append((nodes, seconds, computed_s))
    distinct = [
        _Distinct(
            kind,
            features,
            alike[0][0],
            len(alike),
            math.fsum(seconds for _, seconds, _ in alike) / len(alike),
            math.fsum(computed_s for *_, computed_s in alike) / len(alike),
        )
        for (kind, features), alike in found.items()
    ]
    return sorted(distinct, key=lambda one: -one.count * one.computed_s)


def _joined(known: KnownKernels, kernels: Sequence[_Distinct], model: int) -> KnownKernels:
    residuals = (math.log(one.seconds / one.computed_s) for one in kernels)
    return replace(
        known,
        models=(*known.models, *(model for _ in kernels)),
        types=(*known.types, *(one.kind for one in kernels)),
        features=(*known.features, *(one.features for one in kernels)),
        residuals=(*known.residuals, *(round(min(max(one, -20.0), 20.0), 4) for one in residuals)),
    )


def with_rows(known: KnownKernels, own: Roofline, measured: MeasuredKernels) -> KnownKernels:
    """The kernels with those of the model that is compiled.

    Args:
        known: of other models.
        own: the roofline that they are relative to.
        measured: kernels of this model and their seconds.
    """
    return _joined(known, _distinct(own, measured), COMPILED)


def known_kernels(own: Roofline, models: Sequence[MeasuredKernels], machine: str) -> KnownKernels:
    """Kernels of several models, with the covariance under which they are most likely.

    Args:
        own: calibrated to all models.
        models: measured kernels of each, all on one machine.
        machine: its short name.
    """
    return _known(own, [_distinct(own, measured) for measured in models], machine)


def _known(own: Roofline, kernels: Sequence[Sequence[_Distinct]], machine: str) -> KnownKernels:
    known = KnownKernels(machine, _numbers(own.chip), (), (), (), (), ())
    for number, each in enumerate(kernels):
        known = _joined(known, each, number)
    shares = [one.count * one.seconds for each in kernels for one in each]
    longest = sorted(range(len(shares)), key=lambda k: -shares[k])[:MOST_KERNELS]
    return known.taken(sorted(longest)).fitted()


def learned_times(
    own: Roofline,
    models: Sequence[MeasuredKernels],
    machine: str,
    calibrated: Callable[[MeasuredKernels], Callable[[Sequence[ir.Node]], float]],
) -> LearnedTimes | None:
    """Times learned from several models, with the errors on each that is left out.

    A model that is left out has its `LONGEST` kernels measured, and the other ones are predicted.
    The covariance is that of all models.

    Args:
        own: calibrated to all models.
        models: measured kernels of each, all on one machine.
        machine: its short name.
        calibrated: the other method: computed times by measured kernels of the model left out.

    Returns:
        None of fewer than `LEAST_MODELS` with kernels to predict.
    """
    kernels = [_distinct(own, measured) for measured in models]
    tried = [number for number, each in enumerate(kernels) if len(each) > LONGEST]
    if len(tried) < LEAST_MODELS:
        return None
    known = _known(own, kernels, machine)
    errors: dict[str, list[float]] = {"learned": [], "calibrated": []}
    for number in tried:
        rows, others = kernels[number][:LONGEST], kernels[number][LONGEST:]
        rest = known.taken([k for k, model in enumerate(known.models) if model != number])
        process = KernelProcess(_joined(rest, rows, COMPILED))
        by_rows = calibrated([(one.nodes, one.seconds) for one in rows])
        total_s = math.fsum(one.count * one.seconds for one in others)
        off_s = {"learned": 0.0, "calibrated": 0.0}
        for one in others:
            gain, _ = process.predicted(one.kind, one.features)
            off_s["learned"] += one.count * abs(one.computed_s * math.exp(gain) - one.seconds)
            off_s["calibrated"] += one.count * abs(by_rows(one.nodes) - one.seconds)
        for method, seconds in off_s.items():
            errors[method].append(seconds / total_s)
    return LearnedTimes(known.encoded(), errors)
