"""Threads of NumPy's products while something is learned, by what OpenBLAS says of itself."""

from __future__ import annotations

import ctypes
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest

from mcm_compiler.processes.one_thread import numpy_on_one_thread


@pytest.fixture
def threads():
    """Reads the number of threads, which is 3 outside."""
    found = sorted((Path(np.__file__).parents[1] / "numpy.libs").glob("*openblas*"))
    if not found:
        pytest.skip("NumPy is built without OpenBLAS")
    library = ctypes.CDLL(str(found[0]))
    read = library.scipy_openblas_get_num_threads64_
    before = read()
    library.scipy_openblas_set_num_threads64_(3)
    yield read
    library.scipy_openblas_set_num_threads64_(before)


def test_numpy_has_its_threads_back(threads):
    with numpy_on_one_thread():
        assert threads() == 1
        with numpy_on_one_thread():
            assert threads() == 1
        assert threads() == 1
    assert threads() == 3
    with pytest.raises(KeyError), numpy_on_one_thread():
        raise KeyError
    assert threads() == 3


@pytest.mark.parametrize("others", [1, 2, 3])
def test_threads_come_back_when_the_last_of_several_ends(threads, others):
    """Whatever ends first, in threads of Python that overlap."""
    seen = []
    begun = [Event() for _ in range(others)]

    def short(number):
        with numpy_on_one_thread():
            begun[number].set()
            assert entered.wait(10)

    entered = Event()
    running = [Thread(target=short, args=(number,)) for number in range(others)]
    for thread in running:
        thread.start()
    assert all(each.wait(10) for each in begun)
    with numpy_on_one_thread():
        entered.set()
        for thread in running:
            thread.join()
            seen.append(threads())
    assert set(seen) == {1}
    assert threads() == 3
