"""What two folders differ in, as data for JSON, text and HTML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from mcm_compiler.ci.comparison import Comparison

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
        state: slower, faster, new or gone.
        a_s: seconds there.
        b_s: seconds here.
        a_place: the chip there.
        b_place: the chip here.
    """

    name: str
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


@dataclass(frozen=True)
class Difference:
    """Two folders held against each other.

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

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        data = asdict(self)
        data["comparison"] = self.comparison.to_dict()
        return {"schema_version": SCHEMA_VERSION, **data}
