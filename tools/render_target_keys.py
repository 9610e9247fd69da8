"""Writes the table of keys of target descriptions in their page, from the schema.

Run it after a change of the schema: `python tools/render_target_keys.py`.
"""

from __future__ import annotations

import math
from pathlib import Path

from mcm_hardware.descriptions.package_schema import (
    KIND_KEYS,
    OVERRIDE_KEYS,
    OVERRIDE_TABLE,
    STREAM_TABLE,
)
from mcm_hardware.descriptions.target_schema import (
    PLACE_TABLE,
    STORAGE_BITS,
    STORAGE_TABLE,
    Choice,
    Flag,
    Key,
    Listed,
    Names,
    Number,
    Rule,
    Text,
    unit_of,
)
from mcm_hardware.families.package.package_target import PACKAGE
from mcm_hardware.families.ring.ring_target import RING

PATH = Path(__file__).resolve().parents[1] / "docs" / "reference" / "target-keys.md"
BEGIN, END = "<!-- keys:begin -->\n", "<!-- keys:end -->\n"


HEAD = ("| key | unit | values | default | meaning |", "|---|---|---|---|---|")


def render() -> str:
    """The tables: a row per key with its unit, values, default and meaning."""
    keys = {**RING.keys, **{f"{OVERRIDE_TABLE}.{name}": key for name, key in OVERRIDE_KEYS.items()}}
    others = {path: key for path, key in PACKAGE.keys.items() if RING.keys.get(path) != key}
    rows = [
        *HEAD,
        *(_row(path, key) for path, key in keys.items()),
        f"| `{STORAGE_TABLE}.TYPE` | bits | {', '.join(map(str, STORAGE_BITS))} | as in ONNX | "
        "what one element of an ONNX type takes in SRAM and on links |",
        "",
        "The family `package` has no chips that are `off`, and these keys instead of",
        "`package.num_chips` and `link.forwarding`:",
        "",
        *HEAD,
        *(_row(path, key) for path, key in others.items()),
        "",
        "Its chips may be of several kinds. Each table `[[chip]]` has the keys of `[chip]` but",
        "`chip.kind`, and these:",
        "",
        *HEAD,
        *(_row(path, key) for path, key in KIND_KEYS.items()),
        f'| `{PLACE_TABLE}.NAME` |  | list of numbers and of ranges such as `"9-15"` | the rest of '
        "the chips, for one kind | the chips of the kind of that name |",
    ]
    return "\n".join(rows) + "\n"


def with_table(page: str) -> str:
    """`page` with the table that the schema gives."""
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}{render()}{END}{after}"


def _row(path: str, key: Key) -> str:
    if not key.required:
        default = key.otherwise or f"`{_toml(key.default)}`"
    elif path.startswith(STREAM_TABLE):
        default = "required in this table"
    elif path.startswith(OVERRIDE_TABLE):
        default = "required in each"
    else:
        default = "required"
    return f"| `{path}` | {unit_of(path)} | {_values(key.rule)} | {default} | {key.meaning} |"


def _toml(value: str | float | bool | None) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else f"{value:g}"


def _values(rule: Rule) -> str:
    if isinstance(rule, Number):
        low, high = _number(rule.low), _number(rule.high)
        kind = "power of two, " if rule.power_of_two else "whole, " if rule.whole else ""
        return f"{kind}{low} to {high}"
    if isinstance(rule, Choice):
        return ", ".join(f'`"{word}"`' for word in rule.words)
    if isinstance(rule, Flag):
        return "`true`, `false`"
    if isinstance(rule, Names):
        return f"list of {rule.of}"
    if isinstance(rule, Listed):
        return f"list of {rule.least} to {rule.most}, each {_values(rule.each)}"
    return "any text" if isinstance(rule, Text) else "list of places"


def _number(value: float) -> str:
    mantissa, exponent = math.frexp(value)
    if mantissa == 0.5 and abs(exponent - 1) >= 16:
        return f"2^{exponent - 1}"
    return f"{value:g}"


if __name__ == "__main__":
    PATH.write_text(with_table(PATH.read_text(encoding="utf-8")), encoding="utf-8")
