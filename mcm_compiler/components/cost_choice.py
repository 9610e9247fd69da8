"""Cost models by name: what is registered, how one is chosen, and what its answers must be.

A registered cost model is a frozen dataclass whose fields are its options, as a pass is. It says
how long ops take and nothing else: how many bytes a tensor has and which ops are views stays the
target's, since its memory plans go by that.
"""

from __future__ import annotations

import math
import numbers
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any, ClassVar, Protocol, cast, get_args, runtime_checkable
from weakref import WeakKeyDictionary

import onnx_ir as ir

from mcm_compiler.contracts.cost import (
    CalibratesCosts,
    Calibration,
    CopiesViews,
    CostModel,
    Engine,
    HostTrip,
    KnowsViews,
    MeasuredCosts,
    MeasuredKernels,
    ModelNames,
    NodeCost,
    OpCosts,
)
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.processes.foreign_code import fault_text, is_no_fault
from mcm_compiler.registry import COST_MODELS
from mcm_compiler.text import spec_text

MAX_SECONDS = 1e9
"""More than thirty years; a longer time is a fault."""

ROOM = 1e-6
"""Relative, by which a simulated period may be below a bound: sums are taken in another order."""

_ENGINES = get_args(Engine)

SAY_THEIR_PLACE = ("MCM-C004", "MCM-C005", "MCM-C008", "MCM-C017")
"""Faults of cost models that name the file themselves."""

STORED = "cost_model"
"""Prefix of a cost model's files in an output folder."""

_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,8}")

ReadFile = Callable[[str], bytes]
"""Bytes of a file by the path that an option gives; raises CompileError MCM-C004."""


@dataclass(frozen=True)
class CostBasis:
    """Basis that a cost model may build on.

    Attributes:
        own: the target's own model of a chip of speed 1, for the purpose at hand: for search and
            bounds, or for the durations of kernels in the simulator. The latter is never shorter,
            op by op; on packages of chips both are the cycle model.
        played: the latter, for both purposes.
        numbers: the target's numbers by section and key, as `mcmc targets show` prints them.
        files: contents of the files that options name, by option.
        paths: their paths as the user gave them, by option, for diagnostics.
        roofline: the target's roofline, for search and bounds; None for the simulator, and where
            `own` is one already.
    """

    own: CostModel
    played: CostModel
    numbers: Mapping[str, Mapping[str, str | float]]
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    paths: Mapping[str, str] = field(default_factory=dict[str, str])
    roofline: CostModel | None = None


