"""Boxes whose times come from cost models that are chosen by name, one for each kind of device."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

import onnx_ir as ir

from mcm_compiler.additions import other_targets
from mcm_compiler.components import cost_choice
from mcm_compiler.components.target_loading import (
    has_name,
    load_package,
    registered,
    with_described_costs,
)
from mcm_compiler.contracts.boxes.box import Box, BoxTarget
from mcm_compiler.contracts.cost import CostModel
from mcm_compiler.contracts.described import Described
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.registry import TARGETS

T = TypeVar("T")


@runtime_checkable
class TakesDeviceCosts(Protocol):
    """A box whose times may come from other cost models than its own, by kind of device.

    Names of its kinds are of letters, digits, `-` and `_`: they are part of names of files.
    """

    @property
    def name(self) -> str: ...

    @property
    def source_text(self) -> str:
        """Its description."""
        ...

    @property
    def box(self) -> Box: ...

    @property
    def cost_choices(self) -> Mapping[str, cost_choice.CostChoice]:
        """Chosen cost models, by kind; the host's own model holds for kinds that are not there."""
        ...

    def device_costs(self, kind: str) -> CostModel:
        """The cost model of devices of a kind: what was chosen, or else the box's own.

        Answers of what was chosen are checked.

        Raises:
            CompileError: as `CostChoice.model`, and MCM-C004 where the description names a cost
                model with files, and was not loaded from a file.
        """
        ...

    def with_cost_models(self, choices: Mapping[str, cost_choice.CostChoice]) -> Any:
        """The same box with other cost models for some kinds, named in its `source_text`.

        Times of `step_problem` come from them: of an op that such a device runs, what the model
        says of the op on its own. Ops that run nothing, such as views, take no time but that which
        was measured (`NodeCost.measured_ops`).

        Args:
            choices: by kind; those of other kinds stay.

        Raises:
            CompileError: MCM-C008 if the description cannot say so, and as `CostChoice.model`.
        """
        ...


def device_choices(target: object) -> Mapping[str, cost_choice.CostChoice]:
    """The cost models that were chosen for kinds of devices; empty where the box's own hold."""
    return target.cost_choices if isinstance(target, TakesDeviceCosts) else {}


def option_place(option: str) -> Callable[[str], str]:
    """Says of each kind that an option such as `--cost-model` spoke of it."""
    return lambda kind: f"option {option} {quote(kind)}"


def with_device_costs(
    target: T, texts: Mapping[str, str], read: cost_choice.ReadFile, place: Callable[[str], str]
) -> T:
    """The box with other cost models for some kinds of its devices.

    Args:
        target: a `BoxTarget`.
        texts: text forms such as `table{file=times.csv}`, by kind.
        read: gives the files that they name.
        place: where a kind is named, for diagnostics.

    Raises:
        CompileError: MCM-C003 for a box that takes none, MCM-D070 for kinds that it does not have,
            and as `choose_cost_model` and `TakesDeviceCosts.with_cost_models`.
    """
    if not texts:
        return target
    if not isinstance(target, TakesDeviceCosts):
        raise CompileError.of(
            "MCM-C003",
            f"target {quote(cast('BoxTarget', target).name)} takes no cost model but its own",
            at=place(next(iter(texts))),
            hint="leave it out, or take a target of the family `box`",
        )
    CompileError.raise_any(unknown_kinds(target.box, texts, place))
    changed: Any = target
    for kind, text in texts.items():
        try:
            changed = changed.with_cost_models({kind: chosen_for(kind, text, read)})
        except CompileError as error:
            raise error.changed(cost_choice.SAY_THEIR_PLACE, at=place(kind)) from error
    return changed


def calibrated_devices(target: T, nodes: Iterable[ir.Node]) -> T:
    """The box with its measured times compared with computed ones, kind by kind.

    Args:
        target: a `BoxTarget`.
        nodes: ops of the model that is placed, each a kernel.

    Raises:
        CompileError: as `TakesDeviceCosts.with_cost_models`.
    """
    if not isinstance(target, TakesDeviceCosts):
        return target
    kernels = [(node,) for node in nodes]
    found = {
        kind: choice.calibrated(target.device_costs(kind), kernels)
        for kind, choice in target.cost_choices.items()
    }
    return cast("T", target.with_cost_models(found))


def chosen_for(kind: str, text: str, read: cost_choice.ReadFile) -> cost_choice.CostChoice:
    """The cost model of a text form for devices of a kind; its files are stored under their name.

    Raises:
        CompileError: as `choose_cost_model`.
    """
    return cost_choice.choose_cost_model(text, read, f"{cost_choice.STORED}.{kind}")


def unknown_kinds(
    box: Box, kinds: Mapping[str, object], place: Callable[[str], str]
) -> list[Diagnostic]:
    """MCM-D070 for each kind that the box does not have.

    Args:
        box: the devices.
        kinds: that somebody named.
        place: where a kind is named.
    """
    lacking = [kind for kind in kinds if kind not in box.kinds]
    return [unknown("kind of device", kind, box.kinds, place(kind)) for kind in lacking]


def unknown(what: str, name: str, known: Iterable[str], place: str) -> Diagnostic:
    """MCM-D070 for a device, or a kind of them, that the box does not have."""
    hint = f"it has {', '.join(map(quote, known))}"
    return Diagnostic("MCM-D070", f"the host has no {what} {quote(name)}", at=place, hint=hint)


def load_box(name_or_path: str | os.PathLike[str]) -> BoxTarget:
    """The box of a name or path, as `load_package`.

    Raises:
        CompileError: as `load_package`, and MCM-D002 for what is no box.
    """
    return _box_only(load_package(name_or_path), str(name_or_path))


def given_box(target: str | os.PathLike[str] | BoxTarget) -> BoxTarget:
    """The box that a name, a path or a box stands for, with the cost models that it describes.

    Raises:
        CompileError: as `load_box`.
    """
    if not has_name(target):
        return load_box(cast("str", target))
    return with_described_costs(_box_only(target, target.name))


def _box_only(package: Described, place: str) -> BoxTarget:
    if isinstance(package, BoxTarget):
        return package
    boxes = ", ".join(name for name in registered(TARGETS) if name.startswith("box-"))
    other = other_targets(package)
    raise CompileError.of(
        "MCM-D002",
        f"target {quote(package.name)} is no host with CPUs and GPUs",
        at=f"target {quote(place)}",
        hint=f"take a host ({boxes or 'none is installed'}), or a description with "
        f'family = "box"; for this target there is `mcmc {other.verb if other else "compile"}`',
    )
