"""The make of a fabric."""

from __future__ import annotations

import dataclasses

from mcm_models.mapping_model.data_set import make_of
from tests.generators.small_fabric import small_fabric


def test_the_make_of_a_fabric_is_not_its_size() -> None:
    assert make_of(small_fabric(3, 4)) == make_of(small_fabric(6, 8))
    other = dataclasses.replace(small_fabric(), window_flits=8)
    assert make_of(small_fabric()) != make_of(other)
