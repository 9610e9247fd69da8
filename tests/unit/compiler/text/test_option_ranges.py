from dataclasses import dataclass

import pytest

from mcm_compiler.text.option_fields import above, at_least, between, checked, even, from_to, one_of


@dataclass(frozen=True)
@checked(
    batch=at_least(1),
    heat=above(0),
    step=between(0, 1),
    share=from_to(0, 1),
    recipe=one_of(("short", "long")),
    width=even(2, 8),
)
class Sampling:
    batch: int = 1
    heat: float = 0.5
    step: float = 0.5
    share: float = 0.5
    recipe: str = "short"
    width: int = 2

    def __post_init__(self) -> None:
        if self.batch > 100 * self.heat:
            raise ValueError("too hot")


@dataclass(frozen=True)
@checked(tries=at_least(2))
class Tried(Sampling):
    tries: int = 2


@pytest.mark.parametrize(
    "allowed", [{}, {"share": 0}, {"share": 1}, {"recipe": "long"}, {"width": 8}]
)
def test_values_in_range_are_taken(allowed):
    assert Sampling(**allowed)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("batch", 0, "batch is 0, not at least 1"),
        ("heat", 0.0, "heat is 0.0, not above 0"),
        ("heat", float("nan"), "heat is nan, not above 0"),
        ("step", 1.0, "step is 1.0, not between 0 and 1"),
        ("step", 0.0, "step is 0.0, not between 0 and 1"),
        ("share", 1.5, "share is 1.5, not from 0 to 1"),
        ("width", 3, "width is 3, not an even number from 2 to 8"),
        ("width", 0, "width is 0, not an even number from 2 to 8"),
        ("width", 10, "width is 10, not an even number from 2 to 8"),
        ("recipe", "odd", "recipe is 'odd', not one of short, long"),
    ],
)
def test_others_are_refused_with_their_value(option, value, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        Sampling(**{option: value})


def test_further_checks_of_the_class_come_behind():
    with pytest.raises(ValueError, match="too hot"):
        Sampling(batch=51)
    with pytest.raises(ValueError, match="not at least 1"):
        Sampling(batch=0, heat=float("inf"))


def test_checks_of_a_parent_hold_for_its_children():
    assert Tried()
    with pytest.raises(ValueError, match="tries is 1, not at least 2"):
        Tried(tries=1)
    with pytest.raises(ValueError, match="batch is 0, not at least 1"):
        Tried(batch=0)
