"""The contract of targets: a package of chips as passes see it.

Passes never import hardware. `PackageLimits` has the facts about a package that they need, and the
`Target` protocol its costs. Each further capability is a protocol: `Lowers`, `Simulates`,
`EvaluatesBatches`, `ShrinkableTarget`, `SupportsOps`, `HasChipKinds`.
`mcm_compiler.components.capabilities` and `op_support` check for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import onnx_ir as ir

from mcm_compiler.contracts.cost import CostModel
from mcm_compiler.contracts.described import Described, TargetFamily
from mcm_compiler.contracts.evaluation import BatchEvaluator
from mcm_compiler.contracts.partition import PartitionProblem
from mcm_compiler.contracts.program import LoweredProgram, Simulator
from mcm_compiler.contracts.sharding.sharding import OutputPart
from mcm_compiler.graph.states import StatePair
from mcm_compiler.machines.choices import Fallback, Routing
from mcm_compiler.machines.machine import HOST, OFF_PACKAGE, Machine
from mcm_compiler.machines.package_limits import PackageLimits
from mcm_compiler.machines.ring_machine import ring_of
from mcm_compiler.text.json_text import Index, Place


@dataclass(frozen=True)
class ChipModel:
    """The part of a model that one chip runs, as a complete ONNX model.

    Attributes:
        chip: index on the ring.
        model: the subgraph with its weights, in topological order; the target may run it in
            another one. Nodes of a fusion group have `metadata_props["mcm.group"]`.
        inputs: names of tensors that arrive, from the host or from the previous chip.
        outputs: names of tensors that leave, to the host or to the next chip.
        states: pairs of an input and an output that stay on the chip from one inference of a
            sequence to the next; no wire leads to the input, or from the output to the host.
        sequences: number of sequences whose states the chip holds at the same time.
    """

    chip: int
    model: ir.Model
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    states: tuple[ChipState, ...] = ()
    sequences: int = 1


@dataclass(frozen=True)
class Wire:
    """One tensor that travels between chips or between a chip and the host.

    Attributes:
        tensor: its name; the same at both ends.
        source: sending chip, or `HOST`.
        destinations: receiving chips in ascending order, or `(HOST,)`.
        part: the piece of a graph output or input, if that leaves or comes in pieces; else None.
    """

    tensor: str
    source: Place
    destinations: tuple[Place, ...]
    part: OutputPart | None = None


@dataclass(frozen=True)
class Unsupported:
    """Reason why chips cannot run an op.

    Attributes:
        because: of the op itself, of the element type of a tensor that it reads or makes, or of a
            large table, which the host keeps.
        what: the op, such as `Softmax` or `com.microsoft::Gelu`, or the type, such as `FLOAT16`.
        inside: whether that is in a subgraph of the op, such as a branch of an `If`.
    """

    because: Literal["op", "type", "table"]
    what: str
    inside: bool = False


@dataclass(frozen=True)
class ChipState(StatePair):
    """A state that stays on a chip from one inference of a sequence to the next.

    Attributes:
        past: input of the chip's model.
        present: output of it, the past of the next inference.
        chip: the chip.
        places: where past and present belong in an input and an output of the source model, if
            they are pieces; else they are these.
    """

    chip: Index
    places: tuple[OutputPart, OutputPart] | None = None

    @property
    def whole(self) -> StatePair:
        """The state of the source model."""
        if self.places is None:
            return StatePair(self.past, self.present)
        return StatePair(*(place.graph_output for place in self.places))


__all__ = ["HOST", "OFF_PACKAGE", "Routing", "TargetFamily"]
"""Names of other modules that belong to the contract."""


class Target(Described, Protocol):
    """A package that models can be compiled for."""

    @property
    def limits(self) -> PackageLimits: ...


@runtime_checkable
class DescribesMachine(Protocol):
    """A target with devices, channels and routes; a target without them is a ring."""

    @property
    def machine(self) -> Machine:
        """Devices, channels and routes."""
        ...


def machine_of(target: Target) -> Machine:
    """Devices, channels and routes of a target; those of a ring that has only limits are built."""
    return target.machine if isinstance(target, DescribesMachine) else ring_of(target.limits)


@runtime_checkable
class Lowers(Protocol):
    """A target that turns the chips' models into programs."""

    def lower(self, chips: Sequence[ChipModel], wires: Sequence[Wire]) -> LoweredProgram:
        """Schedule each chip's ops, and plan its memory and its transfers.

        Never fails for lack of memory: `LoweredProgram.overflows` lists what does not fit. This
        is the dynamic constraint H(G, f) of MCM, Eq. 5.
        """
        ...


