"""Files that numba keeps of a kernel, for processes that compile side by side.

numba's own cache numbers the files of a function. Two processes that compile it at the same time
for two kinds of arguments both take the next number, and what is read later under one key may be
the machine code of the other. It knows functions by their source alone: one that is compiled in two
ways, once with a way in for Python and once without, has both under one key. And it looks at their
own file alone, and takes what it finds although a kernel that they call, or a constant, has changed
in another file. All of this ends in crashes, or in wrong numbers.

Here the key holds the way of compiling and the content of all kernels that take part, each key has
a file of its own, and a file is whole before the index names it. What is lost where two processes
write the index at the same time is compiled again.

Machine code that was kept on disk, loaded without what only compiling needs.

numba imports all that it can compile when it loads kept code, SciPy's linear algebra included.
That takes longer than a small model's searches. Here these modules are left to the compiler.

The machine code of a kernel depends on its own code, and on all that it finds by name. numba makes
constants of the globals of a kernel, and calls or takes in the kernels among them. So machine code
is out of date when a constant changes, or a kernel of another file.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Iterator
from glob import escape
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, cast

import numba
import numpy as np
from numba.core import caching
from numba.core.dispatcher import Dispatcher
from numba.core.environment import Environment, lookup_environment
from numba.core.runtime.nrt import rtsys

from mcm_compiler.processes.kernel_archive import kernel_state, member_of
from mcm_compiler.processes.kernel_folders import KernelLocator

_PLAIN = (bool, int, float, complex, str, bytes, type(None))


class KernelContents:
    """Digests of kernels, each worked out once.

    What a kernel finds by name is looked up when it is first asked about: later than it is
    defined, as it may call what stands below it.
    """

    def __init__(self) -> None:
        self._own: dict[FunctionType, tuple[bytes, tuple[FunctionType, ...]]] = {}
        self._whole: dict[FunctionType, str] = {}

    def digest(self, function: FunctionType) -> str:
        """Of a kernel and all kernels that it leads to, in hex.

        Args:
            function: as it was before numba.
        """
        if function not in self._whole:
            # In the order that they are come to in: kernels may call each other in circles.
            reached = {function: None}
            ahead = [function]
            while ahead:
                for called in self._facts(ahead.pop())[1]:
                    if called not in reached:
                        reached[called] = None
                        ahead.append(called)
            parts = b"".join(self._facts(each)[0] for each in reached)
            self._whole[function] = hashlib.sha256(parts).hexdigest()
        return self._whole[function]

    def _facts(self, function: FunctionType) -> tuple[bytes, tuple[FunctionType, ...]]:
        """Digest of its own code and constants, and the kernels that it calls."""
        if function not in self._own:
            facts: list[object] = []
            called: list[FunctionType] = []
            for code in _codes(function.__code__):
                constants = [each for each in code.co_consts if not isinstance(each, CodeType)]
                facts.append((code.co_code, code.co_varnames, code.co_names, repr(constants)))
            for name, value in _found(function):
                if isinstance(value, Dispatcher):
                    called.append(cast("Any", value).py_func)
                facts.append((name, _described(value)))
            described = repr(facts).encode()
            self._own[function] = hashlib.sha256(described).digest(), tuple(called)
        return self._own[function]


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and those in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _found(function: FunctionType) -> Iterator[tuple[str, object]]:
    """Objects that a function finds by name, and in what is around it."""
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    for name in sorted(names & function.__globals__.keys()):
        yield name, function.__globals__[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, cell.cell_contents


def _described(value: object) -> str:
    """A constant as text that is the same in every process; of others no more than the type."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, tuple):
        return f"{type(value).__qualname__}({', '.join(_described(each) for each in value)})"
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, np.generic):
        return repr(value)
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}{getattr(value, '_fields', '')}"
    return type(value).__qualname__


def field_names(numba_type: Any) -> str:
    """The fields of the named tuples in a type of numba, whose own names leave them out.

    Two fields of one kind that change places would be taken for each other.
    """
    fields = getattr(numba_type, "fields", None)
    inner = getattr(numba_type, "types", ())
    names = "".join(field_names(each) for each in inner) if isinstance(inner, tuple) else ""
    return f"{fields}{names}" if isinstance(fields, tuple) else names


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


_DIGITS = 16

_FORM = "2"
"""Of what is kept of a kernel; another form is compiled again."""

