"""Digests of kernels: what they tell apart."""

from __future__ import annotations

from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types

from mcm_compiler.arrays.kernel_cache import KernelContents, field_names


def _made(source: str, **around: Any) -> FunctionType:
    names: dict[str, Any] = dict(around)
    exec(compile(source, "kernel.py", "exec"), names)
    return names["made"]


def _digest(source: str, **around: Any) -> str:
    return KernelContents().digest(_made(source, **around))


PLAIN = "def made(x):\n    return x + STEP\n"


def test_code_and_constants_are_told_apart():
    found = [
        _digest(PLAIN, STEP=1),
        _digest(PLAIN, STEP=1.0),
        _digest(PLAIN, STEP=2),
        _digest(PLAIN, STEP=(1, 2)),
        _digest(PLAIN, STEP=np.array([1, 2])),
        _digest(PLAIN, STEP=np.array([1, 3])),
        _digest(PLAIN, STEP=np.float32(1)),
        _digest(PLAIN.replace("x + STEP", "x - STEP"), STEP=1),
        _digest(PLAIN.replace("STEP", "1")),
        _digest(PLAIN.replace("STEP", "2")),
    ]
    assert len(set(found)) == len(found)
    assert _digest(PLAIN, STEP=1, OTHER=3) == found[0]


def test_kernels_that_are_called_count_through_others():
    calls = "def made(x):\n    return inner(x)\n"

    def of(source: str) -> str:
        innermost = njit(_made(source, STEP=1))
        middle = njit(_made(calls, inner=innermost))
        return _digest(calls, inner=middle)

    assert of(PLAIN) == of(PLAIN)
    assert of(PLAIN) != of(PLAIN.replace("+", "-"))


def test_kernels_may_call_each_other_in_circles():
    first = _made("def made(x):\n    return second(x) + STEP\n", STEP=1)
    second = _made("def made(x):\n    return first(x)\n")
    first.__globals__["second"] = njit(second)
    second.__globals__["first"] = njit(first)
    contents = KernelContents()
    assert contents.digest(first) != contents.digest(second)
    assert contents.digest(first) == KernelContents().digest(first)


def test_what_is_around_a_function_counts():
    def around(step: int) -> Any:
        def added(x: int) -> int:
            return x + step

        return added

    one, two = KernelContents().digest(around(1)), KernelContents().digest(around(2))
    assert one != two
    assert KernelContents().digest(around(1)) == one


class _Flat(NamedTuple):
    low: int
    high: int


class _Outer(NamedTuple):
    point: _Flat
    weight: float


def test_fields_are_told_at_every_depth():
    flat = types.NamedUniTuple(types.int64, 2, _Flat)
    outer = types.NamedTuple((flat, types.float64), _Outer)
    assert field_names(types.float64) == ""
    assert field_names(flat) == "('low', 'high')"
    assert field_names(outer) == "('point', 'weight')('low', 'high')"
    assert field_names(types.Tuple((outer, types.float64))) == field_names(outer)
