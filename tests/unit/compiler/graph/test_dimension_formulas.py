"""Names of dimensions that are formulas of others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcm_compiler.graph.dimension_formulas import formula_of, names_in

SIZES = {"N": 7, "batch": 2, "past_key.len": 5, "s0": 33, "image-size": 4}


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2*N", 14),
        ("N*2", 14),
        ("batch * (N + 1)", 16),
        ("past_key.len + N - 2", 10),
        ("N - batch - 1", 4),
        ("s0//2//batch*3", 24),
        ("3*((s0 + 1)//4)", 24),
        ("image-size + 1", 5),
        (" N", 7),
    ],
)
def test_values(text: str, size: int) -> None:
    formula = formula_of(text)
    assert formula is not None
    assert formula.value(SIZES) == size


@pytest.mark.parametrize(
    "text",
    [
        "",
        "N",
        "batch-size",
        "unk__12",
        "12",
        "2*3",
        "2N",
        "2 N",
        "N N",
        "N*",
        "*N",
        "(N",
        "N)",
        "()",
        "N/2",
        "N**2",
        "Max(1, N)",
        "N +",
        "-N",
        "2.5*N",
        "\u0662*N",
        "(" * 17 + "N" + ")" * 17,
        "1" * 19 + "*N",
        "N+" * 200 + "N",
        "a.b/0=3?",
    ],
)
def test_names_alone(text: str) -> None:
    assert formula_of(text) is None
    assert names_in(text) == ({text} if text else set())


def test_names_that_a_size_may_be_given_to() -> None:
    assert names_in("2*N + batch") == {"2*N + batch", "N", "batch"}


def test_nothing_is_divided_by_nothing() -> None:
    formula = formula_of("N//batch")
    assert formula is not None
    with pytest.raises(ZeroDivisionError):
        formula.value({"N": 1, "batch": 0})


_WRITTEN = st.recursive(
    st.sampled_from(["N", "batch", "s0", "1", "3", "20"]),
    lambda inner: st.builds(
        lambda left, operator, right: f"({left} {operator} {right})",
        inner,
        st.sampled_from(["+", "-", "*", "//"]),
        inner,
    ),
    max_leaves=8,
)


@given(_WRITTEN)
def test_values_are_those_of_python(text: str) -> None:
    """A formula that is read means what Python takes it for."""
    formula = formula_of(text)
    if formula is None:
        return
    try:
        expected = eval(text, {}, SIZES)
    except ZeroDivisionError:
        with pytest.raises(ZeroDivisionError):
            formula.value(SIZES)
    else:
        assert formula.value(SIZES) == expected
