"""Machine code that was kept on disk, loaded without what only compiling needs.

numba prepares to compile whenever it loads kept code. It imports all that it can compile, SciPy's
linear algebra included. It parses the code's intermediate form, which only new kernels that call
the kept one need. That takes longer than a small model's searches. Here the modules are left to the
compiler, and the intermediate form is parsed when it is asked for.
"""

from __future__ import annotations

import io
import pickle
from typing import Any, cast

from llvmlite import binding
from numba.core import codegen
from numba.core.caching import CompileResultCacheImpl
from numba.core.compiler import CompileResult
from numba.core.environment import Environment, lookup_environment


def machine_code(kept: bytes) -> Any:
    """Reads what numba made of one signature of a kernel.

    Args:
        kept: bytes of this installation's own cache. They are executed.
    """
    return _Unpickler(io.BytesIO(kept)).load()


class _Unpickler(pickle.Unpickler):
    """Leaves the modules alone that helper functions of numba were defined in."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        if (module_name, global_name) == ("numba.core.environment", "_rebuild_env"):
            return _environment
        return super().find_class(module_name, global_name)


def _environment(module: str, constants: list[Any], name: str) -> Any:
    """The Python objects that machine code refers to.

    Globals are read by code in numba's object mode alone, and no kernel has such code.
    """
    found: Any = lookup_environment(name)
    if found is None:
        found = Environment({"__name__": module})
        found.consts[:] = constants
        found.env_name = name
        cast("Any", Environment)._memo[name] = found
    return found


class KeptResults(CompileResultCacheImpl):
    """How compiled kernels become bytes, and bytes kernels."""

    def reduce(self, cres: Any) -> tuple[Any, ...]:
        """Takes a kernel apart: whether Python can call it, and numba's parts."""
        engine = cres.library.codegen._engine
        callable_here = engine.is_symbol_defined(cres.fndesc.llvm_cpython_wrapper_name)
        return (callable_here, *cast("Any", super()).reduce(cres))

    def rebuild(self, target_context: Any, payload: tuple[Any, ...]) -> Any:
        """A kernel of what `reduce` made and `machine_code` read."""
        callable_here, (name, form, code), described, *others = payload
        if form != "object":
            raise ValueError(f"a kernel is kept as {form}, not as an object")
        library: Any = _KeptLibrary(target_context.codegen(), name)
        library.take(*code)
        if callable_here:
            engine = library.codegen._engine
            engine._defined_symbols.add(described.llvm_cpython_wrapper_name)
        given = _Context(target_context, library)
        return cast("Any", CompileResult)._rebuild(given, None, described, *others)


class _Context:
    """A target context with a library that is loaded already."""

    def __init__(self, context: Any, library: Any) -> None:
        self._context, self._library = context, library

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def codegen(self) -> Any:
        return self

    def unserialize_library(self, _nothing: None) -> Any:
        return self._library


class _KeptLibrary(codegen.JITCodeLibrary):
    """Machine code with an intermediate form that is parsed when others link it."""

    def take(self, machine: bytes, intermediate: bytes) -> None:
        """Takes over both forms of the code."""
        library = cast("Any", self)
        self._intermediate = intermediate
        self.enable_object_caching()
        library._set_compiled_object(machine)
        library._finalize_final_module()

    def _get_module_for_linking(self) -> Any:
        library = cast("Any", self)
        if library._shared_module is None:
            library._shared_module = binding.parse_bitcode(self._intermediate)
            library.codegen._engine._load_defined_symbols(library._shared_module)
        return library._shared_module
