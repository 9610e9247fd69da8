"""Two folders compared: ops matched, loads side by side, and why one is slower.

What two folders differ in, as data for JSON, text and HTML.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from mcm_compiler.artifact.manifest import other_folder
from mcm_compiler.ci.comparison import Comparison, compare, op_phrase
from mcm_compiler.diagnostics import Diagnostic
from mcm_compiler.difference.op_matching import OpMatch, match_ops
from mcm_compiler.difference.sides import Load, Side, not_comparable, read_package
from mcm_compiler.results.op_times import OpTime
from mcm_compiler.text.headline import Headline, Shown
from mcm_compiler.text.units import percent_text

NOTICEABLE = 1e-9
"""Share by which times must differ to count as different."""

KINDS = ("compute", "links", "host", "off-package memory")


def read_side(path: Path) -> Side:
    """A folder of `mcmc compile` or of another verb.

    Raises:
        CompileError: as `read_package` and `Addition.side`.
    """
    other = other_folder(path)
    return read_package(path) if other is None else other.side(path)


def diff(a: str | Path, b: str | Path, *, max_regression: float = 0.0) -> Difference:
    """Compares two folders of `compile_model`, or two of `place`.

    Args:
        a: the earlier one, or the one to compare with.
        b: the other one.
        max_regression: share by which the throughput of `b` may be lower, for
            `Difference.comparison.regressed`.

    Raises:
        CompileError: as `read_side` and `difference`.
    """
    first, second = read_side(Path(a)), read_side(Path(b))
    notes = tuple(side.note for side in (first, second) if side.note is not None)
    return replace(difference(first, second, max_regression), notes=notes)


def difference(first: Side, second: Side, allowed: float = 0.0) -> Difference:
    """Differences of the second folder from the first.

    Args:
        first: the earlier one, or the one to compare with.
        second: the other one.
        allowed: share by which the throughput may fall.

    Raises:
        CompileError: MCM-U080 if one is of a package and the other of a host.
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
    return Difference(
        a=_facts(first),
        b=_facts(second),
        same_file=first.figures.model.sha256 == second.figures.model.sha256,
        alike=len(match.pairs) / largest,
        comparison=compare(old, second.figures, allowed),
        settings=tuple(_settings(first, second)),
        loads=tuple(_loads(first.loads, second.loads)),
        ops=OpCounts(
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


def _facts(side: Side) -> SideFacts:
    figures, model = side.figures, side.figures.model
    known: dict[str, Any] = {**vars(figures), **vars(side), "places_used": figures.chips_used}
    known |= {"ops": model.ops, "weight_bytes": model.weight_bytes}
    return SideFacts(**{field.name: known[field.name] for field in fields(SideFacts)})


def _renamed(ops: Mapping[str, OpTime], names: Mapping[str, str]) -> dict[str, OpTime]:
    """Kernels by the names that their last ops have on the other side."""
    found: dict[str, OpTime] = {}
    for name, op in ops.items():
        new = names.get(name, name)
        found[new] = replace(op, name=new)
    return found


def _settings(first: Side, second: Side) -> Iterable[Setting]:
    a, b = first.figures, second.figures
    if (a.target, a.target_sha256) != (b.target, b.target_sha256):
        before, after = (f"{f.target} ({f.target_sha256[:12]})" for f in (a, b))
        yield Setting("target", "target", before, after)
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
                yield Setting(kind, shown, there.get(name), here.get(name))


def _loads(first: Iterable[Load], second: Iterable[Load]) -> Iterable[LoadRow]:
    busiest = [_busiest(side) for side in (first, second)]
    for kind in KINDS:
        a, b = (side.get(kind) for side in busiest)
        if a is None and b is None:
            continue
        yield LoadRow(kind, *_values(a, _LOAD), *_values(b, _LOAD))


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


def _moved(first: Side, second: Side, match: OpMatch) -> tuple[Moved, ...]:
    found: defaultdict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = defaultdict(list)
    for i, j in match.pairs:
        there, here = first.ops.places[i], second.ops.places[j]
        if there != here:
            found[there, here].append(second.ops.names[j])
    rows = [Moved(a, b, tuple(names)) for (a, b), names in found.items()]
    return tuple(sorted(rows, key=lambda row: -len(row.ops)))


def _times(
    first: Mapping[str, OpTime], second: Mapping[str, OpTime], place: str
) -> tuple[KernelTime, ...]:
    rows: list[KernelTime] = []
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
        label = next(op_phrase(op) for op in (b, a) if op)
        rows.append(KernelTime(name, label, state, a_s, b_s, a_place, b_place))
    return tuple(sorted(rows, key=lambda row: -abs((row.b_s or 0.0) - (row.a_s or 0.0))))


def _memory(first: Side, second: Side) -> tuple[MemoryRow, ...]:
    there = {m.place: m for m in first.memory}
    here = {m.place: m for m in second.memory}
    return tuple(
        MemoryRow(place, *_values(there.get(place), _MEMORY), *_values(here.get(place), _MEMORY))
        for place in dict.fromkeys((*there, *here))
    )


SCHEMA_VERSION = 1
"""Raised when a field changes its meaning or goes."""


@dataclass(frozen=True)
class SideFacts:
    """One of both folders in figures.

    Attributes:
        folder: its path, as given.
        model: name of the model.
        target: name of the package or box.
        throughput_per_s: inferences or steps per second.
        period_s: its inverse.
        latency_s: of one inference.
        lower_bound_s: proven bound on the period.
        bound_proof: kind of its argument.
        bound_argument: the argument in words.
        gap: how far the simulated period is above the bound, as a share of it.
        bottleneck: what the report says of it.
        pipelines: side by side.
        places_each: chips or devices of each.
        places_used: chips or devices with ops, of all pipelines.
        ops: of the model.
        weight_bytes: of the model.
        verdict: headlines of the report that are no figures of this comparison, by label.
    """

    folder: str
    model: str
    target: str
    throughput_per_s: float
    period_s: float
    latency_s: float | None
    lower_bound_s: float | None
    bound_proof: str | None
    bound_argument: str | None
    gap: float | None
    bottleneck: str | None
    pipelines: int
    places_each: int
    places_used: int | None
    ops: int
    weight_bytes: int
    verdict: Mapping[str, str]


@dataclass(frozen=True)
class Setting:
    """Something that was given and differs; None where a side has it not.

    Attributes:
        kind: option, target, version or pin.
        name: of it.
        a: its value there.
        b: its value here.
    """

    kind: Literal["option", "target", "version", "pin"]
    name: str
    a: str | None
    b: str | None


@dataclass(frozen=True)
class LoadRow:
    """The busiest resource of a kind on both sides; None where a side has none.

    Attributes:
        kind: compute, links, host or off-package memory.
        a_where: the resource there.
        a_busy_s: its seconds per inference.
        a_utilisation: its share of the period.
        b_where: the resource here.
        b_busy_s: likewise.
        b_utilisation: likewise.
    """

    kind: str
    a_where: str | None
    a_busy_s: float | None
    a_utilisation: float | None
    b_where: str | None
    b_busy_s: float | None
    b_utilisation: float | None


@dataclass(frozen=True)
class Moved:
    """Ops that run elsewhere, all from one place to one other.

    Attributes:
        a: chips or devices there.
        b: chips or devices here.
        ops: their names here.
    """

    a: tuple[str, ...]
    b: tuple[str, ...]
    ops: tuple[str, ...]


@dataclass(frozen=True)
class KernelTime:
    """An op, or a group of ops that runs as one kernel, whose time differs.

    Attributes:
        name: here, or there where it is gone.
        label: its dominant op and layer in words.
        state: slower, faster, new or gone.
        a_s: seconds there.
        b_s: seconds here.
        a_place: the chip there.
        b_place: the chip here.
    """

    name: str
    label: str
    state: Literal["slower", "faster", "new", "gone"]
    a_s: float | None
    b_s: float | None
    a_place: str | None
    b_place: str | None


@dataclass(frozen=True)
class MemoryRow:
    """The memory of a chip or device on both sides; None where a side does not use it.

    Attributes:
        place: the chip or device.
        a_bytes: that its plan needs there.
        a_weight_bytes: of it held by weights.
        a_has_bytes: that it has there.
        b_bytes: here.
        b_weight_bytes: likewise.
        b_has_bytes: likewise.
    """

    place: str
    a_bytes: int | None
    a_weight_bytes: int | None
    a_has_bytes: int | None
    b_bytes: int | None
    b_weight_bytes: int | None
    b_has_bytes: int | None


@dataclass(frozen=True)
class OpCounts:
    """Ops of both models.

    Attributes:
        by_name: of equal name and type.
        by_structure: of other names, that stand in the same place; the two names of each.
        only_a: names of those that are gone.
        only_b: names of those that are new.
    """

    by_name: int
    by_structure: tuple[tuple[str, str], ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]

    @property
    def same(self) -> int:
        """Ops that both models have."""
        return self.by_name + len(self.by_structure)


@dataclass(frozen=True, repr=False)
class Difference(Shown):
    """Two folders compared.

    Attributes:
        a: the first.
        b: the second.
        same_file: whether both are of one file.
        alike: share of the ops of the larger model that both have.
        comparison: of throughput, with its reasons.
        settings: that differ.
        loads: the busiest resource of each kind.
        ops: what both models have.
        moved: ops that run elsewhere, most ops first.
        times: kernels whose time differs, the largest change first.
        memory: of each chip or device.
        per: what is counted per second.
        place: what ops run on.
        notes: what was not checked of the folders.
    """

    a: SideFacts
    b: SideFacts
    same_file: bool
    alike: float
    comparison: Comparison
    settings: tuple[Setting, ...]
    loads: tuple[LoadRow, ...]
    ops: OpCounts
    moved: tuple[Moved, ...]
    times: tuple[KernelTime, ...]
    memory: tuple[MemoryRow, ...]
    per: str
    place: str
    notes: tuple[Diagnostic, ...] = ()

    @property
    def verdict(self) -> str:
        """Which is faster and by how much, in a sentence."""
        change = self.comparison.change
        if change == 0.0:
            return "No change"
        return f"B is {percent_text(abs(change))} {'faster' if change > 0 else 'slower'} than A"

    @property
    def headline(self) -> Headline:
        """The verdict with its reasons."""
        good = not self.comparison.regressed
        tone = "plain" if good else "bad"
        reasons = list(self.comparison.reasons)
        line = {"label": "change", "headline": self.verdict, "details": reasons, "tone": tone}
        ends = f"A {self.a.folder}, B {self.b.folder}", "", "both checked"
        return Headline(ends, [line], good)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        data = asdict(self)
        data["comparison"] = self.comparison.to_dict()
        del data["notes"]
        return {"schema_version": SCHEMA_VERSION, **data}
