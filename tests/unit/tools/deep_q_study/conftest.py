"""Small networks and instances."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from mcm_compiler.processes.one_thread import use_one_thread

sys.path.insert(0, str(Path(__file__).parents[4] / "tools" / "reproduce"))

from deep_q_study.decision_environment import DecisionArrays

from tests.unit.passes.parallelism.decisions.conftest import decisions_of, objective_of  # noqa: F401

use_one_thread()


def make_arrays(seed, items=8, classes=8, terms=3, blocked=0.2, padded=0, decided=False):
    """A random instance; the last `padded` items have no class."""
    rng = np.random.default_rng(seed)
    conflicts = np.triu(rng.random((classes, classes)) < 0.25, 1)
    gain = rng.integers(1, 20, classes).astype(np.float32)
    item_class = np.resize(rng.permutation(classes), items).astype(np.int32)
    item_class[items - padded :] = -1
    start = np.full(classes, -1, np.int8)
    if decided:
        start[0] = 1
    is_blocked = rng.random(classes) < blocked
    is_blocked[0] &= not decided
    return DecisionArrays(
        item_class=item_class,
        partition_reward=np.float32(0.05) * gain[item_class],
        replicate_reward=np.full(items, 0.01, np.float32),
        blocked=is_blocked,
        conflicts=(conflicts | conflicts.T).astype(np.float32),
        gain=gain,
        term_class=(rng.random((terms, classes)) < 0.4).astype(np.float32),
        term_gain=-rng.integers(1, 9, terms).astype(np.float32),
        term_reward=np.float32(0.05),
        start=start,
    )


@pytest.fixture
def arrays_of():
    return make_arrays


@pytest.fixture
def observations():
    """Random candidates, contexts and masks; at least one action is allowed."""

    def make(layout, count=5, seed=0):
        rng = np.random.default_rng(seed)
        candidates = rng.standard_normal((count, layout.actions, layout.features))
        context = rng.standard_normal((count, layout.context))
        mask = rng.random((count, layout.actions)) < 0.6
        mask[:, 0] = True
        return candidates.astype(np.float32), context.astype(np.float32), mask

    return make