@dataclass(frozen=True)
class CostModelMaker(ABC):
    """A cost model that can be chosen by name.

    Subclasses are frozen dataclasses; their fields are options that the text form can set.

    Attributes:
        name: as the user types it.
        summary: one line for `mcmc costs`.
        files: options that are paths of files, or empty. They are read for the cost model, and the
            output folder gets a copy.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    files: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def make(self, basis: CostBasis) -> OpCosts:
        """The model of one chip of speed 1; on one of speed s everything takes 1 / s of it.

        Called twice with the same options: for search and bounds, and for the durations that the
        simulator plays. No op may be shorter in the latter, or bounds would mean nothing; a model
        that does not look at `basis.own` is the same in both.

        Raises:
            CompileError: for faults of options and files.
        """
        ...


@runtime_checkable
class TakesCalibration(Protocol):
    """A `CostModelMaker` with options for what was not measured: those of a `Calibration`."""

    @property
    def is_calibrated(self) -> bool:
        """True where these options are given."""
        ...


@dataclass(frozen=True)
class CostChoice:
    """A cost model that was chosen, with its files.

    Attributes:
        text: the text form; paths are names of files in an output folder.
        maker: the registered component with its options.
        stored: contents of its files by their names in an output folder.
        files: the same by option.
        paths: paths as the user gave them, by option.
        on_roofline: whether the own model of packages is their roofline, as in release 0.1.0.
    """

    text: str
    maker: CostModelMaker
    stored: Mapping[str, bytes] = field(default_factory=dict[str, bytes], hash=False)
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes], hash=False)
    paths: Mapping[str, str] = field(default_factory=dict[str, str], hash=False, compare=False)
    on_roofline: bool = False

    def model(self, basis: CostBasis) -> CostModel:
        """The model on this basis, with its answers checked.

        Raises:
            CompileError: MCM-C001 where the component fails, and what it raises itself.
        """
        own = basis.roofline if self.on_roofline and basis.roofline else basis.own
        given = replace(basis, own=own, files=self.files, paths=self.paths)
        try:
            costs = self.maker.make(given)
        except BaseException as error:
            if is_no_fault(error):
                raise
            raise _failed(self.registered, error) from error
        if not all(hasattr(costs, name) for name in ("name", "node_cost", "group_cost")):
            raise _not_a_model(self.maker.name, "what it makes lacks name, node_cost or group_cost")
        if isinstance(basis.own, KnowsViews):
            return ChosenCostsWithViews(costs, basis.own, self.registered)
        return ChosenCosts(costs, basis.own, self.registered)

    def calibrated(self, costs: CostModel, kernels: Iterable[Sequence[ir.Node]]) -> CostChoice:
        """The choice with the options that its measured times give to computed ones.

        Args:
            costs: its model, with what a target adds to it.
            kernels: of the model that is compiled.

        Returns:
            This one where it has them already, or nothing gives any.
        """
        maker = self.maker
        fits = isinstance(maker, TakesCalibration) and not maker.is_calibrated
        if not fits or not isinstance(costs, CalibratesCosts):
            return self
        found = costs.calibration([costs.measured_kernels(kernels)])
        if found is None:
            return self
        maker = replace(self.maker, **found.options)
        stored = {getattr(maker, option): data for option, data in found.files.items()}
        return replace(
            self,
            maker=maker,
            text=spec_text.print_one(self.registered, maker),
            stored={**self.stored, **stored},
            files={**self.files, **found.files},
        )

    @property
    def registered(self) -> str:
        """The name that the component is registered by."""
        return spec_text.parse_one(self.text).name


@runtime_checkable
class TakesCostModel(Protocol):
    """A target whose times may come from another cost model than its own."""

    @property
    def name(self) -> str: ...

    @property
    def source_text(self) -> str:
        """Its description."""
        ...

    @property
    def cost_choice(self) -> CostChoice | None:
        """Chosen cost model, or None where the target's own holds."""
        ...

    def with_cost_model(self, choice: CostChoice) -> Any:
        """The same target with another cost model, named in its `source_text`.

        Its `cost_model`, the durations that `lower` gives to kernels and those of its batch
        evaluator come from `choice`.

        Raises:
            CompileError: MCM-C008 if the description cannot say so, and as `CostChoice.model`.
        """
        ...


def choice_of(target: object) -> CostChoice | None:
    """The cost model that was chosen for a target, or None where its own holds."""
    return target.cost_choice if isinstance(target, TakesCostModel) else None


def choose_cost_model(text: str, read: ReadFile, stored_as: str = STORED) -> CostChoice:
    """The cost model of a text form such as `table{file=times.csv}`, with its files read.

    Args:
        text: name and options.
        read: gives the bytes of a file.
        stored_as: what names of its files in an output folder begin with.

    Raises:
        CompileError: MCM-U001 to MCM-U003 for text, options and names, MCM-X003 for one that
            cannot be imported, MCM-C001 for one that is no cost model, and as `read`.
    """
    spec = spec_text.parse_one(text)
    cls = COST_MODELS.get(spec.name)
    if not (isinstance(cls, type) and issubclass(cls, CostModelMaker)):
        raise _not_a_model(spec.name, "it is no subclass of CostModelMaker")
    try:
        maker = spec_text.instantiate(cls, spec)
    except BaseException as error:
        if is_no_fault(error):
            raise
        raise _failed(spec.name, error) from error
    stored: dict[str, bytes] = {}
    files: dict[str, bytes] = {}
    paths: dict[str, str] = {}
    for option in maker.files:
        path = str(getattr(maker, option))
        if not path:
            continue
        suffix = PurePath(path).suffix
        name = f"{stored_as}.{option}{suffix if _SUFFIX.fullmatch(suffix) else ''}"
        stored[name] = files[option] = read(path)
        paths[option] = path
        maker = replace(maker, **{option: name})
    return CostChoice(spec_text.print_one(spec.name, maker), maker, stored, files, paths)


