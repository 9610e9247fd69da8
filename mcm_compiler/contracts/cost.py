"""The contract of cost models: how long an op takes on one chip, estimated fast."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

import onnx_ir as ir

from mcm_compiler.diagnostics import Diagnostic
from mcm_compiler.graph.annotations import GRAPH, AnnotationKey

Engine = Literal["array", "vector", "memory", "host", "none"]
"""Bottleneck of an op: the MAC array, the vector unit, SRAM bandwidth, a round trip to the host
that the chip waits for, or nothing at all."""


@dataclass(frozen=True)
class HostTrip:
    """A round trip: what a chip's ops that run on the host ask for, once per inference.

    Attributes:
        up_bytes: what goes from the chip to the host.
        down_bytes: what comes back.
        transfer_s: on the way, both ways, latencies included.
        host_s: on the host.
        chip_s: what the chip would take if it could run the ops, under the same model.
    """

    up_bytes: int
    down_bytes: int
    transfer_s: float
    host_s: float
    chip_s: float


@dataclass(frozen=True)
class NodeCost:
    """Costs of one op, or one fused group of ops, on one chip.

    Attributes:
        flops: floating-point (or integer) operations; a multiply-accumulate counts as two.
        read_bytes: bytes read from SRAM, weights included, at the target's storage widths.
        write_bytes: bytes written to SRAM.
        weight_bytes: bytes of constant operands held in SRAM.
        seconds: time on the chip, launch overhead included.
        bound_by: the engine that sets `seconds`.
        modelled: False if the op has no formula, so that only its bytes were counted.
        measured_ops: ops of it with a measured time.
        measured_s: the part of `seconds` that was measured.
        deviation_s: by how much `seconds` may be off; 0 where that is unknown.
        trip: the round trip of ops that run on the host; None of those that the chip runs.
        engines_s: how long each engine is busy, at the speed of `seconds`; None where the model
            has no engines.
        lane_ops: operations of one lane of the vector unit, products left out.
    """

    flops: float
    read_bytes: int
    write_bytes: int
    weight_bytes: int
    seconds: float
    bound_by: Engine
    modelled: bool = True
    measured_ops: int = 0
    measured_s: float = 0.0
    deviation_s: float = 0.0
    trip: HostTrip | None = None
    engines_s: Mapping[Engine, float] | None = None
    lane_ops: int = 0


class OpCosts(Protocol):
    """Times of ops on one chip of speed 1. Fast, deterministic, without side effects."""

    @property
    def name(self) -> str:
        """Named with every number that comes from this model."""
        ...

    def node_cost(self, node: ir.Node) -> NodeCost:
        """Cost of `node` on its own. Its values need static shapes and known types."""
        ...

    def group_cost(self, nodes: Sequence[ir.Node]) -> NodeCost:
        """Cost of `nodes` run as one kernel: one launch, and internal tensors stay in registers.

        Never more than the sum of the node costs, unless it was measured to be.
        """
        ...


class CostModel(OpCosts, Protocol):
    """Costs on a target's chips: times of ops, from shapes alone, and sizes of tensors."""

    def storage_bytes(self, value: ir.Value) -> int:
        """Bytes that `value` takes in a chip's SRAM and on a link; 0 where its type is unknown."""
        ...


@dataclass(frozen=True)
class LeastWork:
    """The least work of all parts of a kernel together, however it is divided.

    Attributes:
        seconds: on chips of speed 1.
        untied_s: the part of it that no weights limit, such as the launch.
        weight_share: share of the weights of the kernel's product that a chip has to hold to do
            all the rest; for a share of that it has to hold that share of them. 0 where work and
            weights have no such relation.
    """

    seconds: float
    untied_s: float
    weight_share: float


@runtime_checkable
class PricesParts(Protocol):
    """A cost model whose structure says how much work any division of a kernel leaves."""

    def least_work(self, nodes: Sequence[ir.Node]) -> LeastWork | None:
        """Work that no division of `nodes`, run as one kernel, undercuts; None if unknown.

        A division has every element of the results computed by some part, along ranges of rows,
        channels or columns, and no part joins ops of several kernels.
        """
        ...


@runtime_checkable
class KnowsViews(Protocol):
    """A cost model that knows which ops take no memory of their own.

    Without one, passes take the ops of ONNX that only change a shape for views.
    """

    def is_view(self, node: ir.Node) -> bool:
        """Return whether memory plans put the first output of `node` into its first input.

        This applies if one chip makes both; other inputs are then not held for it.
        """
        ...


@runtime_checkable
class CopiesViews(KnowsViews, Protocol):
    """A cost model of chips that copy views which leave them, of memory that they did not write.

    Memory that another chip, the host or a weight filled has no send buffer.
    """

    def copy_s(self, value: ir.Value) -> float:
        """Seconds in which a chip of speed 1 copies `value`, launch included; 0 if it need not."""
        ...


@runtime_checkable
class KnowsHostOps(Protocol):
    """A cost model that prices ops which its chips lack as round trips to the host.

    A kernel with one of them runs on the host as a whole: `group_cost` has its `NodeCost.trip`,
    and chips hold no weights for it.
    """

    def on_host(self, node: ir.Node) -> bool:
        """Return whether the host runs `node`, because chips cannot."""
        ...


