"""Inputs of a kernel's machine code: its own code, and all that it finds by name.

numba makes constants of the globals of a kernel, and calls or takes in the kernels among them. So
machine code is out of date when a constant changes, or a kernel of another file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any, cast

import numpy as np
from numba.core.dispatcher import Dispatcher

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
                facts.append((name, _told(value)))
            told = repr(facts).encode()
            self._own[function] = hashlib.sha256(told).digest(), tuple(called)
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


def _told(value: object) -> str:
    """A constant as text that is the same in every process; of others no more than the type."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, tuple):
        return f"{type(value).__qualname__}({', '.join(_told(each) for each in value)})"
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, np.generic):
        return repr(value)
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}{getattr(value, '_fields', '')}"
    return type(value).__qualname__


def fields_told(numba_type: Any) -> str:
    """The fields of the named tuples in a type of numba, whose own names leave them out.

    Two fields of one kind that change places would be taken for each other.
    """
    fields = getattr(numba_type, "fields", None)
    inner = getattr(numba_type, "types", ())
    told = "".join(fields_told(each) for each in inner) if isinstance(inner, tuple) else ""
    return f"{fields}{told}" if isinstance(fields, tuple) else told
