"""The numba target that kernels are compiled for, which leaves numba's own settings alone.

Machine code is for a processor level that many machines share, so that the cache of one machine and
the kernels of a wheel fit another. Typing and lowering have contexts of their own: code that a
program compiles with numba is neither affected nor used. A kernel from the cache is linked without
them, which saves the fourth part of a second that filling them takes.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import Any, NoReturn, cast

from llvmlite import binding as llvm
from numba import jit, types
from numba.core import codegen, cpu, externals
from numba.core.caching import NullCache
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher, CPUTarget
from numba.core.target_extension import (
    CPU,
    dispatcher_registry,
    jit_registry,
    target_override,
    target_registry,
)
from numba.core.typing.context import Context
from numba.core.utils import threadsafe_cached_property

from mcm_compiler.arrays.kernel_cache import KernelCache
from mcm_compiler.processes.kernel_archive import common_level

TARGET = "mcmc"


_WRAPPER = "_ZN7cpython"
"""Begins the names of functions that Python calls."""

_SELF = codegen.RuntimeLinker.PREFIX
"""Begins the names of pointers to functions that call themselves."""


class KernelLibrary(codegen.JITCodeLibrary):
    """Machine code of a kernel; its bitcode, which callers link, is parsed when one is compiled.

    What only kernels call becomes machine code as part of each caller that Python calls, and is
    optimised there. A kernel that calls itself has its own, which such a call looks for.
    """

    _bitcode: bytes | None = None
    _is_part = False

    def finalize(self) -> None:
        """Adds what it calls, and makes machine code where it is no part of others."""
        numba: Any = self
        own = numba._final_module
        self._is_part = numba._object_caching_enabled and not (
            any(each.name.startswith(_WRAPPER) for each in own.functions)
            or any(each.name.startswith(_SELF) for each in own.global_variables)
        )
        cast("Any", super()).finalize()

    def _optimize_final_module(self) -> None:
        if not self._is_part:
            cast("Any", super())._optimize_final_module()

    def _finalize_final_module(self) -> None:
        numba: Any = self
        if not self._is_part:
            cast("Any", super())._finalize_final_module()
            return
        numba._finalize_dynamic_globals()
        numba._verify_declare_only_symbols()
        numba._compiled_object = b""
        numba._finalized = True

    def serialize_using_object_code(self) -> Any:
        """The plain form, and the names of the symbols that are defined in it."""
        name, kind, (machine_code, bitcode) = cast("Any", super()).serialize_using_object_code()
        module: Any = self._get_module_for_linking()
        symbols = [
            each.name
            for found in (module.functions, module.global_variables)
            for each in found
            if not each.is_declaration
        ]
        return name, kind, (machine_code, bitcode, symbols)

    @classmethod
    def _unserialize(cls, codegen: Any, state: Any) -> KernelLibrary:
        name, _, (machine_code, bitcode, symbols) = state
        library: Any = codegen.create_library(name)
        library.enable_object_caching()
        library._bitcode = bitcode
        if machine_code:
            library._set_compiled_object(machine_code)
            cast("Any", super(KernelLibrary, library))._finalize_final_module()
            codegen._engine._defined_symbols.update(symbols)
        library._finalized = True
        return library

    def _get_module_for_linking(self) -> Any:
        if self._bitcode is not None:
            self._shared_module, self._bitcode = llvm.parse_bitcode(self._bitcode), None
        return cast("Any", super())._get_module_for_linking()


class KernelCodegen(codegen.JITCPUCodegen):
    """Code for the common level of processors, for this processor where it has none."""

    _library_class = KernelLibrary

    def set_env(self, env_name: str, env: Any) -> None:
        """Has machine code find its environment, where there is machine code."""
        if cast("Any", self)._engine.is_symbol_defined(env_name):
            cast("Any", super()).set_env(env_name, env)

    def _get_host_cpu_name(self) -> str:
        return common_level() or cast("Any", super())._get_host_cpu_name()

    def _get_host_cpu_features(self) -> str:
        return "" if common_level() else cast("Any", super())._get_host_cpu_features()


class KernelTyping(Context):
    """The context that the types in kernels are inferred in."""

    def resolve_value_type(self, val: Any) -> Any:
        """The type of a global; a function that numba has for its own target is made for ours."""
        if isinstance(val, CPUDispatcher) and not isinstance(val, KernelDispatcher):
            val = _of_this_target(val)
        return cast("Any", super()).resolve_value_type(val)


class KernelContext(cpu.CPUContext):
    """The context that kernels are lowered in."""

    @global_compiler_lock
    def init(self) -> None:
        """As that of numba's own processor target, with another code generator."""
        self.is32bit = sys.maxsize < 1 << 32
        self._internal_codegen = KernelCodegen("mcm_compiler")
        externals.c_math_functions.install(self)


@functools.cache
def _of_this_target(dispatcher: Any) -> KernelDispatcher:
    make: Any = KernelDispatcher
    return make(dispatcher.py_func, targetoptions=dispatcher.targetoptions)


class KernelTarget(CPUTarget):
    """Contexts of the target, made when the first kernel is defined."""

    @threadsafe_cached_property
    def _toplevel_typing_context(self) -> KernelTyping:
        return KernelTyping()

    @threadsafe_cached_property
    def _toplevel_target_context(self) -> KernelContext:
        return KernelContext(self.typing_context, TARGET)


class Kernels(CPU):
    """The target in numba's registry, where overloads of functions are for all of its kind."""


class KernelDispatcher(CPUDispatcher):
    """A function of the target: kernels, and what numba has them call."""

    targetdescr = KernelTarget(TARGET)

    def compile(self, sig: Any) -> Any:
        """The function for a signature."""
        # While methods of arrays are lowered numba knows the target by this alone.
        with target_override(TARGET):
            return cast("Any", super()).compile(sig)


class Kernel(KernelDispatcher):
    """A kernel: read from the cache, or compiled and kept, for each signature.

    A kernel that calls it with a constant or a small integer calls what other integers call.
    """

    kept = True

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """The types of a call from a kernel."""
        widened = [_widened(each) for each in args]
        named = {name: _widened(each) for name, each in kws.items()}
        return cast("Any", super()).get_call_template(widened, named)

    def compile(self, sig: Any) -> Any:
        """The function for a signature; its cache is looked for at the first one."""
        numba: Any = self
        if self.kept and isinstance(numba._cache, NullCache):
            way = repr(sorted(numba.targetoptions.items()))
            # A function that was typed at a prompt has no file to keep its code next to.
            with contextlib.suppress(RuntimeError):
                numba._cache = KernelCache(numba.py_func, way)
        return super().compile(sig)


def _widened(kind: Any) -> Any:
    plain = types.unliteral(kind)
    return types.int64 if plain in types.signed_domain else plain


class InnerKernel(Kernel):
    """A kernel without the wrapper for Python.

    numba would follow a pointer to nothing where Python calls it: compiled code is kept out of the
    table that such calls are looked up in, and the fallback of that table refuses.
    """

    def add_overload(self, cres: Any) -> None:
        """Records compiled code for callers that are kernels."""
        cast("Any", self).overloads[tuple(cres.signature.args)] = cres

    def _compile_for_args(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(f"{cast('Any', self).py_func.__qualname__} is called by kernels only")


class InlinedKernel(InnerKernel):
    """A kernel that is part of its callers; it has no code of its own to keep."""

    kept = False


target_registry[TARGET] = Kernels
dispatcher_registry[Kernels] = KernelDispatcher
jit_registry[Kernels] = functools.partial(cast("Any", jit), _target=TARGET)
