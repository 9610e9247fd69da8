"""How far what crosses a cut must get, by its definition."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mcm_passes.mapping.problem.rule_graph import far_of_cuts

POSITIONS = 7


@given(st.lists(st.tuples(st.integers(0, POSITIONS - 1), st.integers(0, POSITIONS - 1))))
def test_a_cut_reaches_one_past_the_last_reader_of_what_crosses_it(pairs):
    edges = [(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]]
    made = np.array([a for a, _ in edges], np.int64)
    read = np.array([b for _, b in edges], np.int64)
    far = far_of_cuts(made, read, POSITIONS)
    for cut in range(POSITIONS + 1):
        # Before the cut a tensor is made, at it or later read; what was read before it asks no
        # more than the cut itself.
        assert far[cut] == max([cut, *(b + 1 for a, b in edges if a < cut)])
