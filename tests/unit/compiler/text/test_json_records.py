"""Records from JSON: what fits is made, and of what does not the first part is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from msgspec import Struct

from mcm_compiler.text.json_text import (
    Index,
    Number,
    OutOfRangeError,
    Seed,
    Size,
    UnreadableError,
    record_of,
)


class Edge(Struct, frozen=True, rename={"source": "from-id"}):
    source: int
    cost: Number | None = None


@dataclass(frozen=True)
class Inner:
    kind: Literal["a", "b"]
    pairs: tuple[tuple[str, Index], ...] = ()
    flag: bool | Literal[0, 1] = False


@dataclass(frozen=True)
class Outer:
    inner: Inner
    table: Mapping[str, Inner] = field(default_factory=dict[str, Inner])
    sizes: dict[str, tuple[Size, ...]] | None = None
    edges: tuple[Edge, ...] = ()
    seed: Seed = 0


def changed(**parts: Any) -> Any:
    return {"inner": {"kind": "a"}, **parts}


def test_what_fits_is_made() -> None:
    made = record_of(
        changed(
            table={"x": {"kind": "b", "pairs": [["p", 3]], "flag": 1, "of a later release": []}},
            sizes={"\ud800": [1, 2]},
            edges=[{"from-id": 1, "cost": 2}],
            seed=2**63 - 1,
        ),
        Outer,
    )
    assert made == Outer(
        Inner("a"),
        {"x": Inner("b", (("p", 3),), 1)},
        {"\ud800": (1, 2)},
        (Edge(1, 2.0),),
        2**63 - 1,
    )
    assert record_of([{"kind": "a"}], list[Inner]) == [Inner("a")]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ([], "it is a list, not an object"),
        ({}, "inner is missing"),
        (changed(inner={}), "inner.kind is missing"),
        (changed(inner={"kind": "c"}), "inner.kind is 'c', not one of a, b"),
        (changed(inner={"kind": "\ud800"}), "not one of a, b"),
        (changed(inner={"kind": "a", "\ud800": 1}), "inner has the unknown key"),
        (changed(inner={"kind": "a", "flag": 2}), "not true or false or one of 0, 1"),
        (changed(inner={"kind": "a", "pairs": [["x"]]}), "pairs[0] is a list, not a list of 2"),
        (changed(inner={"kind": "a", "pairs": [["x", 1], ["y", -1]]}), "pairs[1][1] is -1, not fr"),
        (changed(table={"x": {"kind": "a"}, "y": 3}), "table['y'] is 3, not an object"),
        (changed(table={"x": {"kind": "a"}, "y": {"kind": 3}}), "table['y'].kind is 3, not one of"),
        (changed(table=[1]), "table is a list, not an object"),
        (changed(sizes={"s": {6: 7}}), "sizes['s'] is an object, not a list"),
        (changed(sizes={"s": [True]}), "sizes['s'][0] is true, not a whole number"),
        (changed(sizes={"s": [None]}), "sizes['s'][0] is null, not a whole number"),
        (changed(edges=[{"from-id": 1.0}]), "edges[0].from-id is 1.0, not a whole number"),
        (changed(edges=[{}]), "edges[0].from-id is missing"),
        (changed(edges=[{"from-id": 1, "cost": "1"}]), "edges[0].cost is '1', not a number"),
    ],
)
def test_the_first_part_that_does_not_fit_is_named(data: Any, text: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        record_of(data, Outer)
    assert text in str(caught.value)
    assert not isinstance(caught.value, OutOfRangeError)


@pytest.mark.parametrize("cost", [10**400, 1e101, float("inf"), -float("inf")])
def test_amounts_out_of_range_are_told_apart(cost: float) -> None:
    with pytest.raises(OutOfRangeError, match=r"edges\[0\].cost is .*, not from -1e\+100 to 1e\+1"):
        record_of(changed(edges=[{"from-id": 1, "cost": cost}]), Outer)
    with pytest.raises(UnreadableError, match=r"seed is .*, not from 0 to 9223372036854775807"):
        record_of(changed(seed=2**63), Outer)
