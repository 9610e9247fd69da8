"""The text form of things with options."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcm_compiler.diagnostics import CompileError
from mcm_compiler.text.spec_text import Spec, instantiate, parse_list, parse_one, print_one


@dataclass(frozen=True)
class Knobs:
    """One field of every kind that text can give."""

    kind: ClassVar[str] = "not an option"
    count: int = 3
    ratio: float = 0.5
    on: bool = True
    label: str = "plain"
    mode: Literal["fast", "slow"] = "fast"
    limit: int | None = None
    sizes: tuple[int, ...] = (1, 2)
    tags: tuple[str, ...] = field(default_factory=tuple)
    hidden: int = field(default=7, init=False)

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError(f"count is {self.count}, not at least 0")


@dataclass(frozen=True)
class Needy:
    size: int


def _code(text: str, cls: Any = Knobs) -> tuple[str, str]:
    with pytest.raises(CompileError) as caught:
        instantiate(cls, parse_one(text))
    (found,) = caught.value.diagnostics
    return found.code, found.message


def test_lists_and_blanks() -> None:
    assert parse_list(" a , b{ x = 1 , y=two } ,c{}") == (
        Spec("a"),
        Spec("b", (("x", "1"), ("y", "two"))),
        Spec("c"),
    )


def test_quoted_values_may_hold_anything() -> None:
    spec = parse_one(r'a{x="1,2 {\"}\\",y=3}')
    assert spec.options == (("x", r"1,2 {" + '"' + "}" + "\\"), ("y", "3"))


@pytest.mark.parametrize(
    ("text", "expected", "column"),
    [
        ("", "a name", 1),
        ("a,", "a name", 3),
        ("a b", "','", 3),
        ("a{x}", "'='", 4),
        ("a{x=}", "a value", 5),
        ("a{x=1", "',' or '}'", 6),
        ("a{x=1 y=2}", "',' or '}'", 7),
        ('a{x="1}', "a closing quote", 5),
        ("{x=1}", "a name", 1),
        ("a{,}", "an option name", 3),
    ],
)
def test_malformed_lists_are_told_with_the_column(text: str, expected: str, column: int) -> None:
    with pytest.raises(CompileError) as caught:
        parse_list(text)
    (found,) = caught.value.diagnostics
    assert found.code == "MCM-U001"
    assert f"expected {expected} at column {column}, found" in found.message


def test_one_spec_ends_where_the_text_ends() -> None:
    with pytest.raises(CompileError, match="expected the end at column 2"):
        parse_one("a,b")


def test_every_kind_of_field_is_converted() -> None:
    text = 'k{count=5,ratio=1e-3,on=False,label="a b",mode=slow,limit=9,sizes=4;5;6,tags=x}'
    assert instantiate(Knobs, parse_one(text)) == Knobs(
        5, 1e-3, False, "a b", "slow", 9, (4, 5, 6), ("x",)
    )
    assert instantiate(Knobs, parse_one("k{limit=none}")).limit is None
    assert instantiate(Knobs, parse_one('k{sizes=""}')).sizes == ()


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("k{colour=red}", "has no option 'colour'"),
        ("k{kind=x}", "has no option 'kind'"),
        ("k{hidden=1}", "has no option 'hidden'"),
        ("k{count=1,count=2}", "given twice"),
        ("k{count=1.5}", "'1.5' is not a whole number"),
        ("k{ratio=fast}", "'fast' is not a number"),
        ("k{on=yes}", "'yes' is not true or false"),
        ("k{mode=medium}", "not one of fast, slow"),
        ("k{sizes=1;x}", "'x' is not a whole number"),
        ("k{count=-1}", "count is -1, not at least 0"),
    ],
)
def test_faulty_options(text: str, part: str) -> None:
    code, message = _code(text)
    assert code == "MCM-U002"
    assert part in message


def test_a_missing_option_is_named() -> None:
    assert _code("n", Needy) == ("MCM-U002", "'n' needs the option 'size'")
    assert instantiate(Needy, parse_one("n{size=4}")) == Needy(4)


def test_defaults_are_not_printed() -> None:
    assert print_one("k", Knobs()) == "k"
    assert print_one("k", Knobs(count=4, on=False)) == "k{count=4,on=false}"
    assert print_one("n", Needy(2)) == "n{size=2}"


_words = st.text(min_size=1, max_size=8).filter(lambda text: ";" not in text)


@given(
    st.builds(
        Knobs,
        count=st.integers(0, 10**9),
        ratio=st.floats(allow_nan=False),
        on=st.booleans(),
        label=st.text(max_size=12),
        mode=st.sampled_from(["fast", "slow"]),
        limit=st.none() | st.integers(),
        sizes=st.lists(st.integers(), max_size=4).map(tuple),
        tags=st.lists(_words, max_size=3).map(tuple),
    )
)
def test_printing_and_parsing_are_inverse(knobs: Knobs) -> None:
    text = print_one("k", knobs)
    assert instantiate(Knobs, parse_one(text)) == knobs
    assert parse_list(f"{text},{text}") == (parse_one(text),) * 2


@given(st.text(alphabet='ab{}=,"\\ 1', max_size=30))
def test_no_text_does_anything_but_parse_or_be_refused(text: str) -> None:
    try:
        specs, codes = parse_list(text), ["MCM-U001"]
    except CompileError as error:
        specs, codes = None, [d.code for d in error.diagnostics]
    assert specs != ()
    assert codes == ["MCM-U001"]


def test_a_class_that_only_inherits_from_a_dataclass_is_refused() -> None:
    class Inherited(Knobs):
        strength: int = 1

    class Plain:
        pass

    for cls in (Inherited, Plain):
        with pytest.raises(TypeError, match="has no @dataclass"):
            instantiate(cls, parse_one("k"))
