"""Every value of these documents is the number of the line on which its key stands."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mcm_compiler.text.toml_description import KeyPath, key_lines

keys = st.sampled_from(["plain", '"quo.ted"', "'lit#eral'", '"a\\tb"', "a-b", "7"])


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Tables, arrays of tables, inline tables and arrays, with comments and texts between."""
    lines: list[str] = []

    def here() -> int:
        return len(lines) + 1

    def noise() -> None:
        lines.extend(draw(st.lists(st.sampled_from(["", "# x = [1", "  \t"]), max_size=2)))

    def assignments(count: int) -> None:
        for index in range(count):
            noise()
            key = f"{draw(keys)}.k{index}" if draw(st.booleans()) else f"k{index}"
            form = draw(st.integers(0, 4))
            if form == 0:
                lines.append(f"{key} = {here()} # ]")
            elif form == 1:
                lines.append(f"  {key}={{ a = {here()}, {draw(keys)} = [{here()}, {here()}] }}")
            elif form == 2:
                first = here() + 1
                inner = [f"  {first + i}, # , ]" for i in range(draw(st.integers(0, 3)))]
                lines.extend([f"{key} = [", *inner, "]"])
            elif form == 3:
                lines.extend([f"{key}.t = '''", "x = 1", "[y]''' # z"])
            else:
                lines.append(f'{key}.t = "[ # \\" = {{"')

    assignments(draw(st.integers(0, 3)))
    for table in range(draw(st.integers(0, 4))):
        noise()
        if draw(st.booleans()):
            lines.append(f"[t{table}.{draw(keys)}] # [[")
            assignments(draw(st.integers(0, 3)))
            continue
        for _ in range(draw(st.integers(1, 3))):
            lines.append(f"[[ a{table} ]]")
            assignments(draw(st.integers(0, 2)))
    return draw(st.sampled_from(["\n", "\r\n"])).join(lines)


def leaves(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from leaves(inner, (*path, index))
    else:
        yield path, value


@given(documents())
def test_every_key_is_found_on_its_line(text):
    lines = key_lines(text)
    for path, value in leaves(tomllib.loads(text), ()):
        assert path in lines
        if isinstance(value, int):
            assert lines[path] == value