_contents = KernelContents()


def kept_version() -> str:
    """First record of an index file: numba's version and the form of the kept code."""
    return f"{numba.__version__}-{_FORM}"


class _Results(caching.CompileResultCacheImpl):
    _locator_classes = (KernelLocator,)


class KernelCache(caching.FunctionCache):
    """A function's cache: machine code that came with a wheel, else what was compiled before.

    Args:
        function: the kernel as Python has it.
        way: the way in which it is compiled; another way is another key.
    """

    _impl_class = _Results

    def __init__(self, function: FunctionType, way: str) -> None:
        super().__init__(function)
        self._function, self._way = function, way
        impl = cast("Any", self)._impl
        stamp = impl.locator.get_source_stamp()
        self._member = member_of(function.__module__, impl.filename_base, stamp)
        self._cache_file = KernelFiles(self.cache_path, impl.filename_base, stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Machine code for a signature; None where there is none.

        Unlike numba it does not fill the contexts of the target first, which only compiling needs.
        """
        plain: Any = self
        rtsys.initialize(target_context)
        with plain._guard_against_spurious_io_errors():
            key = self._index_key(sig, target_context.codegen())
            archive = kernel_state().archive
            kept = None if archive is None else archive.kernel(self._member, key)
            data = plain._cache_file.load(key) if kept is None else machine_code(kept)
            return None if data is None else plain._impl.rebuild(target_context, data)
        return None

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        plain: Any = super()
        fields = "".join(map(field_names, getattr(sig, "args", sig)))
        content = _contents.digest(self._function)
        return (*plain._index_key(sig, codegen), self._way, (content, fields))


class KernelFiles(caching.IndexDataCacheFile):
    """A function's files: an index, and machine code by key.

    Args:
        cache_path: folder.
        filename_base: what the names of the files begin with.
        source_stamp: differs between states of the source file.
    """

    def __init__(self, cache_path: str, filename_base: str, source_stamp: object) -> None:
        numba: Any = super()
        numba.__init__(cache_path, filename_base, source_stamp)
        self._version = kept_version()
        self._folder = Path(cache_path)
        self._base = filename_base
        self._stamp = source_stamp

    def save(self, key: Any, data: Any) -> None:
        """Keeps machine code.

        Args:
            key: as `KernelCache` makes them.
            data: what numba makes of a compiled function to be kept.
        """
        numba = cast("Any", self)
        name = self._name_of(key)
        numba._save_data(name, data)
        found: dict[Any, str] = numba._load_index()
        outdated = not found and (self._folder / f"{self._base}.nbi").exists()
        kept = {other: of for other, of in found.items() if not _replaces(key, other)} | {key: name}
        numba._save_index(kept)
        if outdated:
            self._remove_all_but(name)
        for replaced in set(found.values()) - set(kept.values()):
            (self._folder / replaced).unlink(missing_ok=True)

    def _load_index(self) -> dict[Any, str]:
        """The names by key; none where a type in a key has moved to another module since."""
        try:
            return cast("Any", super())._load_index()
        except (ImportError, AttributeError):
            return {}

    def _load_data(self, name: str) -> Any:
        return machine_code((self._folder / name).read_bytes())

    def _name_of(self, key: Any) -> str:
        """One name for a key and a state of the source.

        Types of functions hold addresses: their names differ between processes, which harms
        nothing, since names are read from the index.
        """
        digest = hashlib.sha256(repr((self._stamp, key)).encode()).hexdigest()[:_DIGITS]
        return f"{self._base}.{digest}.nbc"

    def _remove_all_but(self, name: str) -> None:
        """Removes what another state of the source, or another numba, has left.

        Where that was not stale after all, since a process has written it just now, it is compiled
        again.
        """
        for path in self._folder.glob(f"{escape(self._base)}.*.nbc"):
            if path.name != name:
                path.unlink(missing_ok=True)


def _replaces(key: Any, other: Any) -> bool:
    """Return whether another key is what this one was before something changed, or this one itself.

    All but the content is the same: types of arguments, processor, what is around the function and
    the way of compiling, which a key of numba's own cache has none of.
    """
    (_, around), (_, others_around) = key[2], other[2]
    same_way = len(other) == 3 or key[3] == other[3]
    return key[:2] == other[:2] and around == others_around and same_way
