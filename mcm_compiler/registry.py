"""Registries of pluggable components, found through entry points.

The core imports no component. Built-in passes, targets, strategies, cost models and zoo models
are found through the same entry points as a third-party plug-in, and loaded only when asked for.
"""

from __future__ import annotations

import difflib
import functools
import importlib.metadata
import importlib.util
import sys
import traceback
import zlib
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from mcm_compiler.diagnostics import CompileError, Diagnostic
from mcm_compiler.processes.foreign_code import (
    fault_text,
    has_let_through,
    is_no_fault,
    is_refused_by_the_system,
)

if TYPE_CHECKING:
    from mcm_compiler.text.spec_text import Spec

T = TypeVar("T")

_ANYTHING = object()


def installed_entries(group: str) -> Iterable[importlib.metadata.EntryPoint]:
    """Entry points of a group; all groups are read from the installation together, once."""
    return _all_entries(tuple(sys.path)).select(group=group)


@functools.lru_cache(maxsize=1)
def _all_entries(_path: tuple[str, ...]) -> importlib.metadata.EntryPoints:
    return cast("Any", importlib.metadata.entry_points())


@dataclass(frozen=True)
class Registration(Generic[T]):
    """One named component.

    Attributes:
        name: as the user types it.
        origin: the distribution or file it comes from.
        load: imports and returns it.
        module: that an entry point names; empty for what registers itself.
    """

    name: str
    origin: str
    load: Callable[[], T]
    module: str = ""


class Registry(Generic[T]):
    """Components of one kind by name.

    Args:
        group: the entry-point group, such as `mcm_compiler.passes`.
        kind: the word for messages, such as `pass`.
        collections: another group, whose entry points name functions without arguments that give
            registrations, for components that are found out at run time; empty for none.
    """

    def __init__(self, group: str, kind: str, collections: str = "") -> None:
        self.group = group
        self.kind = kind
        self._collections = collections
        self._registered: dict[str, Registration[T]] = {}
        self._scanned = False

    def add(self, name: str, component: T, origin: str) -> None:
        """Registers a component of this process (a one-file plug-in, a test).

        Raises:
            CompileError: MCM-X001 if the name is taken by another origin, or by an earlier line
                of the plug-in that is being loaded.
            TypeError: if the name is no text.
        """
        _check_name(name)
        self._scan()
        if _loading is not None:
            _loading.take(self, name)
        self._insert(Registration(name, origin, lambda: component))
        if _loading is not None:
            _loading.added.append((self, name))

    def is_entry_of(self, name: str, module: str) -> bool:
        """Whether an entry point names a component of this module so."""
        self._scan()
        found = self._registered.get(name)
        return found is not None and found.module == module

    def __contains__(self, name: str) -> bool:
        """Whether a component has this name; nothing is imported."""
        self._scan()
        return name in self._registered

    def remove(self, name: str) -> None:
        """Takes a component out again; a name that is not registered is ignored."""
        self._registered.pop(name, None)

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
        names |= {entry.name for entry in installed_entries(self.group)}
        if self._collections:
            for entry in installed_entries(self._collections):
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
        self._scan()
        registration = self._registered.get(name)
        if registration is None:
            near = difflib.get_close_matches(name, self._registered, n=3)
            hint = f"did you mean {', '.join(near)}?" if near else None
            known = ", ".join(sorted(self._registered)) or "none"
            raise CompileError(
                Diagnostic(
                    "MCM-U003",
                    f"unknown {self.kind} '{name}'; known: {known}",
                    at=f"{self.kind} '{name}'",
                    hint=hint
                    or f"take a known one; if '{name}' is in a plug-in, install that, or give its "
                    "file with --plugin",
                )
            )
        with _import(f"{self.kind} '{name}'", registration.origin):
            return registration.load()

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
        self._scan()
        registration = self._registered.get(name)
        return registration.origin if registration is not None else "this process"

    @contextmanager
    def at_work(self, name: str, made: object = _ANYTHING) -> Generator[None]:
        """A block that makes the component `name` or runs its code, of which nothing is known.

        Args:
            name: as it is registered.
            made: where others' code runs in the block, too, the object that the component has
                made for it: what none of its methods has let through is not told here.

        Raises:
            CompileError: MCM-X007 for what is raised and is no diagnostic. Signals and files that
                the system refuses pass.
        """
        try:
            yield
        except BaseException as error:
            if is_no_fault(error) or is_refused_by_the_system(error):
                raise
            if made is not _ANYTHING and not has_let_through(made, error):
                raise
            raise CompileError(
                Diagnostic(
                    "MCM-X007",
                    f"{self.kind} '{name}' failed: {fault_text(error)}",
                    at=self.origin_of(name),
                    hint=f"this is a fault of the {self.kind}; report it to whoever provides it",
                )
            ) from error

    def _scan(self) -> None:
        if self._scanned:
            return
        for entry in installed_entries(self.group):
            origin = _origin(entry.dist) if entry.dist else entry.value
            load = cast("Callable[[], T]", entry.load)
            self._insert(Registration(entry.name, origin, load, entry.module))
        for registration in self._collected():
            self._insert(registration)
        # Only now: a name that is taken twice is a fault of every look, not of the first alone.
        self._scanned = True

    def _collected(self) -> Iterable[Registration[T]]:
        """What the entry points of `collections` give.

        Raises:
            CompileError: MCM-X003 for one that fails, or gives something else.
        """
        if self._collections:
            for entry in installed_entries(self._collections):
                yield from self._given_by(entry)

    def _given_by(self, entry: importlib.metadata.EntryPoint) -> list[Registration[T]]:
        origin = _origin(entry.dist) if entry.dist else entry.value
        with _import(f"the {self.kind} collection '{entry.name}'", origin):
            give = cast("Callable[[], Iterable[Registration[T]]]", entry.load())
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