def with_cost_model(target: Any, text: str, read: ReadFile) -> Any:
    """The target with another cost model, of the same type.

    Raises:
        CompileError: as `choose_cost_model` and `TakesCostModel.with_cost_model`, and MCM-C003 for
            a target that takes none.
    """
    if not isinstance(target, TakesCostModel):
        message = f"target {quote(cast('str', target.name))} takes no cost model but its own"
        raise CompileError.of("MCM-C003", message, at="option --cost-model")
    return target.with_cost_model(choose_cost_model(text, read))


def calibrated(target: Any, kernels: Iterable[Sequence[ir.Node]]) -> Any:
    """The target with its measured times compared with computed ones, of the same type.

    Args:
        target: with a cost model that may have been chosen.
        kernels: of the model that is compiled; each is one op, or ops that run as one.

    Raises:
        CompileError: as `TakesCostModel.with_cost_model`.
    """
    choice = choice_of(target)
    if choice is None:
        return target
    found = choice.calibrated(target.cost_model(), kernels)
    return target if found is choice else target.with_cost_model(found)


class ChosenCosts:
    """Implements `mcm_compiler.contracts.cost.CostModel` with the times of another model.

    Each answer is checked, so that no search ever sees a time that is none.

    Args:
        costs: gives the times.
        own: the target's own model, for sizes of tensors.
        registered: the name of the component that made `costs`, where it is not its own name.
    """

    def __init__(self, costs: OpCosts, own: CostModel, registered: str | None = None) -> None:
        self.name = str(costs.name)
        self._registered = registered or self.name
        self._costs = costs
        self._own = own
        self._measured_ops: WeakKeyDictionary[ir.Node, int] = WeakKeyDictionary()

    def node_cost(self, node: ir.Node) -> NodeCost:
        """Cost of `node` on its own.

        Raises:
            CompileError: MCM-C001 if the model fails, MCM-C002 if it gives no time.
        """
        cost = self._checked(lambda: self._costs.node_cost(node), node)
        if self.measures:
            self._measured_ops[node] = cost.measured_ops
        return cost

    def measured_ops(self, node: ir.Node) -> int:
        """`NodeCost.measured_ops` of `node`, as the model answered; asked only if it was not.

        Raises:
            CompileError: as `node_cost`.
        """
        known = self._measured_ops.get(node)
        return self.node_cost(node).measured_ops if known is None else known

    def group_cost(self, nodes: Sequence[ir.Node]) -> NodeCost:
        """Cost of `nodes` run as one kernel.

        Raises:
            CompileError: as `node_cost`.
        """
        return self._checked(lambda: self._costs.group_cost(nodes), nodes[-1])

    def storage_bytes(self, value: ir.Value) -> int:
        """Bytes of `value`, as the target counts them."""
        return self._own.storage_bytes(value)

    def name_faults(self, names: ModelNames) -> Sequence[Diagnostic]:
        """See `MeasuredCosts`; none of a model that measures nothing."""
        if not isinstance(self._costs, MeasuredCosts):
            return ()
        with COST_MODELS.at_work(self._registered):
            return self._costs.name_faults(names)

    def measured_kernels(self, kernels: Iterable[Sequence[ir.Node]]) -> MeasuredKernels:
        """See `CalibratesCosts`; none of a model that calibrates nothing."""
        if not isinstance(self._costs, CalibratesCosts):
            return ()
        with COST_MODELS.at_work(self._registered):
            return self._costs.measured_kernels(kernels)

    def calibration(self, models: Sequence[MeasuredKernels]) -> Calibration | None:
        """See `CalibratesCosts`; None of a model that calibrates nothing."""
        if not isinstance(self._costs, CalibratesCosts):
            return None
        with COST_MODELS.at_work(self._registered):
            return self._costs.calibration(models)

    @property
    def measures(self) -> bool:
        """True if some of its times were measured."""
        return isinstance(self._costs, MeasuredCosts)

    def _checked(self, answer: Callable[[], NodeCost], node: ir.Node) -> NodeCost:
        try:
            cost = answer()
            if not isinstance(cost, NodeCost):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"it gives a {type(cost).__name__}, no NodeCost")
            if not isinstance(cost.seconds, numbers.Real):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"seconds is a {type(cost.seconds).__name__}, no number")
            seconds = float(cost.seconds)
            rest = (cost.flops, cost.read_bytes, cost.write_bytes, cost.weight_bytes)
            others = all(0 <= number < math.inf for number in (*rest, *_measured(cost)))
        except BaseException as error:
            if is_no_fault(error):
                raise
            raise _failed(self._registered, error, _place(node)) from error
        if not 0.0 <= seconds <= MAX_SECONDS:
            raise no_time(self.name, node, seconds)
        if not others:
            what = "it gives operations or bytes that are no numbers"
            raise _not_a_model(self.name, what, _place(node))
        if cost.bound_by not in _ENGINES:
            what = f"bound_by is {cost.bound_by!r}, and engines are {', '.join(_ENGINES)}"
            raise _not_a_model(self.name, what, _place(node))
        if not isinstance(cost.trip, HostTrip | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _not_a_model(self.name, "trip is no HostTrip", _place(node))
        return cost if type(cost.seconds) is float else replace(cost, seconds=seconds)


class ChosenCostsWithViews(ChosenCosts):
    """The same where the target says which ops are views."""

    def is_view(self, node: ir.Node) -> bool:
        """Return whether the target's memory plans let the output of `node` lie in its input."""
        return cast("KnowsViews", self._own).is_view(node)

    def copy_s(self, value: ir.Value) -> float:
        """Seconds in which the target copies a view: as sizes, nothing that a model chooses."""
        return self._own.copy_s(value) if isinstance(self._own, CopiesViews) else 0.0


def refuse_refuted_times(target: object, bound_s: float, simulated_s: float) -> None:
    """Refuses a cost model by whose times a period is played that it says nothing can reach.

    Args:
        target: with a cost model that may have been chosen; its own is not looked at.
        bound_s: no period of a pipeline is shorter, by the times that the search was given.
        simulated_s: the period that was played, by those that the simulator was given.

    Raises:
        CompileError: MCM-C001.
    """
    choice = choice_of(target)
    if choice is not None and simulated_s < bound_s * (1.0 - ROOM):
        raise _not_a_model(
            choice.registered,
            f"by its times no period is below {bound_s:.9g} s, and one of {simulated_s:.9g} s is "
            "simulated with them: it gives other times when asked again, or shorter ones to the "
            "simulator",
        )


def _measured(cost: NodeCost) -> tuple[float, ...]:
    noted = (cost.measured_ops, cost.measured_s, cost.deviation_s)
    return noted if any(noted) else ()


def _place(node: ir.Node) -> str:
    return f"node {quote(node.name or '')} ({node.op_type})"


def no_time(name: str, node: ir.Node, seconds: float) -> CompileError:
    """MCM-C002: a cost model gives a number of seconds that is no time."""
    return CompileError.of(
        "MCM-C002",
        f"cost model {quote(name)} gives {seconds!r} s, which is no time",
        at=_place(node),
    )


def _not_a_model(name: str, reason: str, place: str | None = None) -> CompileError:
    return CompileError.of(
        "MCM-C001",
        f"cost model {quote(name)} cannot be used: {reason}",
        at=place or f"cost model {quote(name)}",
        hint="see docs/how-to/kernel-times.md for what a cost model is",
    )


def _failed(name: str, error: BaseException, place: str | None = None) -> CompileError:
    return CompileError.of(
        "MCM-C001",
        f"cost model {quote(name)} of {COST_MODELS.origin_of(name)} fails: {fault_text(error)}",
        at=place or f"cost model {quote(name)}",
    )
