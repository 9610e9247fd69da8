"""Memory of earlier work is given back once it is much, and not looked for where it is little."""

from __future__ import annotations

import gc
import sys
import weakref

import numpy as np
import pytest

from mcm_compiler.processes import garbage

linux = pytest.mark.skipif(sys.platform != "linux", reason="others do not say what is in use")


class Cycle:
    """Something with an array that only a collection ends."""

    def __init__(self, count: int) -> None:
        self.me = self
        self.array = np.ones(count, np.uint8)


@pytest.fixture
def reclaim():
    gc.disable()
    gc.freeze()  # what other tests hold takes a second to look through
    made = garbage._Reclaimer()
    made.reclaim()
    yield made.reclaim
    gc.unfreeze()
    gc.enable()


@linux
def test_cycles_with_large_arrays_do_not_pile_up(reclaim) -> None:
    held = []
    for _ in range(20):  # some may fit into memory that was freed before, which is no growth
        held.append(weakref.ref(Cycle(garbage.GROWTH_BYTES // 4)))
        reclaim()
        assert sum(one() is not None for one in held) <= 12


@linux
def test_little_garbage_is_left_to_python(reclaim, monkeypatch) -> None:
    monkeypatch.setattr(gc, "collect", lambda: pytest.fail("a collection"))
    for _ in range(16):
        Cycle(1000)
        reclaim()


def test_a_system_that_does_not_say_is_left_alone(reclaim, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(garbage, "_STATM", tmp_path / "missing")
    monkeypatch.setattr(gc, "collect", lambda: pytest.fail("a collection"))
    reclaim()


@linux
@pytest.mark.parametrize(("held", "trims"), [(1 << 20, 0), (8 << 30, 1)])
def test_freed_memory_is_given_back_where_a_process_holds_much(monkeypatch, held, trims) -> None:
    calls: list[int] = []
    monkeypatch.setattr(garbage, "_anonymous_bytes", lambda: held)
    monkeypatch.setattr(garbage, "_trim", lambda: calls.append)
    garbage.give_back()
    assert len(calls) == trims