@runtime_checkable
class LowersMapped(Protocol):
    """A target whose chips are mapped by its addition before they are lowered."""

    def lower_mapped(
        self, chips: Sequence[ChipModel], wires: Sequence[Wire], mapped: Sequence[Any]
    ) -> LoweredProgram:
        """As `Lowers.lower`, of chips that are mapped."""
        ...


@runtime_checkable
class HoldsStates(Protocol):
    """A target whose lowering allocates `ChipModel.states` in the chip's memory."""

    @property
    def holds_states(self) -> bool:
        """True if it does."""
        ...


def holds_states(target: Target) -> bool:
    """Return whether states may stay on the chips of a target; by default they may not."""
    return isinstance(target, HoldsStates) and target.holds_states


@runtime_checkable
class Simulates(Protocol):
    """A target that simulates lowered programs."""

    def simulator(self) -> Simulator:
        """The simulator of lowered programs for this package."""
        ...


@runtime_checkable
class EvaluatesBatches(Protocol):
    """A target whose simulator also evaluates batches of placements of one problem."""

    def batch_evaluator(
        self, model: ir.Model, problem: PartitionProblem, groups: Mapping[str, str]
    ) -> BatchEvaluator:
        """The same simulator for search: partitions in, periods and results out, without ONNX.

        Args:
            model: the model that `problem` was built from, not changed since.
            problem: the problem.
            groups: fusion group of each op that has one, by the names of both.
        """
        ...


@runtime_checkable
class ShrinkableTarget(Protocol):
    """A target that supports smaller packages."""

    def without_chips(self, places: Sequence[int]) -> Target:
        """The target with the chips at these places of the package switched off.

        Raises:
            CompileError: if that is impossible, with the faults of the description.
        """
        ...


@runtime_checkable
class SupportsOps(Protocol):
    """A target that reports the ops that its chips cannot run; without it, chips run all ops.

    If its cost model is `mcm_compiler.contracts.cost.KnowsHostOps`, the host can run the others.
    """

    @property
    def fallback(self) -> Fallback:
        """Default handling of such ops."""
        ...

    def unsupported(self, node: ir.Node) -> Unsupported | None:
        """Reason why chips cannot run `node`; None if they can.

        It depends only on the op, its types and its subgraphs, so it is the same for all copies.
        """
        ...


@runtime_checkable
class HasChipKinds(Protocol):
    """A target with kinds of chips; its `Machine.device_kind` says where they are.

    `Target.cost_model` is that of the first kind.
    """

    @property
    def kind_names(self) -> Sequence[str]:
        """Names of the kinds; empty where all chips are of one kind."""
        ...

    def cost_model_of(self, kind: int) -> CostModel:
        """The cost model of a chip of a kind, at speed 1."""
        ...

    def runs(self, kind: int, node: ir.Node) -> bool:
        """True if chips of a kind can run `node`, or if no kind can and the host does."""
        ...


def kind_names_of(target: object) -> Sequence[str]:
    """Names of the kinds of chips of a target; empty where all are of one kind."""
    return target.kind_names if isinstance(target, HasChipKinds) else ()


def cost_model_on(target: Target, chip: int) -> CostModel:
    """The cost model of the kind that a chip of a target is of, at speed 1."""
    machine = machine_of(target)
    if not isinstance(target, HasChipKinds) or machine.device_kind is None:
        return target.cost_model()
    return target.cost_model_of(int(machine.device_kind[chip]))


@dataclass(frozen=True)
class Resource:
    """A scalable resource of a package.

    Attributes:
        name: in words, such as `link bandwidth`.
        keys: numbers of the description that are scaled together, by dotted path; missing ones
            are ignored.
        half_idle: text form of a cost model by which kernels use half of the resource; empty where
            a placement alone can leave half of it idle.
    """

    name: str
    keys: tuple[str, ...]
    half_idle: str = ""


@runtime_checkable
class NamesResources(Protocol):
    """A target that lists its scalable resources.

    Other targets have no sensitivities.
    """

    @property
    def resources(self) -> Sequence[Resource]:
        """The resources whose effect is reported, in the order of reports."""
        ...


@runtime_checkable
class OrdersKeys(Protocol):
    """A target that orders the values of keys of its description.

    Points of `mcmc explore` are compared in no other keys.
    """

    @property
    def ordered_keys(self) -> Mapping[str, bool]:
        """By dotted path, True where a package with more is never worse, else with less."""
        ...
