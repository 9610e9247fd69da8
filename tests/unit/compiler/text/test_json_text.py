"""JSON has the bytes of the standard library's."""

from __future__ import annotations

import json
import math
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcm_compiler.text.json_text import dump, encoded, write


class _Level(IntEnum):
    LOW = 1


class _Name(str):
    __slots__ = ()


_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
    st.sampled_from([_Level.LOW, _Name("é"), "\ud800", 1e-05, -0.0]),
)
_KEYS = st.one_of(st.text(), st.none(), st.booleans(), st.integers(), st.just(_Name("k")))
_DATA = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner), st.lists(inner).map(tuple), st.dictionaries(_KEYS, inner)
    ),
)


@given(_DATA)
def test_text_is_that_of_the_standard_library(data: Any) -> None:
    assert dump(data) == json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_lacks_are_refused(number: float) -> None:
    for data in (number, [number], {"a": [{"b": number}]}):
        with pytest.raises(ValueError, match="not JSON compliant"):
            dump(data)


@pytest.mark.parametrize("data", [1j, [b"x"], {(1, 2): []}, {b"k": 1}])
def test_what_json_has_no_form_of_is_refused(data: Any) -> None:
    with pytest.raises(TypeError):
        dump(data)


def test_lone_surrogates_are_escaped_in_files(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    write(path, {"name": "\udc80"})
    assert path.read_bytes() == encoded({"name": "\udc80"}) == b'{\n  "name": "\\udc80"\n}\n'
