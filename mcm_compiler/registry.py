"""Registries of pluggable components, found through entry points.

The core imports no component. Built-in passes, targets, strategies, cost models and zoo models
are found through the same entry points as a third-party plug-in, and loaded only when asked for.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from mcm_compiler import plugin_files
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.diagnostics.deprecations import removed_with
from mcm_compiler.diagnostics.refusals import notice
from mcm_compiler.plugin_files import twice
from mcm_compiler.plugin_kinds import (
    KINDS,
    MOVED,
    Entry,
    Kind,
    installed_entries,
    lacking_package,
    note_old,
    old_decorator,
)
from mcm_compiler.processes import foreign_code

if TYPE_CHECKING:
    from mcm_compiler.text.spec_text import Spec

T = TypeVar("T")

_ANYTHING = object()


@dataclass(frozen=True)
class Registration(Generic[T]):
    """One named component.

    Attributes:
        name: as the user types it.
        origin: the distribution or file it comes from.
        load: imports and returns it.
        module: that an entry point names; empty for what registers itself.
        made: the component, where it has registered itself.
    """

    name: str
    origin: str
    load: Callable[[], T]
    module: str = ""
    made: T | None = None


class Registry(Generic[T]):
    """Components of one kind by name.

    Attributes:
        changes: grows with each component that is added or removed.

    Args:
        kind: of the components.
        collections: another kind, of functions without arguments that give registrations, for
            components that are found out at run time; None for no such functions.
    """

    def __init__(self, kind: Kind, collections: Kind | None = None) -> None:
        self.kind = kind
        self.changes = 0
        self._collections = collections
        self._registered: dict[str, Registration[T]] = {}
        self._entered = self._scanned = False

    def add(self, name: str, component: T, origin: str) -> None:
        """Registers a component of this process (a one-file plug-in, a test).

        Raises:
            CompileError: MCM-X001 if the name is taken by another origin, or by an earlier line
                of the plug-in that is being loaded.
            TypeError: if the name is no text.
        """
        _check_name(name)
        self._scan()
        plugin_files.take(self.kind, name)
        self._insert(Registration(name, origin, lambda: component, made=component))
        plugin_files.to_undo(partial(self.remove, name))

    def register(self, name: str, component: T) -> T:
        """Registers a component for its plug-in file or module, as a decorator does; as `add`."""
        self._scan()
        module = str(getattr(component, "__module__", "this process"))
        known = self._registered.get(name)
        # A file may be installed and have its decorators: the entry point has led here, then. And
        # it may have decorators of this and of earlier releases.
        if known is None or not (known.module == module or known.made is component):
            self.add(name, component, plugin_files.current() or module)
        return component

    def __contains__(self, name: str) -> bool:
        """Return whether a component has this name; nothing is imported."""
        self._scan()
        return name in self._registered

    def remove(self, name: str) -> None:
        """Takes a component out again; a name that is not registered is ignored."""
        self._registered.pop(name, None)
        self.changes += 1

    def registrations(self) -> list[Registration[T]]:
        """All registrations, sorted by name; nothing is imported."""
        self._scan()
        return [self._registered[name] for name in sorted(self._registered)]

    def names_at_hand(self, begun: str = "") -> list[str]:
        """Names for somebody who types one, sorted; no component is imported.

        Args:
            begun: what is typed already. Of a collection its prefix is given, such as `onnx_ir.`,
                and its names as soon as that has been typed; they cost an import.
        """
        names = set(self._registered)
        names |= {entry.name for entry in installed_entries(self.kind.name)}
        if self._collections:
            for entry in installed_entries(self._collections.name):
                prefix = f"{entry.name}."
                if begun.startswith(prefix):
                    names |= {registration.name for registration in self._given_by(entry)}
                else:  # the same whether or not its names are known by now
                    names = {name for name in names if not name.startswith(prefix)} | {prefix}
        return sorted(names)

    def get(self, name: str) -> T:
        """Loads the component `name`.

        Raises:
            CompileError: MCM-U003 for an unknown name (with the nearest ones), MCM-X003 if its
                module cannot be imported, or does not hold it.
        """
        self._scan(name)
        registration = self._registered.get(name)
        if registration is None:
            raise self._unknown(name)
        with _import(f"{self.kind.words} '{name}'", registration.origin):
            component = registration.load()
        if self.kind.form == "class" and not isinstance(component, type):
            raise CompileError(_misfit(self.kind, name, component, registration.origin))
        return component

    def _unknown(self, name: str) -> CompileError:
        words, key = self.kind.words, f"{self.kind.name}.{name}"
        message, hint = f"unknown {words} '{name}'", MOVED.get(key)
        if hint is None and (package := lacking_package(key)) is not None:
            hint = f"it comes with the package {package}, which is not installed"
        if hint is None:
            if near := difflib.get_close_matches(name, self._registered, n=3):
                message += f"; did you mean {' or '.join(near)}?"
            known = f"known: {', '.join(sorted(self._registered)) or 'none'}"
            hint = f"`{self.kind.listing}` lists them" if self.kind.listing else known
            hint += "; for a plug-in that is not installed, add --plugin FILE"
        return CompileError.of("MCM-U003", message, at=f"{words} '{name}'", hint=hint)

    def held(
        self,
        fits: Callable[[object], bool],
        refuse: Callable[[str, object, str], Diagnostic] | None = None,
    ) -> dict[str, tuple[Any, str]]:
        """All components with their origins, where an entry may hold a mapping of several.

        Args:
            fits: whether an object is a component of the kind.
            refuse: from entry, object and origin, what is wrong; MCM-X008 by default.

        Raises:
            CompileError: MCM-X001 for a name that two origins give, and for what does not fit.
        """
        found: dict[str, tuple[Any, str]] = {}
        for entry in self.registrations():
            held: Any = self.get(entry.name)
            parts = held if isinstance(held, Mapping) else {entry.name: held}
            for name, component in cast("Mapping[Any, Any]", parts).items():
                if not isinstance(name, str) or not fits(component):
                    fault = refuse or partial(_misfit, self.kind)
                    raise CompileError(fault(entry.name, component, entry.origin))
                if name in found:
                    raise twice(self.kind, name, found[name][1], entry.origin)
                found[name] = component, entry.origin
        return found

    def made(self, spec: Spec) -> Any:
        """An instance of the component that a text names, with its options.

        Raises:
            CompileError: MCM-U002 for options, as `get` for the name, and as `at_work`.
        """
        from mcm_compiler.text.spec_text import instantiate

        cls = self.get(spec.name)
        with self.at_work(spec.name):
            return instantiate(cast("type[Any]", cls), spec)

    def origin_of(self, name: str) -> str:
        """The distribution or file of a component; `this process` where it is not registered."""
        self._scan(name)
        registration = self._registered.get(name)
        return registration.origin if registration is not None else "this process"

    @contextmanager
    def at_work(self, name: str, made: object = _ANYTHING) -> Generator[None]:
        """A block that makes the component `name` or runs its code, of which nothing is known.

        Args:
            name: as it is registered.
            made: where others' code runs in the block, too, the object that the component has
                made for it: an error that none of its methods has let through passes.

        Raises:
            CompileError: MCM-X007 for what is raised and is no diagnostic. Signals and files that
                the system refuses pass.
        """
        try:
            yield
        except BaseException as error:
            if foreign_code.is_no_fault(error) or foreign_code.is_refused_by_the_system(error):
                raise
            if made is not _ANYTHING and not foreign_code.has_let_through(made, error):
                raise
            raise CompileError.of(
                "MCM-X007",
                f"{self.kind.words} '{name}' failed: {foreign_code.fault_text(error)}",
                at=self.origin_of(name),
                hint=f"fix the {self.kind.words}, or report it to its author",
            ) from error

    def _scan(self, name: str | None = None) -> None:
        if self._scanned:
            return
        if not self._entered:
            for entry in installed_entries(self.kind.name):
                load = cast("Callable[[], T]", partial(self._load, entry))
                self._insert(Registration(entry.name, entry.origin, load, entry.point.module))
            self._entered = True
        # A collection costs an import, and is not asked for a name that an entry gives.
        if name in self._registered:
            return
        for registration in self._collected():
            self._insert(registration)
        # Only now: a name that is taken twice is a fault of every look, not of the first alone.
        self._scanned = True

    def _collected(self) -> Iterable[Registration[T]]:
        """Registrations that the entry points of `collections` give.

        Raises:
            CompileError: MCM-X003 for one that fails, or gives something else.
        """
        if self._collections:
            for entry in installed_entries(self._collections.name):
                yield from self._given_by(entry)

    def _load(self, entry: Entry, kind: Kind | None = None) -> Any:
        if entry.old:
            note_old(kind or self.kind, entry)
        return entry.point.load()

    def _given_by(self, entry: Entry) -> list[Registration[T]]:
        with _import(f"the {self.kind.words} collection '{entry.name}'", entry.origin):
            give: Callable[[], Iterable[Registration[T]]] = self._load(entry, self._collections)
            given = list(give())
            for one in given:
                if not isinstance(one, Registration):  # pyright: ignore[reportUnnecessaryIsInstance]
                    raise TypeError(f"it gives a {type(one).__name__}, not a Registration")
                _check_name(one.name)
            return given

    def _insert(self, registration: Registration[T]) -> None:
        other = self._registered.get(registration.name)
        # An editable install next to a built one lists the same distribution twice.
        if other is not None and other.origin != registration.origin:
            raise twice(self.kind, registration.name, other.origin, registration.origin)
        self._registered[registration.name] = registration
        self.changes += 1


REGISTRIES: dict[str, Registry[Any]] = {
    kind.name: Registry(kind, KINDS["pass-collection"] if kind.name == "pass" else None)
    for kind in KINDS.values()
    if kind.form != "entry"
}
"""The registry of each kind."""

ADDITIONS = REGISTRIES["addition"]
CHIP_KINDS = REGISTRIES["chip-kind"]
COST_MODELS = REGISTRIES["cost-model"]
FUSION_RULES = REGISTRIES["fusion-rule"]
GRADIENT_RULES = REGISTRIES["gradient-rule"]
LEVELS = REGISTRIES["level"]
MAPPERS = REGISTRIES["mapper"]
MAPPINGS = REGISTRIES["mapping"]
MAPPING_MODELS = REGISTRIES["mapping-model"]
OBJECTIVE_PROOFS = REGISTRIES["objective-proof"]
OP_COSTS = REGISTRIES["op-cost"]
PASSES = REGISTRIES["pass"]
PLACEMENT_COSTS = REGISTRIES["placement-cost"]
PLACERS = REGISTRIES["placer"]
PLANNERS = REGISTRIES["planner"]
PROBLEM_MODELS = REGISTRIES["problem-model"]
PROOF_CHECKERS = REGISTRIES["proof-checker"]
ROUTINGS = REGISTRIES["routing"]
SHARDING_RULES = REGISTRIES["sharding-rule"]
STEP_BOUNDS = REGISTRIES["step-bound"]
STRATEGIES = REGISTRIES["strategy"]
TARGETS = REGISTRIES["target"]
TARGET_FAMILIES = REGISTRIES["target-family"]
TRAINERS = REGISTRIES["trainer"]
ZOO = REGISTRIES["zoo"]


def _check_name(name: object) -> None:
    """Raises TypeError for a name that nobody could type."""
    if not isinstance(name, str) or not name:
        raise TypeError(f"the name of a component is a text, and not {name!r}")


@contextmanager
def _import(what: str, origin: str) -> Generator[None]:
    """A block that imports a component, which runs the code of its module.

    Raises:
        CompileError: MCM-X003 for what is raised and is no diagnostic.
    """
    try:
        yield
    except BaseException as error:
        if foreign_code.is_no_fault(error):
            raise
        text = foreign_code.fault_text(error)
        # That it is one the message says already.
        text = text.removeprefix("ImportError: ").removeprefix("ModuleNotFoundError: ")
        raise CompileError.of(
            "MCM-X003", f"{what} cannot be imported: {text}", at=origin
        ) from error


def _misfit(kind: Kind, name: str, component: object, origin: str) -> Diagnostic:
    module, _, contract = kind.contract.partition(":")
    return Diagnostic(
        "MCM-X008",
        f"{kind.words} {quote(name)} is of type {type(component).__name__}, "
        f"not a {kind.form} as {contract} describes",
        at=origin,
        hint=f"register what fits {module}.{contract}",
    )


def register(kind: str, name: str | None = None) -> Callable[[T], T]:
    """Decorator that registers a component of this process, for one-file plug-ins.

    What is no function or class is registered by a call: `register("level")(Level(...))`.

    Args:
        kind: a name of `mcm_compiler.plugin_kinds.KINDS`, such as `strategy`.
        name: of the component; by default that of its attribute `name`.

    Raises:
        CompileError: MCM-X014 for a kind that does not exist or is not for files.
    """
    if kind not in REGISTRIES:
        near = difflib.get_close_matches(str(kind), REGISTRIES, n=3)
        suggested = f"; did you mean {' or '.join(near)}?" if near else ""
        raise CompileError.of(
            "MCM-X014",
            f"{quote(str(kind))} is no kind of component{suggested}",
            at=plugin_files.current(),
            hint=f'write @register("KIND"); kinds: {", ".join(REGISTRIES)}',
        )

    def register_one(component: T) -> T:
        own = name if name is not None else getattr(component, "name", None)
        if own is None:
            raise TypeError(f'it has no attribute name: write register("{kind}", "NAME")')
        return REGISTRIES[kind].register(own, component)

    return register_one


def __getattr__(name: str) -> Any:
    """A decorator of earlier releases, such as `register_pass`."""
    kind = old_decorator(name)
    if kind is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def register_as_before(first: Any) -> Any:
        given = f', "{first}"' if isinstance(first, str) else ""
        notice(
            Diagnostic(
                "MCM-X015",
                f"the decorator {name} is {removed_with('decorators')}",
                at=plugin_files.current() or getattr(first, "__module__", None),
                hint=f'write register("{kind.name}"{given}), which mcm_compiler has',
            )
        )
        if isinstance(first, str):
            return register(kind.name, first)
        return register(kind.name)(first)

    return register_as_before
