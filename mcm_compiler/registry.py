"""Registries of pluggable components, found through entry points.

The core imports no component. Built-in passes, targets, strategies, cost models and zoo models
are found through the same entry points as a stranger's plug-in, and loaded only when asked for.
"""

from __future__ import annotations

import difflib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from mcm_compiler.diagnostics import CompileError, Diagnostic

T = TypeVar("T")


@dataclass(frozen=True)
class Registration(Generic[T]):
    """One named component.

    Attributes:
        name: as the user types it.
        origin: the distribution or file it comes from.
        load: imports and returns it.
    """

    name: str
    origin: str
    load: Callable[[], T]


class Registry(Generic[T]):
    """Components of one kind by name.

    Args:
        group: the entry-point group, such as `mcm_compiler.passes`.
        kind: the word for messages, such as `pass`.
        more: gives components that no entry point names, once they are asked for.
    """

    def __init__(
        self,
        group: str,
        kind: str,
        more: Callable[[], Iterable[Registration[T]]] = tuple[Registration[T], ...],
    ) -> None:
        self.group = group
        self.kind = kind
        self._more = more
        self._registered: dict[str, Registration[T]] = {}
        self._scanned = False

    def add(self, name: str, component: T, origin: str) -> None:
        """Registers a component of this process (a one-file plug-in, a test).

        Raises:
            CompileError: MCM-X001 if the name is taken by another origin.
        """
        self._scan()
        self._insert(Registration(name, origin, lambda: component))

    def remove(self, name: str) -> None:
        """Takes a component out again; a name that is not registered is ignored."""
        self._registered.pop(name, None)

    def registrations(self) -> list[Registration[T]]:
        """All registrations, sorted by name; nothing is imported."""
        self._scan()
        return [self._registered[name] for name in sorted(self._registered)]

    def get(self, name: str) -> T:
        """Loads the component `name`.

        Raises:
            CompileError: MCM-U003 for an unknown name (with the nearest ones), MCM-X003 if its
                module cannot be imported.
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
                    hint=hint or f"take a known one, or install the plug-in that has '{name}'",
                )
            )
        try:
            return registration.load()
        except ImportError as error:
            raise CompileError(
                Diagnostic(
                    "MCM-X003",
                    f"{self.kind} '{name}' cannot be imported: {error}",
                    at=registration.origin,
                    hint="reinstall or remove the distribution that registers it",
                )
            ) from error

    def _scan(self) -> None:
        if self._scanned:
            return
        for entry in importlib.metadata.entry_points(group=self.group):
            origin = f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.value
            self._insert(Registration(entry.name, origin, cast("Callable[[], T]", entry.load)))
        for registration in self._more():
            self._insert(registration)
        # Only now: a name that is taken twice is a fault of every look, not of the first alone.
        self._scanned = True

    def _insert(self, registration: Registration[T]) -> None:
        other = self._registered.get(registration.name)
        # An editable install next to a built one lists the same distribution twice.
        if other is not None and other.origin != registration.origin:
            raise CompileError(
                Diagnostic(
                    "MCM-X001",
                    f"two {self.kind} registrations are named '{registration.name}'",
                    at=f"{other.origin} and {registration.origin}",
                    hint="rename one of them or uninstall its distribution",
                )
            )
        self._registered[registration.name] = registration


def _stock_passes() -> Iterable[Registration[Any]]:
    from mcm_compiler.stock_passes import stock_registrations

    return stock_registrations()


PASSES: Registry[Any] = Registry("mcm_compiler.passes", "pass", _stock_passes)
TARGETS: Registry[Any] = Registry("mcm_compiler.targets", "target")
TARGET_FAMILIES: Registry[Any] = Registry("mcm_compiler.target_families", "target family")
STRATEGIES: Registry[Any] = Registry("mcm_compiler.partition_strategies", "partition strategy")
COST_MODELS: Registry[Any] = Registry("mcm_compiler.cost_models", "cost model")
PLACEMENT_COSTS: Registry[Any] = Registry("mcm_compiler.placement_costs", "placement cost")
TRAINERS: Registry[Any] = Registry("mcm_compiler.trainers", "trainer")
PLANNERS: Registry[Any] = Registry("mcm_compiler.planners", "planner")
SHARDING_RULES: Registry[Any] = Registry("mcm_compiler.sharding_rules", "sharding rule")
PROOF_CHECKERS: Registry[Any] = Registry("mcm_compiler.proof_checkers", "proof checker")
PROBLEM_MODELS: Registry[Any] = Registry("mcm_compiler.problem_models", "problem model")
ZOO: Registry[Any] = Registry("mcm_compiler.zoo", "zoo model")

_current_plugin: str | None = None


def register_pass(cls: type[T]) -> type[T]:
    """Class decorator that registers a pass of this process, for one-file plug-ins."""
    PASSES.add(cast("Any", cls).name, cls, _current_plugin or cls.__module__)
    return cls


def load_plugin(path: Path) -> None:
    """Runs a one-file plug-in, whose decorators register its components.

    Raises:
        CompileError: MCM-X004 if the file is missing or fails while it is imported.
    """
    global _current_plugin
    name = f"mcm_plugin_{path.stem}"
    if name in sys.modules and getattr(sys.modules[name], "__file__", None) == str(path):
        return
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise CompileError(
            Diagnostic("MCM-X004", "the plug-in file does not exist or is not Python", at=str(path))
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    _current_plugin = str(path)
    try:
        spec.loader.exec_module(module)
    except CompileError:
        del sys.modules[name]
        raise
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise CompileError(
            Diagnostic(
                "MCM-X004", f"the plug-in fails: {type(error).__name__}: {error}", at=str(path)
            )
        ) from error
    finally:
        _current_plugin = None
