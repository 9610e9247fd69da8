"""The pause of Python's garbage collector while a model is read."""

from __future__ import annotations

import gc

import pytest

from mcm_compiler.processes.garbage import collector_paused


@pytest.mark.parametrize("running", [True, False])
def test_the_collector_is_as_before_afterwards_even_after_an_error(running):
    before = gc.isenabled()
    frozen = gc.get_freeze_count()
    try:
        (gc.enable if running else gc.disable)()
        with pytest.raises(KeyError, match="False"), collector_paused():
            raise KeyError(gc.isenabled())
        assert gc.isenabled() == running
        assert gc.get_freeze_count() == frozen
    finally:
        (gc.enable if before else gc.disable)()


def test_what_was_made_within_counts_as_old():
    with collector_paused():
        made = [[] for _ in range(1000)]
        assert any(entry is made for entry in gc.get_objects(generation=0))
    assert any(entry is made for entry in gc.get_objects(generation=2))


def test_what_somebody_froze_stays_frozen():
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with collector_paused():
            pass
        assert gc.get_freeze_count() == frozen
    finally:
        gc.unfreeze()
