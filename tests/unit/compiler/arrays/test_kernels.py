"""Tests of ways to compile a kernel: who may call what."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from numba.core.errors import TypingError

from mcm_compiler.arrays.kernels import (
    entry_njit,
    inlined_njit,
    inner_njit,
    lean_inner_njit,
    lean_njit,
)

INNER = (inner_njit, lean_inner_njit, inlined_njit)


def _sum(values: Any) -> float:
    total = 0.0
    for k in range(len(values)):
        total += values[k]
    return total


@pytest.mark.parametrize("compiling", [entry_njit, lean_njit])
def test_python_calls_what_is_for_it(compiling: Any):
    assert compiling(_sum)(np.array([1.0, 2.5])) == 3.5


@pytest.mark.parametrize("compiling", INNER)
def test_kernels_call_inner_ones_and_python_is_refused(compiling: Any):
    inner = compiling(_sum)

    @entry_njit
    def twice(values: Any) -> float:
        return 2.0 * inner(values)

    values = np.array([1.0, 2.5])
    with pytest.raises(TypeError, match="_sum is called by kernels only"):
        inner(values)
    assert twice(values) == 7.0
    # What has been compiled by now has no way in for Python: numba would follow it to nowhere.
    for given in (values, values.astype(np.float32), values[::2]):
        with pytest.raises(TypeError, match="_sum is called by kernels only"):
            inner(given)


@pytest.mark.parametrize("compiling", [lean_njit, lean_inner_njit, inlined_njit])
def test_lean_kernels_make_no_arrays(compiling: Any):
    @compiling
    def makes_one(size: int) -> Any:
        return np.zeros(size)

    @entry_njit
    def calls_it(size: int) -> Any:
        return makes_one(size)

    with pytest.raises(TypingError, match="zeros"):
        calls_it(3)


def test_a_kernel_is_compiled_once_for_integers_of_any_size_and_constants():
    @inner_njit
    def plus(value: int, more: int, wanted: bool) -> int:
        return value + more if wanted else value

    @entry_njit
    def calls_it(values: Any) -> int:
        return plus(values[0], 1, True) + plus(2, values[1], False) + plus(values.size, 3, True)

    assert calls_it(np.array([2**31 - 1, 5], np.int32)) == 2**31 + 2 + 5
    assert len(cast("Any", plus).overloads) == 1


@pytest.mark.parametrize("compiling", INNER)
def test_what_only_kernels_call_is_no_machine_code_of_its_own(compiling: Any):
    inner = compiling(_sum)

    @entry_njit
    def calls_it(values: Any) -> float:
        return inner(values)

    assert calls_it(np.array([1.0, 2.5])) == 3.5
    for kernel, own in ((inner, False), (calls_it, True)):
        (compiled,) = cast("Any", kernel).overloads.values()
        assert bool(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)) is own


def test_a_kernel_that_calls_itself():
    @inner_njit
    def halvings(value: int) -> int:
        return 0 if value < 2 else 1 + halvings(value // 2)

    @entry_njit
    def calls_it(value: int) -> int:
        return halvings(value) + halvings(value + 1)

    assert calls_it(1 << 20) == 40
