"""Sweeps as text: `chip.sram_mib=16,32,64`, `package.num_chips=4..36:8`, `link.switching=a,b`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import product

from mcm_compiler.components.target_loading import described
from mcm_compiler.contracts.target import Target
from mcm_compiler.diagnostics import CompileError, Diagnostic, quote
from mcm_compiler.options import CompileOptions
from mcm_compiler.variants.sensitivities import Value, changed_target

MAX_POINTS = 4096
"""Combinations of an exploration."""

MAX_DIGITS = 30
"""Of a number in a sweep."""

_RANGE = re.compile(r"(?P<first>[^.].*?|\.\d.*?)\.\.(?P<last>[^:]+)(?::(?P<step>.+))?")

Settings = dict[str, Value]
"""Settings of a point, by key, in the order of the sweeps."""


@dataclass(frozen=True)
class Sweep:
    """Values of one key.

    Attributes:
        key: dotted, of a target description.
        values: distinct, in the order given.
    """

    key: str
    values: tuple[Value, ...]


def parse_sweep(text: str) -> Sweep:
    """A sweep from its text: values and ranges with both ends, divided by commas.

    Raises:
        CompileError: MCM-U061 for a text that is none.
    """
    key, equals, listed = text.partition("=")
    key = key.strip()
    if not equals or not all(part.strip() == part and part for part in key.split(".")):
        raise _refused(text, "it is not KEY=VALUES, with a dotted key")
    values: dict[tuple[bool, Value], Value] = {}
    for item in listed.split(","):
        for value in _values(text, item.strip()):
            values.setdefault((isinstance(value, bool), value), value)
            if len(values) > MAX_POINTS:
                raise _refused(text, f"it has more than {MAX_POINTS:,} values")
    return Sweep(key, tuple(values.values()))


def settings_of(sweeps: Sequence[Sweep]) -> list[Settings]:
    """All combinations; the last sweep runs fastest.

    Raises:
        CompileError: MCM-U061 for a key that is swept twice, for too many combinations, and for
            none at all.
    """
    keys = [sweep.key for sweep in sweeps]
    if not keys:
        raise CompileError.of("MCM-U061", "nothing is swept")
    for key in keys:
        if keys.count(key) > 1:
            raise _refused(key, "the key is swept twice")
    count = 1
    for sweep in sweeps:
        count *= len(sweep.values)
    if count > MAX_POINTS:
        raise CompileError.of(
            "MCM-U061",
            f"the sweeps have {count:,} combinations, more than {MAX_POINTS:,}",
            at="--sweep",
            hint="sweep fewer values or larger steps",
        )
    return [
        dict(zip(keys, row, strict=True)) for row in product(*(sweep.values for sweep in sweeps))
    ]


def _values(text: str, item: str) -> Iterator[Value]:
    if not item:
        raise _refused(text, "a value is empty")
    found = _RANGE.fullmatch(item)
    if found is None:
        yield _value(item)
        return
    first, last = _number(text, found["first"]), _number(text, found["last"])
    step = Decimal(1) if found["step"] is None else _number(text, found["step"])
    if step <= 0 or last < first:
        raise _refused(text, f"{quote(item)} has no values; a range rises by a positive step")
    if (last - first) / step >= MAX_POINTS:
        raise _refused(text, f"it has more than {MAX_POINTS:,} values")
    number = first
    while number <= last:
        yield _plain(number)
        number += step


def _value(item: str) -> Value:
    if item in ("true", "false"):
        return item == "true"
    try:
        number = Decimal(item) if len(item) <= MAX_DIGITS else None
    except InvalidOperation:
        number = None
    if number is None or not number.is_finite() or not -300 < number.adjusted() < 300:
        return item
    return _plain(number)


def _number(text: str, item: str) -> Decimal:
    value = _value(item.strip())
    if isinstance(value, bool | str):
        raise _refused(text, f"{quote(item)} is no number, so that it ends no range")
    return Decimal(item.strip())


def _plain(number: Decimal) -> int | float:
    """Whole numbers as such, as descriptions ask for them."""
    return int(number) if number == number.to_integral_value() else float(number)


def _refused(text: str, why: str) -> CompileError:
    return CompileError.of(
        "MCM-U061", f"the sweep cannot be read: {why}", at=f"--sweep {quote(text)}"
    )


UNKNOWN_KEY = "MCM-T002"


@dataclass(frozen=True)
class Variant:
    """One combination.

    Attributes:
        settings: what it sets.
        target: None where there is none, and where an earlier one is the same.
        same_as: position of an earlier combination with the same content.
        faults: why there is no target.
    """

    settings: Settings
    target: Target | None = None
    same_as: int | None = None
    faults: tuple[Diagnostic, ...] = ()


def variants_of(target: Target, sweeps: Sequence[Sweep], options: CompileOptions) -> list[Variant]:
    """All combinations of the sweeps.

    Args:
        target: as it was loaded.
        sweeps: each of another key.
        options: of the compiles.

    Raises:
        CompileError: MCM-U061 for sweeps that cannot be, MCM-U062 for a key that the target does
            not have, and where no combination is a valid target.
    """
    combinations = settings_of(sweeps)
    _check_keys(target, sweeps)
    found: list[Variant] = []
    first: dict[str, int] = {}
    for at, settings in enumerate(combinations):
        try:
            changed = changed_target(target, settings)
            described(changed.target, options)
        except CompileError as error:
            found.append(Variant(settings, faults=error.diagnostics))
            continue
        before = first.setdefault(changed.text, at)
        if before != at:
            found.append(Variant(settings, same_as=before))
        else:
            found.append(Variant(settings, changed.target))
    if not first:
        why = found[0].faults[0]
        raise CompileError.of(
            "MCM-U062",
            f"none of {len(found):,} combinations is a valid target; of the first: {why.message}",
            at=why.at or "--sweep",
            hint=why.hint or f"run `mcmc explain {why.code}`",
        )
    return found


def _check_keys(target: Target, sweeps: Sequence[Sweep]) -> None:
    unknown: list[Diagnostic] = []
    for sweep in sweeps:
        try:
            changed_target(target, {sweep.key: sweep.values[0]})
        except CompileError as error:
            unknown += [
                Diagnostic(
                    "MCM-U062",
                    f"the key cannot be swept: {one.message}",
                    at=f"--sweep {sweep.key}",
                    hint=one.hint or f"`mcmc targets show {target.name}` lists the keys",
                )
                for one in error.diagnostics
                if one.code == UNKNOWN_KEY
            ]
    CompileError.raise_any(unknown)
