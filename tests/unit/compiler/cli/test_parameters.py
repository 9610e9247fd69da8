"""Values on the command line."""

from __future__ import annotations

from typing import Any

import click
import pytest

from mcm_compiler.cli.parameters import (
    once_each,
    parse_device_costs,
    parse_dimension,
    parse_duration,
    parse_limits,
    parse_percentage,
    parse_shape,
    parse_states,
)
from mcm_compiler.project.values import share


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("batch=1", ("batch", 1)),
        ("past=0", ("past", 0)),
        ("a=b=3", ("a=b", 3)),
        ("x.y/z=128", ("x.y/z", 128)),
    ],
)
def test_dimensions(text: str, value: Any) -> None:
    assert parse_dimension(text) == value


@pytest.mark.parametrize(
    "text", ["batch", "=1", "batch=", "batch=-1", "batch=1.5", "batch=²", "b=" + "9" * 30]
)
def test_malformed_dimensions(text: str) -> None:
    with pytest.raises(click.BadParameter):
        parse_dimension(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("k40=cycles", ("k40", "cycles")),
        ("k40=table{file=times.csv}", ("k40", "table{file=times.csv}")),
        ('my-gpu=table{file="a=b.csv"}', ("my-gpu", 'table{file="a=b.csv"}')),
    ],
)
def test_cost_models_of_kinds(text: str, value: Any) -> None:
    assert parse_device_costs(text) == value


@pytest.mark.parametrize("text", ["", "cycles", "=cycles", "k40=", "table{file=times.csv}"])
def test_malformed_cost_models_of_kinds(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"kind=model.*each kind of device"):
        parse_device_costs(text)


@pytest.mark.parametrize(
    ("texts", "pairs"),
    [((), None), (("none",), ()), (("p=q", "a=b=c"), (("p", "q"), ("a", "b=c")))],
)
def test_states(texts: tuple[str, ...], pairs: Any) -> None:
    assert parse_states(texts) == pairs


@pytest.mark.parametrize("texts", [("past",), ("=q",), ("p=",), ("none", "p=q")])
def test_malformed_states(texts: tuple[str, ...]) -> None:
    with pytest.raises(click.BadParameter, match="past=present"):
        parse_states(texts)


@pytest.mark.parametrize(
    ("text", "value"),
    [("ids=1,128", ("ids", (1, 128))), ("x=0", ("x", (0,))), ("a=b=2,3", ("a=b", (2, 3)))],
)
def test_shapes(text: str, value: Any) -> None:
    assert parse_shape(text) == value


@pytest.mark.parametrize("text", ["ids", "=1", "ids=", "ids=1,", "ids=1,x", "ids=-1", "ids=1x128"])
def test_malformed_shapes(text: str) -> None:
    with pytest.raises(click.BadParameter):
        parse_shape(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("60", 60.0),
        ("60s", 60.0),
        ("1.5 s", 1.5),
        ("500ms", 0.5),
        ("2m", 120.0),
        ("2min", 120.0),
        (".5h", 1800.0),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "0", "-1", "1d", "inf", "nan", "1e3", "9" * 400])
def test_malformed_durations(text: str) -> None:
    with pytest.raises(click.BadParameter):
        parse_duration(text)


def test_a_name_given_twice_is_refused() -> None:
    assert once_each("--dim", (("a", 1), ("b", 2))) == {"a": 1, "b": 2}
    with pytest.raises(click.BadParameter, match="'a' is given twice"):
        once_each("--dim", (("a", 1), ("a", 2)))


@pytest.mark.parametrize(
    ("text", "share"), [("3%", 0.03), (" 2.5 % ", 0.025), ("0%", 0.0), (".5%", 0.005)]
)
def test_percentages(text: str, share: float) -> None:
    assert parse_percentage(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["3", "", "%", "-1%", "100%", "1e1%", "nan%", "3%%"])
def test_malformed_percentages(text: str) -> None:
    with pytest.raises(click.BadParameter):
        parse_percentage(text)


@pytest.mark.parametrize("percent", [35, 57, 70])
def test_percentages_are_the_nearest_numbers(percent: int) -> None:
    assert parse_percentage(f"{percent}%") == share(1.0).read(f"{percent} %") == percent / 100


def test_limits_are_durations_by_name() -> None:
    assert parse_limits("tpot=50ms, ttft=1s") == {"tpot": 0.05, "ttft": 1.0}


@pytest.mark.parametrize("text", ["", "tpot", "tpot=", "=1s", "tpot=1s,tpot=2s", "tpot=x"])
def test_malformed_limits(text: str) -> None:
    with pytest.raises(click.BadParameter):
        parse_limits(text)
