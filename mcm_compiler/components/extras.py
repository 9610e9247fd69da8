"""Extras of pip: what only some components need, and whether it is installed.

A component that needs one says so by `NeedsExtra`. Whoever runs it asks here before any work is
done, so that nobody meets an `ImportError`.
"""

from __future__ import annotations

import importlib.util
from typing import Any

from mcm_compiler.contracts.described import NeedsExtra
from mcm_compiler.diagnostics import CompileError

LEARN = "learn"
"""The extra of all that learns."""

MODULES = {LEARN: ("jax", "optax")}
"""Import names of what each extra installs."""


def extra_of(component: Any) -> str:
    """The extra that a component needs, a class or an instance; empty where it needs none."""
    return component.extra if isinstance(component, NeedsExtra) else ""


def missing_modules(extra: str) -> tuple[str, ...]:
    """Modules of an extra that cannot be imported; an extra of a plug-in is not ours to know."""
    return tuple(name for name in MODULES.get(extra, ()) if not _is_there(name))


def install_command(extra: str) -> str:
    """Command that installs an extra."""
    return f'pip install "mcm-compiler[{extra}]"'


def require_learning(who: str, at: str, instead: str) -> None:
    """Makes sure that what learns can be imported.

    Args:
        who: what needs it, such as `strategy 'rl'`.
        at: the place for the diagnostic.
        instead: what works without.

    Raises:
        CompileError: MCM-L012 if it cannot.
    """
    if missing := missing_modules(LEARN):
        raise CompileError.of(
            "MCM-L012",
            f"{who} learns, and {_listed(missing)} missing",
            at=at,
            hint=f"{install_command(LEARN)}, or {instead}",
        )


def _is_there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        # Import hooks may refuse a name, and a module that is half there has no specification.
        return False


def _listed(names: tuple[str, ...]) -> str:
    *first, last = names
    if not first:
        return f"{last} is"
    return f"{', '.join(first)} and {last} are"