PASSES: Registry[Any] = Registry(
    "mcm_compiler.passes", "pass", collections="mcm_compiler.pass_collections"
)
TARGETS: Registry[Any] = Registry("mcm_compiler.targets", "target")
TARGET_FAMILIES: Registry[Any] = Registry("mcm_compiler.target_families", "target family")
STRATEGIES: Registry[Any] = Registry("mcm_compiler.partition_strategies", "partition strategy")
COST_MODELS: Registry[Any] = Registry("mcm_compiler.cost_models", "cost model")
MAPPINGS: Registry[Any] = Registry("mcm_compiler.mappings", "mapping of a family")
LEVELS: Registry[Any] = Registry("mcm_compiler.levels", "level")
PLACEMENT_COSTS: Registry[Any] = Registry("mcm_compiler.placement_costs", "placement cost")
PLACERS: Registry[Any] = Registry("mcm_compiler.placers", "placer")
STEP_BOUNDS: Registry[Any] = Registry("mcm_compiler.step_bounds", "bound of steps")
PLACER_LEVELS: Registry[Any] = Registry("mcm_compiler.placer_levels", "level of placing")
GRADIENT_RULES: Registry[Any] = Registry("mcm_compiler.gradient_rules", "gradient rule")
CHIP_KINDS: Registry[Any] = Registry("mcm_compiler.chip_kinds", "chip kind")
MAPPERS: Registry[Any] = Registry("mcm_compiler.mappers", "mapper")
MAPPING_MODELS: Registry[Any] = Registry("mcm_compiler.mapping_models", "mapping model")
TRAINERS: Registry[Any] = Registry("mcm_compiler.trainers", "trainer")
PLANNERS: Registry[Any] = Registry("mcm_compiler.planners", "planner")
SHARDING_RULES: Registry[Any] = Registry("mcm_compiler.sharding_rules", "sharding rule")
PROOF_CHECKERS: Registry[Any] = Registry("mcm_compiler.proof_checkers", "proof checker")
OBJECTIVE_PROOFS: Registry[Any] = Registry(
    "mcm_compiler.objective_proofs", "checker of bounds on objectives"
)
PROBLEM_MODELS: Registry[Any] = Registry("mcm_compiler.problem_models", "problem model")
ZOO: Registry[Any] = Registry("mcm_compiler.zoo", "zoo model")


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
        if is_no_fault(error):
            raise
        text = fault_text(error)
        # That it is one the message says already.
        text = text.removeprefix("ImportError: ").removeprefix("ModuleNotFoundError: ")
        raise CompileError(
            Diagnostic(
                "MCM-X003",
                f"{what} cannot be imported: {text}",
                at=origin,
                hint="reinstall or remove the distribution that registers it",
            )
        ) from error


