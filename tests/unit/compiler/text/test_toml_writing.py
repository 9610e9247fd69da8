"""Tables as TOML, without comments."""

from __future__ import annotations

import datetime
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcm_compiler.text.toml_description import to_toml

_SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(2**60), 2**60),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
)
_KEYS = st.text(st.sampled_from("aé-. \"'\\\n\x7f\x01"), max_size=5)
_TABLES = st.recursive(
    st.dictionaries(_KEYS, st.one_of(_SCALARS, st.lists(_SCALARS, max_size=3)), max_size=4),
    lambda inner: st.dictionaries(
        _KEYS, st.one_of(_SCALARS, inner, st.lists(inner, min_size=1, max_size=2)), max_size=4
    ),
    max_leaves=5,
)


@given(_TABLES)
def test_what_is_written_is_read_back(table: dict[str, object]) -> None:
    assert tomllib.loads(to_toml(table)) == table


def test_what_has_no_form_is_refused() -> None:
    with pytest.raises(TypeError, match="date has no form"):
        to_toml({"day": datetime.date(2022, 1, 1)})
