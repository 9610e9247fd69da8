"""Options of Python code have the types of their fields, or are refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.text.spec_text import take_types


@dataclass(frozen=True)
class Options:
    """One field of each kind."""

    text: str = "a"
    word: Literal["x", "y"] = "x"
    three: Literal["a", "b", "c"] = "a"
    flag: bool = False
    count: int | None = None
    seconds: float | None = None
    level: int | str = 2
    places: tuple[int, ...] = ()
    pairs: tuple[tuple[str, int], ...] | None = ()
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])

    def __post_init__(self) -> None:
        take_types(self)


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"text": Path("a/b")}, "a/b"),
        ({"count": np.int32(3)}, 3),
        ({"seconds": np.float32(0.5)}, 0.5),
        ({"seconds": 60}, 60),
        ({"level": Path("own.toml")}, "own.toml"),
        ({"level": np.int64(1)}, 1),
        ({"places": [3, np.int8(1)]}, (3, 1)),
        ({"places": {3, 1, 2}}, (1, 2, 3)),
        ({"pairs": {"a": 1, "b": 0}}, (("a", 1), ("b", 0))),
        ({"pairs": [["a", 1]]}, (("a", 1),)),
        ({"pairs": None}, None),
        ({"sizes": {"n": np.uint8(4)}}, {"n": 4}),
        ({"shapes": {"x": [1, 2], "y": np.array([3])}}, {"x": (1, 2), "y": (3,)}),
        ({"word": "y"}, "y"),
    ],
)
def test_what_means_the_same_is_taken(given: dict[str, Any], taken: object) -> None:
    ((name, _),) = given.items()
    found = getattr(Options(**given), name)
    assert found == taken
    assert type(found) is type(taken)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"text": 5}, "text is 5, not a text"),
        ({"text": b"a"}, "text is b'a', not a text"),
        ({"word": None}, "word is None, not x or y"),
        ({"word": "z"}, "word is 'z', not x or y"),
        ({"seconds": 10**400}, f"seconds is 1{'0' * 59}..., not a number or None"),
        ({"three": "z"}, "three is 'z', not a, b or c"),
        ({"flag": 1}, "flag is 1, not True or False"),
        ({"count": "3"}, "count is '3', not a whole number or None"),
        ({"count": True}, "count is True, not a whole number or None"),
        ({"count": 2.0}, "count is 2.0, not a whole number or None"),
        ({"seconds": "60s"}, "seconds is '60s', not a number or None"),
        ({"seconds": 1j}, "seconds is of the type complex, not a number or None"),
        ({"level": None}, "level is None, not a whole number or a text"),
        ({"places": 3}, "places is 3, not a tuple of whole numbers"),
        ({"places": "12"}, "places is '12', not a tuple of whole numbers"),
        ({"places": {1: 2}}, "places is {1: 2}, not a tuple of whole numbers"),
        (
            {"pairs": (("a",),)},
            "pairs is (('a',),), not a tuple of pairs of a text and a whole number or None",
        ),
        ({"sizes": [("n", 1)]}, "sizes is [('n', 1)], not a mapping of texts to whole numbers"),
        ({"sizes": {"n": "1"}}, "sizes is {'n': '1'}, not a mapping of texts to whole numbers"),
        (
            {"shapes": {"x": 4}},
            "shapes is {'x': 4}, not a mapping of texts to tuples of whole numbers",
        ),
    ],
)
def test_other_types_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(CompileError) as refused:
        Options(**given)
    (told,) = refused.value.diagnostics
    assert (told.code, told.message) == ("MCM-U004", message)


def test_all_are_told_at_once_and_shortly() -> None:
    with pytest.raises(CompileError) as refused:
        Options(text=["\x1b" * 1000], count="x" * 1000)  # type: ignore[arg-type]
    messages = [d.message for d in refused.value.diagnostics]
    assert len(messages) == 2
    assert all(len(message) < 200 and message.isprintable() for message in messages)