_origins: dict[Any, str] = {}


def _origin(distribution: importlib.metadata.Distribution) -> str:
    """Name and version; a distribution's metadata are long and are parsed once."""
    place = getattr(distribution, "_path", distribution)
    if place not in _origins:
        _origins[place] = f"{distribution.name} {distribution.version}"
    return _origins[place]


_current_plugin: str | None = None


class _Loading:
    """The plug-in file that is being run.

    Attributes:
        added: what it has registered.
    """

    def __init__(self, path: Path) -> None:
        self.added: list[tuple[Registry[Any], str]] = []
        self._path = str(path)
        self._places: dict[tuple[str, str], str] = {}

    def take(self, registry: Registry[Any], name: str) -> None:
        """Notes the line that registers a name.

        Raises:
            CompileError: MCM-X001 if another line has.
        """
        lines = [f.lineno for f in traceback.extract_stack() if f.filename == self._path]
        place = f"{self._path}:{lines[-1]}" if lines else self._path
        other = self._places.setdefault((registry.group, name), place)
        if other != place:
            raise twice(registry.kind, name, other, place)


_loading: _Loading | None = None


def twice(kind: str, name: str, origin: str, other: str) -> CompileError:
    """MCM-X001 for a name that two origins register."""
    return CompileError(
        Diagnostic(
            "MCM-X001",
            f"two {kind} registrations are named '{name}'",
            at=f"{origin} and {other}",
            hint="rename one of them or uninstall its distribution",
        )
    )


def register_pass(cls: type[T]) -> type[T]:
    """Class decorator that registers a pass of this process, for one-file plug-ins."""
    return _by_its_name(PASSES, cls)


def register_cost_model(cls: type[T]) -> type[T]:
    """Class decorator that registers a cost model of this process, for one-file plug-ins."""
    return _by_its_name(COST_MODELS, cls)


def register_strategy(cls: type[T]) -> type[T]:
    """The same for a `PartitionStrategy`."""
    return _by_its_name(STRATEGIES, cls)


def register_level(level: T) -> T:
    """Registers a `Level` under its name; called with the level, which it returns."""
    return _by_name(LEVELS, cast("Any", level).name)(level)


def register_planner(cls: type[T]) -> type[T]:
    """The same for a `Planner`."""
    return _by_its_name(PLANNERS, cls)


def register_trainer(cls: type[T]) -> type[T]:
    """The same for a `Trainer`."""
    return _by_its_name(TRAINERS, cls)


def register_placement_cost(cls: type[T]) -> type[T]:
    """The same for a `PlacementCost`."""
    return _by_its_name(PLACEMENT_COSTS, cls)


def register_placer(cls: type[T]) -> type[T]:
    """The same for a `Placer`."""
    return _by_its_name(PLACERS, cls)


def register_chip_kind(cls: type[T]) -> type[T]:
    """The same for a `ChipKind`, which a description names as `chip.kind`."""
    return _by_its_name(CHIP_KINDS, cls)


def register_mapper(cls: type[T]) -> type[T]:
    """The same for a `Mapper`."""
    return _by_its_name(MAPPERS, cls)


