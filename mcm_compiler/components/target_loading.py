"""Finding a target: by its registered name, or by the path of a description file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard, TypeVar, cast

from mcm_compiler.additions import OtherTargets, other_targets
from mcm_compiler.components import cost_choice
from mcm_compiler.components.cost_files import COST_KEY, cost_model_text, user_files
from mcm_compiler.contracts.described import Described
from mcm_compiler.contracts.target import ShrinkableTarget, Target, TargetFamily, machine_of
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.machines.machine import MachineError, refusal
from mcm_compiler.options import CompileOptions
from mcm_compiler.registry import TARGET_FAMILIES, TARGETS, Registry
from mcm_compiler.text import toml_description
from mcm_compiler.text.spec_text import refuse_argument

T = TypeVar("T")
P = TypeVar("P", bound=Described)

Package: TypeAlias = "Target | Described"
"""Whatever has a name among the targets: a package of chips, or a target of another kind."""


def load_package(name_or_path: str | os.PathLike[str]) -> Package:
    """The target `mcm36`, the cluster `config-a`, or what the file `./mine.toml` describes.

    Anything that ends in `.toml` or holds a path separator is a path.

    Raises:
        CompileError: MCM-U003 for an unknown name, MCM-T001 for a file that cannot be read,
            MCM-T### for faults of a description. MCM-T014 and MCM-T015 for a machine that cannot
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
    """Return the package that `make` makes, if its machine is valid.

    Raises:
        CompileError: for a machine that cannot be.
        TypeError: if it makes something else.
    """
    try:
        package = make()
        if not isinstance(getattr(package, "name", None), str):
            raise TypeError(f"it gave a {type(package).__name__}, not a target")
        if other_targets(package) is None:
            # Whoever makes it on demand finds what is wrong with it here.
            machine_of(cast("Target", package))
    except MachineError as error:
        raise refusal(error, name) from error
    return package


def load_target(name_or_path: str | os.PathLike[str]) -> Target:
    """The package of chips of a name or path, as `load_package`.

    Raises:
        CompileError: as `load_package`, MCM-S040 and MCM-D001 for targets of other kinds.
    """
    return _chips_only(load_package(name_or_path), str(name_or_path))


def given_target(target: str | os.PathLike[str] | Target) -> Target:
    """The package of chips that a name, a path or a target stands for.

    Raises:
        CompileError: as `load_target`.
    """
    if not has_name(target):
        return load_target(cast("str", target))
    return _chips_only(target, target.name)


def has_name(target: str | os.PathLike[str] | P) -> TypeGuard[P]:
    """Return whether something is a target rather than a name or a path, judging by its name."""
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


def target_from_text(
    name: str, text: str, place: str | None = None, read: cost_choice.ReadFile | None = None
) -> Target:
    """Makes a package of chips from a TOML description, as `package_from_text`.

    Raises:
        CompileError: as `package_from_text`, MCM-S040 and MCM-D001 for targets of other kinds.
    """
    return _chips_only(package_from_text(name, text, place, read), place or name)


def refused(package: Described, other: OtherTargets, place: str, what: str) -> CompileError:
    """The refusal of a target of another kind, of which no model is, say, compiled."""
    return CompileError.of(
        other.code,
        f"target {quote(package.name)} is {other.words}, and no model is {what} for one",
        at=f"target {quote(place)}",
        hint=f"{other.doing} with `mcmc {other.verb} MODEL --target {package.name}`; "
        "`mcmc targets` lists the packages of chips",
    )


def _chips_only(package: Package, place: str) -> Target:
    if (other := other_targets(package)) is not None:
        raise refused(package, other, place, "compiled")
    return cast("Target", package)


def registered(registry: Registry[Any]) -> list[str]:
    """Names of components, sorted."""
    return [registration.name for registration in registry.registrations()]


def package_from_text(
    name: str, text: str, place: str | None = None, read: cost_choice.ReadFile | None = None
) -> Package:
    """Makes a package of chips, or a target of another kind, from a TOML description.

    Its `family` key picks the code, and `model` in its table `[cost]` the cost model.

    Args:
        name: name of the target.
        text: the description.
        place: what diagnostics call the description; `name` where None.
        read: gives the files that its cost model names; None where it may name none.

    Raises:
        CompileError: MCM-T001 if it is not TOML, MCM-T003 or MCM-T004 if it names no family,
            MCM-U003 for an unknown family, MCM-T### for faults of the description, and as
            `with_cost_model` or `Addition.described` for its cost models.
    """
    place = place or name
    description = toml_description.parse_description(place, text)
    family = description.data.get("family")
    if family is None:
        known = ", ".join(registered(TARGET_FAMILIES))
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
    read = read or user_files(None)
    if (described := _described(package, description, read)) is not None:
        return described
    model = cost_model_text(description)
    if model is None:
        return package
    try:
        return cost_choice.with_cost_model(package, model, read)
    except CompileError as error:
        where = description.place(COST_KEY)
        raise error.changed(cost_choice.SAY_THEIR_PLACE, at=where) from error