@runtime_checkable
class PricesGraphs(Protocol):
    """A cost model of chips whose ops take no time in some graphs.

    Chips that are laid out as a whole leave out ops of which nothing comes, and those whose results
    are known before the first inference.
    """

    def of_graph(self, graph: ir.Graph) -> CostModel:
        """The same costs for ops as parts of `graph`, for as long as that does not change.

        On its chips, however it is cut, the ops take at least these times together. Ops of no graph
        cost what they cost on their own.
        """
        ...


def costs_in(graph: ir.Graph, model: CostModel) -> CostModel:
    """The costs of ops as parts of a graph, if a cost model distinguishes them; else `model`."""
    return model.of_graph(graph) if isinstance(model, PricesGraphs) else model


@dataclass(frozen=True)
class ModelNames:
    """Names that measured times may speak of.

    Attributes:
        ops: ops of the graph.
        removed: ops of the model as it was given that are no longer there.
        kernels: ops of each fused kernel by its name.
    """

    ops: frozenset[str]
    removed: frozenset[str]
    kernels: Mapping[str, tuple[str, ...]]


@runtime_checkable
class MeasuredCosts(Protocol):
    """Costs of which some were measured, for ops and kernels of certain names.

    Those ops count in `NodeCost.measured_ops`.
    """

    def name_faults(self, names: ModelNames) -> Sequence[Diagnostic]:
        """An error for each measured time whose op or kernel is not in the model."""
        ...


MeasuredKernels = Sequence[tuple[Sequence[ir.Node], float]]
"""Kernels of a model that were measured, and single ops of others, with their seconds."""


@dataclass(frozen=True)
class LearnedTimes:
    """Times of kernels learned from several models of one machine.

    Attributes:
        content: of a file that the cost model reads.
        errors: on each model that was left out, by method: shares of the time of its kernels but
            the longest ones, which count as measured. Methods are `learned` and `calibrated`.
    """

    content: bytes
    errors: Mapping[str, Sequence[float]]

    @property
    def means(self) -> dict[str, float]:
        """Mean error by method."""
        return {method: math.fsum(each) / len(each) for method, each in self.errors.items()}

    @property
    def is_better(self) -> bool:
        """True where learned times are better in pairs of models, with 95 % confidence."""
        pairs = zip(self.errors["learned"], self.errors["calibrated"], strict=True)
        gains = [calibrated - learned for learned, calibrated in pairs]
        mean = math.fsum(gains) / len(gains)
        variance = math.fsum((gain - mean) ** 2 for gain in gains) / (len(gains) - 1)
        return mean > 1.645 * math.sqrt(variance / len(gains))


@dataclass(frozen=True)
class Calibration:
    """Computed times that were fitted to measured ones.

    Attributes:
        options: of the cost model that was chosen, for kernels without a measured time.
        changes: what numbers of the description are multiplied by, by dotted key; empty where
            there were too few kernels to fit them.
        before: share of the measured seconds by which computed times are off.
        after: the same once they are fitted.
        left_out: that of kernels that a fit did not see, by the method that was fitted.
        kernels: number of distinct kernels.
        files: contents of files of the cost model that change, by option.
        learned: what several models of one machine teach; None for too few.
    """

    options: Mapping[str, str | float]
    changes: Mapping[str, float] = field(default_factory=dict[str, float])
    before: float = 0.0
    after: float = 0.0
    left_out: Mapping[str, float] = field(default_factory=dict[str, float])
    kernels: int = 0
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    learned: LearnedTimes | None = None


@runtime_checkable
class CalibratesCosts(Protocol):
    """Costs of which some were measured, and which fit to those what is computed."""

    def measured_kernels(self, kernels: Iterable[Sequence[ir.Node]]) -> MeasuredKernels:
        """Measured ones of the kernels of a model; each is one op, or ops that run as one."""
        ...

    def calibration(self, models: Sequence[MeasuredKernels]) -> Calibration | None:
        """The fit to measured kernels of models on one machine; None where none takes time."""
        ...


NODE_COST: AnnotationKey[NodeCost] = AnnotationKey("node_cost", on="node", derived_from=(GRAPH,))
"""The cost of each op on its own."""


def relay_costs(values: Sequence[ir.Value], price: Callable[[ir.Node], NodeCost]) -> list[NodeCost]:
    """Costs of an Identity of each value, priced once per type and shape."""
    known: dict[str, NodeCost] = {}
    keys = [f"{value.type}{value.shape}" for value in values]
    for key, value in zip(keys, values, strict=True):
        if key not in known:
            # A stand-in, so that the graph's own value gains no reader.
            source = ir.Value(name=value.name, type=value.type, shape=value.shape)
            # Without a name, so that no time is taken that was measured of an op of the model.
            relay = ir.Node("", "Identity", [source], name="")
            relay.outputs[0].type, relay.outputs[0].shape = value.type, value.shape
            known[key] = price(relay)
    return [known[key] for key in keys]