def register_mapping_model(cls: type[T]) -> type[T]:
    """The same for a `MappingModel`."""
    return _by_its_name(MAPPING_MODELS, cls)


def register_zoo(cls: type[T]) -> type[T]:
    """The same for a `ModelBuilder`."""
    return _by_its_name(ZOO, cls)


def register_target(name: str) -> Callable[[T], T]:
    """Decorator that registers a function without arguments that gives a target or cluster."""
    return _by_name(TARGETS, name)


def register_target_family(name: str) -> Callable[[T], T]:
    """Decorator that registers a `TargetFamily`: `(name, text)` to a target or cluster."""
    return _by_name(TARGET_FAMILIES, name)


def register_mapping(name: str) -> Callable[[T], T]:
    """Registers the `FamilyMapping` of a family of machines; called with the mapping."""
    return _by_name(MAPPINGS, name)


def register_sharding_rule(name: str) -> Callable[[T], T]:
    """Registers the rule of an op such as `com.acme::Blend`: a function, or a text.

    For a text the decorator is called: `register_sharding_rule("com.acme::Blend")("n c -> n c")`.
    """
    return _by_name(SHARDING_RULES, name)


def register_placer_level(level: T) -> T:
    """Registers a `PlacerLevel` under its name; called with the level, which it returns."""
    return _by_name(PLACER_LEVELS, cast("Any", level).name)(level)


def register_step_bound(name: str) -> Callable[[T], T]:
    """Registers a `mcm_compiler.contracts.boxes.bounds.BoundStep`: a function."""
    return _by_name(STEP_BOUNDS, name)


def register_gradient_rule(name: str) -> Callable[[T], T]:
    """Registers the `GradientRule` of an op such as `com.acme::Blend`."""
    return _by_name(GRADIENT_RULES, name)


def register_objective_proof(name: str) -> Callable[[T], T]:
    """Registers an `ObjectiveChecker` by the name of its kind of proof; called with the checker."""
    return _by_name(OBJECTIVE_PROOFS, name)


def register_proof_checker(name: str) -> Callable[[T], T]:
    """Registers a `ProofChecker` by the name of its kind of proof; called with the checker."""
    return _by_name(PROOF_CHECKERS, name)


def register_problem_model(name: str) -> Callable[[T], T]:
    """Registers a `ProblemModel`; called with the model."""
    return _by_name(PROBLEM_MODELS, name)


def _by_its_name(registry: Registry[Any], cls: type[T]) -> type[T]:
    return _by_name(registry, cast("Any", cls).name)(cls)


def _by_name(registry: Registry[Any], name: str) -> Callable[[T], T]:
    def register(component: T) -> T:
        module = str(getattr(component, "__module__", "this process"))
        # A file may be installed and have its decorators: the entry point has led here, then.
        if not registry.is_entry_of(name, module):
            registry.add(name, component, _current_plugin or module)
        return component

    return register


def load_plugin(path: Path) -> None:
    """Runs a one-file plug-in, whose decorators register its components; once per process.

    Raises:
        CompileError: MCM-X004 if the file is missing or fails while it is imported, MCM-X001 for
            a name that is taken. Nothing of it stays registered then.
    """
    global _current_plugin, _loading
    # Two files of one name are two modules; type hints are resolved in theirs.
    name = f"mcm_plugin_{path.stem}_{zlib.crc32(str(path.resolve()).encode()):08x}"
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise CompileError(
            Diagnostic("MCM-X004", "the plug-in file does not exist or is not Python", at=str(path))
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    _current_plugin, _loading = str(path), _Loading(path)
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        for registry, added in _loading.added:
            registry.remove(added)
        if is_no_fault(error):
            raise
        raise CompileError(
            Diagnostic("MCM-X004", f"the plug-in fails: {fault_text(error)}", at=str(path))
        ) from error
    finally:
        _current_plugin = _loading = None
