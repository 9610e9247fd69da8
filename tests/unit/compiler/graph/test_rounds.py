"""Rounds: names of classes."""

import pytest

from mcm_compiler.graph.rounds import class_name, class_of


@pytest.mark.parametrize("name", ["x", "x@1", "", "@", "a@b", "x@01"])
def test_the_last_mark_gives_back_name_and_class(name: str) -> None:
    assert class_of(class_name(name, 12)) == (name, 12)


@pytest.mark.parametrize("name", ["x", "x@", "x@01", "x@-1", "x@²", "@x"])
def test_other_names_have_no_class(name: str) -> None:
    assert class_of(name) is None
