"""Two folders compared: ops matched, loads side by side, and why one is slower."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal

from mcm_compiler.artifact.manifest import is_placement
from mcm_compiler.ci.comparison import compare
from mcm_compiler.ci.figures import OpTime
from mcm_compiler.difference import records
from mcm_compiler.difference.op_matching import OpMatch, match_ops
from mcm_compiler.difference.sides import Load, Side, not_comparable, read_box, read_package

NOTICEABLE = 1e-9
"""Share by which times must differ to count as different."""

KINDS = ("compute", "links", "host", "off-package memory")


def read_side(path: Path) -> Side:
    """A folder of `mcmc compile` or `mcmc place`.

    Raises:
        CompileError: as `read_package` and `read_box`.
    """
    if is_placement(path):
        return read_box(path)
    return read_package(path)


def difference(first: Side, second: Side, allowed: float = 0.0) -> records.Difference:
    """Differences of the second folder from the first.

    Args:
        first: the earlier one, or the one to compare with.
        second: the other one.
        allowed: share by which the throughput may fall.

    Raises:
        CompileError: MCM-U080 if one is of a package and the other of a box.
    """
    if first.family != second.family:
        raise not_comparable(
            f"{first.folder}, {second.folder}",
            f"one is of a {first.family}, the other of a {second.family}",
        )
    match = match_ops(first.ops, second.ops)
    renamed = {first.ops.names[i]: second.ops.names[j] for i, j in match.by_structure}
    old = replace(first.figures, ops=_renamed(first.figures.ops, renamed))
    largest = max(len(first.ops.names), len(second.ops.names), 1)
    return records.Difference(
        a=_facts(first),
        b=_facts(second),
        same_file=first.figures.model.sha256 == second.figures.model.sha256,
        alike=len(match.pairs) / largest,
        comparison=compare(old, second.figures, allowed),
        settings=tuple(_settings(first, second)),
        loads=tuple(_loads(first.loads, second.loads)),
        ops=records.OpCounts(
            by_name=len(match.by_name),
            by_structure=tuple(
                (first.ops.names[i], second.ops.names[j]) for i, j in match.by_structure
            ),
            only_a=tuple(first.ops.names[i] for i in match.only_first),
            only_b=tuple(second.ops.names[j] for j in match.only_second),
        ),
        moved=_moved(first, second, match),
        times=_times(old.ops, second.figures.ops, second.figures.words[0]),
        memory=_memory(first, second),
        per=second.figures.words[1],
        place=second.figures.words[0],
    )


def _facts(side: Side) -> records.SideFacts:
    figures, model = side.figures, side.figures.model
    known: dict[str, Any] = {**vars(figures), **vars(side), "places_used": figures.chips_used}
    known |= {"ops": model.ops, "weight_bytes": model.weight_bytes}
    return records.SideFacts(
        **{field.name: known[field.name] for field in fields(records.SideFacts)}
    )


def _renamed(ops: Mapping[str, OpTime], names: Mapping[str, str]) -> dict[str, OpTime]:
    """Kernels by the names that their last ops have on the other side."""
    found: dict[str, OpTime] = {}
    for name, op in ops.items():
        new = names.get(name, name)
        found[new] = replace(op, name=new)
    return found


def _settings(first: Side, second: Side) -> Iterable[records.Setting]:
    a, b = first.figures, second.figures
    if (a.target, a.target_sha256) != (b.target, b.target_sha256):
        before, after = (f"{f.target} ({f.target_sha256[:12]})" for f in (a, b))
        yield records.Setting("target", "target", before, after)
    old, new = ({pin: pin for pin in side.pins} for side in (first, second))
    kinds: tuple[tuple[Literal["option", "pin", "version"], Any, Any], ...] = (
        ("option", a.options, b.options),
        ("pin", old, new),
        ("version", a.versions, b.versions),
    )
    for kind, there, here in kinds:
        for name in dict.fromkeys((*there, *here)):
            if there.get(name) != here.get(name):
                shown = name.rpartition("=")[0] if kind == "pin" else name
                yield records.Setting(kind, shown, there.get(name), here.get(name))


def _loads(first: Iterable[Load], second: Iterable[Load]) -> Iterable[records.LoadRow]:
    busiest = [_busiest(side) for side in (first, second)]
    for kind in KINDS:
        a, b = (side.get(kind) for side in busiest)
        if a is None and b is None:
            continue
        yield records.LoadRow(kind, *_values(a, _LOAD), *_values(b, _LOAD))


_LOAD = ("where", "busy_s", "utilisation")
_MEMORY = ("used_bytes", "weight_bytes", "memory_bytes")


def _values(side: object, names: Sequence[str]) -> list[Any]:
    """Values of a row on one side; all None where there is none."""
    return [getattr(side, name, None) for name in names]


def _busiest(loads: Iterable[Load]) -> dict[str, Load]:
    found: dict[str, Load] = {}
    for load in loads:
        if load.kind not in found or load.busy_s > found[load.kind].busy_s:
            found[load.kind] = load
    return found


def _moved(first: Side, second: Side, match: OpMatch) -> tuple[records.Moved, ...]:
    found: defaultdict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = defaultdict(list)
    for i, j in match.pairs:
        there, here = first.ops.places[i], second.ops.places[j]
        if there != here:
            found[there, here].append(second.ops.names[j])
    rows = [records.Moved(a, b, tuple(names)) for (a, b), names in found.items()]
    return tuple(sorted(rows, key=lambda row: -len(row.ops)))


def _times(
    first: Mapping[str, OpTime], second: Mapping[str, OpTime], place: str
) -> tuple[records.KernelTime, ...]:
    rows: list[records.KernelTime] = []
    for name in dict.fromkeys((*first, *second)):
        a, b = first.get(name), second.get(name)
        a_s, b_s = (op.seconds if op else None for op in (a, b))
        if a_s is not None and b_s is not None:
            if abs(b_s - a_s) <= NOTICEABLE * max(a_s, b_s):
                continue
            state = "slower" if b_s > a_s else "faster"
        else:
            state = "new" if a_s is None else "gone"
        a_place, b_place = (f"{place} {op.chip}" if op else None for op in (a, b))
        rows.append(records.KernelTime(name, state, a_s, b_s, a_place, b_place))
    return tuple(sorted(rows, key=lambda row: -abs((row.b_s or 0.0) - (row.a_s or 0.0))))


def _memory(first: Side, second: Side) -> tuple[records.MemoryRow, ...]:
    there = {m.place: m for m in first.memory}
    here = {m.place: m for m in second.memory}
    return tuple(
        records.MemoryRow(
            place, *_values(there.get(place), _MEMORY), *_values(here.get(place), _MEMORY)
        )
        for place in dict.fromkeys((*there, *here))
    )
