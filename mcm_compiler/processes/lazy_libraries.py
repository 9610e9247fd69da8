"""Libraries that others import for what few models need, loaded when they are first looked into.

`onnx_ir` imports sympy, a third of a second, for arithmetic on symbolic dimensions; compiling a
model of fixed shapes has none. numba imports yaml for a file of settings that few have, and
coverage, where it is installed, for what it compiles. All stay ordinary modules to their users: an
attribute read loads them (`importlib.util.LazyLoader`).

`import mcm_compiler` leaves the finders of the process alone: the console script has one for its
whole life, the Python API one while `onnx_ir` is imported.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

# The second fills a table with functions of the first as soon as it is loaded.
LAZY_LIBRARIES = ("sympy", "onnx_ir._symbolic_shapes", "yaml", "coverage")
"""Full names of modules; one that is not there, or is loaded already, is let be."""


class _LazyFinder:
    """Finds modules of given names, to be executed at the first attribute read."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = frozenset(names)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The lazy specification of a named module; None leaves others to later finders."""
        if fullname not in self._names:
            return None
        found = PathFinder.find_spec(fullname, path, target)
        # A module without code to execute, such as a namespace, has nothing to put off.
        if found is None or not hasattr(found.loader, "exec_module") or found.origin is None:
            return None
        assert found.loader is not None
        found.loader = importlib.util.LazyLoader(found.loader)
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
