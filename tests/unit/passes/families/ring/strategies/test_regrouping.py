"""Rows of readers where units become others, against sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mcm_passes.families.ring.strategies.multilevel import regrouped

NEW_UNITS = 4

readers = st.lists(
    st.tuples(st.integers(0, NEW_UNITS - 1), st.booleans(), st.booleans()), max_size=6
)


@given(st.lists(st.tuples(readers, st.booleans()), max_size=6))
def test_rows_hold_each_new_unit_once_that_counts(drawn):
    flat = [reader for row, _ in drawn for reader in row]
    ptr = np.cumsum([0, *(len(row) for row, _ in drawn)]).astype(np.int64)
    units = np.array([unit for unit, _, _ in flat], np.int64)
    touched = np.array([touches for _, touches, _ in flat], np.bool_)
    counts = np.array([counted for _, _, counted in flat], np.bool_)
    always = np.array([kept for _, kept in drawn], np.bool_)
    found = regrouped(ptr, units, touched, counts, always, NEW_UNITS)
    expected = {
        index: {unit for unit, _, counted in row if counted}
        for index, (row, kept) in enumerate(drawn)
        if kept or any(counted for _, _, counted in row)
    }
    assert found.kept.tolist() == list(expected)
    for place, (index, there) in enumerate(expected.items()):
        begin, end = found.ptr[place], found.ptr[place + 1]
        assert found.units[begin:end].tolist() == sorted(there)
        touching = {unit for unit, touches, counted in drawn[index][0] if counted and touches}
        assert found.touched[begin:end].tolist() == [unit in touching for unit in sorted(there)]
