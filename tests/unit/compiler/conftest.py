"""What tests of work in other processes share."""

from __future__ import annotations

import pytest

from mcm_compiler.processes import bounded_child


@pytest.fixture
def forked(monkeypatch):
    """Children are forks of this process, which see what a test has put in place.

    A test of another file may have loaded a library with threads, and work would then go to a
    process that knows nothing of the test's.
    """
    monkeypatch.setattr(bounded_child, "THREADED_LIBRARIES", ())
