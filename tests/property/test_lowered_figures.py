"""What the analytic model says of a placement is what the lowered program and its machine say.

`tools/ring_machines.py` does the same on 600 problems.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.oracles.machine_agreement import disagreements

SEEDS = range(12)


@pytest.mark.parametrize("seed", SEEDS)
def test_channels_latencies_and_bounds_are_those_of_the_lowered_program(seed):
    seen = Counter()
    assert disagreements(seed, seen) == []
    assert seen["placements"]
