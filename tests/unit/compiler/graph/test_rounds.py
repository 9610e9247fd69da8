"""Rounds: names of classes."""

import pytest

from mcm_compiler.graph.rounds import class_in, class_name, class_of, without_class


@pytest.mark.parametrize("name", ["x", "x@1", "", "@", "a@b", "x@01"])
def test_the_last_mark_gives_back_name_and_class(name: str) -> None:
    assert class_of(class_name(name, 12)) == (name, 12)


@pytest.mark.parametrize("name", ["x", "x@", "x@01", "x@-1", "x@²", "@x"])
def test_other_names_have_no_class(name: str) -> None:
    assert class_of(name) is None


@pytest.mark.parametrize(
    ("name", "index"),
    [("x@3", 3), ("x@3/on_chip_2", 3), ("a@1@12/relay_4", 12), ("x", 0), ("t@2 of pipeline 1", 2)],
)
def test_copies_and_relays_keep_their_class(name: str, index: int) -> None:
    assert class_in(name) == index


def test_a_text_loses_the_class_of_its_ops_alone() -> None:
    text = "Conv+Relu of 'a@1@1', after 'b@12' and 'c@1/tile_0'"
    assert without_class(text, 1) == "Conv+Relu of 'a@1', after 'b@12' and 'c/tile_0'"
