"""Rows in flat arrays, against lists of sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mcm_compiler.arrays.rows import Rows, grouped_rows, starts

ENTRIES = 5

some_rows = st.lists(st.sets(st.integers(0, ENTRIES - 1)), max_size=6)


def rows_of(sets):
    entries = [entry for each in sets for entry in sorted(each)]
    return Rows(starts(np.array([len(each) for each in sets], np.int64)), np.array(entries, int))


@given(some_rows)
def test_transposed_rows_tell_where_each_entry_is(sets):
    found = rows_of(sets).transposed(ENTRIES)
    assert found.size == ENTRIES
    for entry in range(ENTRIES):
        expected = [row for row, each in enumerate(sets) if entry in each]
        assert found.row(entry).tolist() == expected


@given(some_rows, st.permutations(range(ENTRIES)))
def test_renamed_rows_ascend(sets, names):
    found = rows_of(sets).renamed(np.array(names, np.int64))
    assert found.size == len(sets)
    for row, each in enumerate(sets):
        assert found.row(row).tolist() == sorted(names[entry] for entry in each)


@given(st.lists(st.tuples(st.integers(0, ENTRIES - 1), st.integers(0, 9))))
def test_grouped_pairs_stay_in_their_order(pairs):
    owners, entries = np.array(pairs, np.int32).reshape(-1, 2).T
    found = grouped_rows(owners, entries, ENTRIES)
    assert found.size == ENTRIES
    for owner in range(ENTRIES):
        assert found.row(owner).tolist() == [entry for of, entry in pairs if of == owner]
