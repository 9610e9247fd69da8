"""Finding a target: by its registered name, or by the path of a description file."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, TypeVar, cast

from mcm_compiler.components.cost_choice import (
    SAY_THEIR_PLACE,
    ReadFile,
    TakesCostModel,
    with_cost_model,
)
from mcm_compiler.components.cost_files import (
    COST_KEY,
    COST_TABLE,
    cost_model_text,
    cost_model_texts,
    user_files,
)
from mcm_compiler.contracts.target import Target, TargetFamily, machine_of
from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.machines.machine import MachineError, refusal
from mcm_compiler.registry import TARGET_FAMILIES, TARGETS, Registry
from mcm_compiler.text import toml_description
from mcm_compiler.text.typed_options import refuse_argument

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from mcm_compiler.components.device_costs import TakesDeviceCosts
    from mcm_compiler.contracts.boxes.box import BoxTarget
    from mcm_compiler.contracts.cluster import ClusterTarget

T = TypeVar("T")
P = TypeVar("P", bound="Package")

Package: TypeAlias = "Target | ClusterTarget | BoxTarget"
"""Whatever has a name among the targets: a package of chips, a cluster, or a box."""


def _is_box(package: object) -> TypeIs[BoxTarget]:
    """Return whether a target is a host with accelerators; others do not load its contract."""
    if not hasattr(package, "box"):
        return False
    from mcm_compiler.contracts.boxes.box import BoxTarget

    return isinstance(package, BoxTarget)


def _is_cluster(package: object) -> TypeIs[ClusterTarget]:
    """Return whether a target is a cluster, likewise."""
    if not hasattr(package, "cluster"):
        return False
    from mcm_compiler.contracts.cluster import ClusterTarget

    return isinstance(package, ClusterTarget)


def _takes_device_costs(package: object) -> TypeGuard[TakesDeviceCosts]:
    """Return whether a target takes a cost model for each kind of device, likewise."""
    if not hasattr(package, "cost_choices"):
        return False
    from mcm_compiler.components.device_costs import TakesDeviceCosts

    return isinstance(package, TakesDeviceCosts)


def load_package(name_or_path: str | os.PathLike[str]) -> Package:
    """The target `mcm36`, the cluster `config-a`, or what the file `./mine.toml` describes.

    Anything that ends in `.toml` or holds a path separator is a path.

    Raises:
        CompileError: MCM-U003 for an unknown name, MCM-T001 for a file that cannot be read,
            MCM-T### for faults of a description, MCM-T014 and MCM-T015 for a machine that cannot
            be, MCM-U004 for what is neither a name nor a path.
    """
    name_or_path = _text_of(name_or_path)
    path = Path(name_or_path)
    if path.suffix != ".toml" and len(path.parts) < 2:
        make = TARGETS.get(name_or_path)
        with TARGETS.at_work(name_or_path):
            package = _checked(lambda: cast("Package", make()), name_or_path)
            return with_described_costs(package)
    text = toml_description.read_description(name_or_path)
    return package_from_text(path.stem, text, name_or_path, user_files(path.parent))


def _checked(make: Callable[[], Package], name: str) -> Package:
    """What `make` makes, if its machine can be.

    Raises:
        CompileError: for a machine that cannot be.
        TypeError: if it makes something else.
    """
    try:
        package = make()
        if not isinstance(getattr(package, "name", None), str):
            raise TypeError(f"it gave a {type(package).__name__}, not a target")
        if not _is_cluster(package) and not _is_box(package):
            # Whoever makes it on demand finds what is wrong with it here.
            machine_of(package)
    except MachineError as error:
        raise refusal(error, name) from error
    return package


def load_target(name_or_path: str | os.PathLike[str]) -> Target:
    """The package of chips of a name or path, as `load_package`.

    Raises:
        CompileError: as `load_package`, MCM-S040 for a cluster, and MCM-D001 for a box.
    """
    return _chips_only(load_package(name_or_path), str(name_or_path))


def given_target(target: str | os.PathLike[str] | Target) -> Target:
    """The package of chips that a name, a path or a target stands for.

    Raises:
        CompileError: as `load_target`.
    """
    if not _has_name(target):
        return load_target(cast("str", target))
    return _chips_only(target, target.name)


def given_box(target: str | os.PathLike[str] | BoxTarget) -> BoxTarget:
    """The box that a name, a path or a box stands for, with the cost models that it describes.

    Raises:
        CompileError: as `load_box`.
    """
    if not _has_name(target):
        return load_box(cast("str", target))
    return with_described_costs(_box_only(target, target.name))


def _has_name(target: str | os.PathLike[str] | P) -> TypeGuard[P]:
    """Whether something is a target rather than a name or a path, as far as its name tells."""
    named = isinstance(getattr(target, "name", None), str)
    return named and not isinstance(target, type | os.PathLike)


def _text_of(name_or_path: object) -> str:
    """A name or a path as a text.

    Raises:
        CompileError: MCM-U004 for what is neither.
    """
    if isinstance(name_or_path, str | os.PathLike):
        text = os.fspath(name_or_path)
        if isinstance(text, str):
            return text
    raise refuse_argument("target", name_or_path, "a name, a path or a target")


def load_cluster(name_or_path: str) -> ClusterTarget:
    """The cluster of a name or path, as `load_package`.

    Raises:
        CompileError: as `load_package`, and MCM-S041 for a package of chips or a box.
    """
    package = load_package(name_or_path)
    if _is_cluster(package):
        return package
    clusters = ", ".join(
        name for name in ("config-a", "config-b", "config-c") if name in _registered(TARGETS)
    )
    what, verb = "a package of chips", "compile"
    if _is_box(package):
        what, verb = "a box", "place"
    raise CompileError.of(
        "MCM-S041",
        f"target {quote(package.name)} is {what}, not a cluster",
        at=f"target {quote(name_or_path)}",
        hint=f"take a cluster ({clusters or 'none is installed'}), or a description with "
        f'family = "cluster"; for this target there is `mcmc {verb}`',
    )


def load_box(name_or_path: str | os.PathLike[str]) -> BoxTarget:
    """The box of a name or path, as `load_package`.

    Raises:
        CompileError: as `load_package`, and MCM-D002 for what is no box.
    """
    return _box_only(load_package(name_or_path), str(name_or_path))


def _box_only(package: Package, place: str) -> BoxTarget:
    if _is_box(package):
        return package
    boxes = ", ".join(name for name in _registered(TARGETS) if name.startswith("box-"))
    verb = "parallelize" if _is_cluster(package) else "compile"
    raise CompileError.of(
        "MCM-D002",
        f"target {quote(package.name)} is no box of CPUs and GPUs",
        at=f"target {quote(place)}",
        hint=f"take a box ({boxes or 'none is installed'}), or a description with "
        f'family = "box"; for this target there is `mcmc {verb}`',
    )


def target_from_text(
    name: str, text: str, place: str | None = None, read: ReadFile | None = None
) -> Target:
    """Makes a package of chips from a TOML description, as `package_from_text`.

    Raises:
        CompileError: as `package_from_text`, MCM-S040 for a cluster, and MCM-D001 for a box.
    """
    return _chips_only(package_from_text(name, text, place, read), place or name)


def load_plannable(name_or_path: str) -> Target | ClusterTarget:
    """The package of chips or the cluster of a name or path, as `load_package`.

    Raises:
        CompileError: as `load_package`, and MCM-D001 for a box.
    """
    return _no_box(load_package(name_or_path), name_or_path, "planned")


def _no_box(package: Package, place: str, what: str) -> Target | ClusterTarget:
    if not _is_box(package):
        return package
    raise CompileError.of(
        "MCM-D001",
        f"target {quote(package.name)} is a box of CPUs and GPUs, and no model is {what} for one",
        at=f"target {quote(place)}",
        hint=f"place the model's ops in it with `mcmc place MODEL --target {package.name}`; "
        "`mcmc targets` lists the packages of chips",
    )


def _chips_only(package: Package, place: str) -> Target:
    package = _no_box(package, place, "compiled")
    if not _is_cluster(package):
        return package
    raise CompileError.of(
        "MCM-S040",
        f"target {quote(package.name)} is a cluster, and no model is compiled for one",
        at=f"target {quote(place)}",
        hint=f"plan for it with `mcmc parallelize MODEL --target {package.name}`; "
        "`mcmc targets` lists the packages of chips",
    )


def _registered(registry: Registry[Any]) -> list[str]:
    return [registration.name for registration in registry.registrations()]


def package_from_text(
    name: str, text: str, place: str | None = None, read: ReadFile | None = None
) -> Package:
    """Makes a package of chips, a cluster or a box from a TOML description.

    Its `family` key picks the code, and `model` in its table `[cost]` the cost model; for a box
    each kind of device has a key there.

    Args:
        name: name of the target.
        text: the description.
        place: what diagnostics call the description; `name` where None.
        read: gives the files that its cost model names; None where it may name none.

    Raises:
        CompileError: MCM-T001 if it is not TOML, MCM-T003 or MCM-T004 if it names no family,
            MCM-U003 for an unknown family, MCM-T### for faults of the description, and as
            `with_cost_model` or `with_device_costs` for its cost models.
    """
    place = place or name
    description = toml_description.parse_description(place, text)
    family = description.data.get("family")
    if family is None:
        known = ", ".join(_registered(TARGET_FAMILIES))
        raise CompileError.of(
            "MCM-T003",
            "the target description has no family",
            at=place,
            hint=f'add family = "..." with one of: {known}',
        )
    at = description.place(("family",))
    if not isinstance(family, str):
        raise CompileError.of("MCM-T004", "expected a text", at, 'such as family = "ring"')
    try:
        make = cast("TargetFamily[Package]", TARGET_FAMILIES.get(family))
    except CompileError as error:
        raise error.changed(at=at) from error
    try:
        with TARGET_FAMILIES.at_work(family):
            package = _checked(lambda: make(name, text), place)
    except CompileError as error:
        raise CompileError(
            [replace(d, at=_named(d.at, name, place)) for d in error.diagnostics]
        ) from error
    if _takes_device_costs(package):
        return _with_described_device_costs(package, description, read or user_files(None))
    model = cost_model_text(description)
    if model is None:
        return package
    try:
        return with_cost_model(package, model, read or user_files(None))
    except CompileError as error:
        where = description.place(COST_KEY)
        raise error.changed(SAY_THEIR_PLACE, at=where) from error


def _with_described_device_costs(
    package: TakesDeviceCosts, description: toml_description.TomlDescription, read: ReadFile
) -> Any:
    """The box with the cost models that its description names for kinds of devices."""
    from mcm_compiler.components.device_costs import with_device_costs

    known = package.cost_choices
    texts = {
        kind: text for kind, text in cost_model_texts(description).items() if kind not in known
    }
    return with_device_costs(
        package, texts, read, lambda kind: description.place((COST_TABLE, kind))
    )


def with_described_costs(package: T) -> T:
    """The target with the cost model that its description names, where it was made without.

    A box has one for each kind of device that the description names one for.

    Raises:
        CompileError: as `with_cost_model`; such a cost model may name no files.
    """
    if _takes_device_costs(package):
        described = toml_description.parse_description(package.name, package.source_text)
        return cast("T", _with_described_device_costs(package, described, user_files(None)))
    if not isinstance(package, TakesCostModel) or package.cost_choice is not None:
        return package
    description = toml_description.parse_description(package.name, package.source_text)
    text = cost_model_text(description)
    if text is None:
        return package
    return cast("T", with_cost_model(package, text, user_files(None)))


def _named(at: str | None, name: str, place: str) -> str | None:
    """The place of a diagnostic with the file instead of the target's name in front."""
    return place + at.removeprefix(name) if at is not None and at.startswith(name) else at