def _described(
    package: object, description: toml_description.TomlDescription, read: cost_choice.ReadFile
) -> Any:
    other = other_targets(package)
    return None if other is None else other.described(package, description, read)


def with_described_costs(package: T) -> T:
    """The target with the cost model that its description names, where it was made without.

    Raises:
        CompileError: as `with_cost_model`; such a cost model may name no files.
    """
    if other_targets(package) is not None:
        other: Any = package
        description = toml_description.parse_description(other.name, other.source_text)
        if (described := _described(other, description, user_files(None))) is not None:
            return described
    if not isinstance(package, cost_choice.TakesCostModel) or package.cost_choice is not None:
        return package
    description = toml_description.parse_description(package.name, package.source_text)
    text = cost_model_text(description)
    if text is None:
        return package
    return cast("T", cost_choice.with_cost_model(package, text, user_files(None)))


def _named(at: str | None, name: str, place: str) -> str | None:
    """The place of a diagnostic with the file instead of the target's name in front."""
    return place + at.removeprefix(name) if at is not None and at.startswith(name) else at


def described(target: Target, options: CompileOptions) -> Target:
    """The target as a compile takes it: with the cost model asked for, without forbidden chips.

    Raises:
        CompileError: as the cost model's and MCM-F020.
    """
    if options.cost_model is None:
        package = with_described_costs(target)
    else:
        package = cost_choice.with_cost_model(target, options.cost_model, user_files(Path()))
    return without_chips(package, options.forbidden_chips)


def without_chips(target: Target, places: Sequence[int]) -> Target:
    """The target with some chips switched off, as in a description that says so.

    Args:
        target: the target.
        places: places in the package, counted with those that are off already.

    Raises:
        CompileError: MCM-F020 if there is no chip at a place, none is left, or the target cannot
            be made smaller.
    """
    if not places:
        return target
    shown = ", ".join(map(str, places))
    if not isinstance(target, ShrinkableTarget):
        raise CompileError.of(
            "MCM-F020",
            f"target {quote(target.name)} has no way to switch chips off",
            at="option --forbid-chip",
            hint="leave the option out, or write a description without these chips",
        )
    try:
        return target.without_chips(places)
    except CompileError as error:
        raise CompileError(
            [
                Diagnostic(
                    "MCM-F020",
                    f"chips {shown} of {quote(target.name)} cannot be switched off: {d.message}",
                    at="option --forbid-chip",
                    hint=f"`mcmc targets show {target.name}` shows the package; what is "
                    "overridden in a description is switched off there",
                )
                for d in error.diagnostics
            ]
        ) from error


_VERB = "parallelize"


def load_cluster(name_or_path: str) -> Any:
    """The cluster of a name or path, as `load_package`.

    Raises:
        CompileError: as `load_package`, and MCM-S041 for what is no cluster.
    """
    package = load_package(name_or_path)
    other = other_targets(package)
    if other is not None and other.verb == _VERB:
        return package
    clusters = ", ".join(
        name for name in ("config-a", "config-b", "config-c") if name in registered(TARGETS)
    )
    what, verb = ("a package of chips", "compile") if other is None else (other.words, other.verb)
    raise CompileError.of(
        "MCM-S041",
        f"target {quote(package.name)} is {what}, not a cluster",
        at=f"target {quote(name_or_path)}",
        hint=f"take a cluster ({clusters or 'none is installed'}), or a description with "
        f'family = "cluster"; for this target there is `mcmc {verb}`',
    )


def load_plannable(name_or_path: str) -> Described:
    """The package of chips or the cluster of a name or path, as `load_package`.

    Raises:
        CompileError: as `load_package`, and MCM-D001 for a box.
    """
    package = load_package(name_or_path)
    other = other_targets(package)
    if other is not None and other.verb != _VERB:
        raise refused(package, other, name_or_path, "planned")
    return package
