"""Libraries that others import for what few models need, loaded when they are first looked into.

`onnx_ir` imports sympy, a third of a second, for arithmetic on symbolic dimensions; compiling a
model of fixed shapes has none. numba imports yaml for a file of settings that few have. All stay
ordinary modules to their users: an attribute read loads them (`importlib.util.LazyLoader`).

numba is loaded as if there were no scipy, whose version it looks at, and no coverage, whose tracer
it makes a class of; both can be imported as ever afterwards.

`import mcm_compiler` leaves the finders of the process alone: the console script has one for its
whole life, the Python API one while `onnx_ir` is imported.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import cast

# The second fills a table with functions of the first as soon as it is loaded.
LAZY_LIBRARIES = ("sympy", "onnx_ir._symbolic_shapes", "yaml")
"""Full names of modules; one that is not there, or is loaded already, is let be."""

_HIDDEN_FROM_NUMBA = ("coverage", "scipy")


class _NumbaLoader(Loader):
    """Executes numba where what it does without, and is not loaded yet, cannot be imported."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__loader__ = module.__spec__.loader = self._loader
        hidden = [name for name in _HIDDEN_FROM_NUMBA if name not in sys.modules]
        modules = cast("dict[str, ModuleType | None]", sys.modules)
        modules.update(dict.fromkeys(hidden))
        try:
            self._loader.exec_module(module)
        finally:
            for name in hidden:
                del modules[name]


class _LazyFinder:
    """Finds modules of given names, to be executed at the first attribute read."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = frozenset(names)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The lazy specification of a named module; None leaves others to later finders."""
        if fullname not in self._names and fullname != "numba":
            return None
        found = PathFinder.find_spec(fullname, path, target)
        # A module without code to execute, such as a namespace, has nothing to put off.
        if found is None or not hasattr(found.loader, "exec_module") or found.origin is None:
            return None
        assert found.loader is not None
        made = _NumbaLoader if fullname == "numba" else importlib.util.LazyLoader
        found.loader = made(found.loader)
        return found


def load_lazily(names: Sequence[str] = LAZY_LIBRARIES) -> None:
    """Has modules that are imported from now on execute when they are first looked into."""
    sys.meta_path.insert(0, _LazyFinder(names))


@contextmanager
def loading_lazily(names: Sequence[str] = LAZY_LIBRARIES) -> Generator[None]:
    """As `load_lazily`, for imports within the block alone."""
    finder = _LazyFinder(names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
