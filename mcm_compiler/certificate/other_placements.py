"""Further placements and the bound over all divisions, as rows of a certificate's head and arrays.

Figures of other numbers of pipelines, and of search with and without learning, are worth nothing
without the placements that they are of: with them, whoever reads can derive the figures again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated

import numpy as np
from msgspec import Meta

from mcm_compiler.certificate.stored_problem import Array, MalformedError, put_texts, texts, vector
from mcm_compiler.contracts.partition import Ints, LearnedGain, LowerBound
from mcm_compiler.contracts.replication import PipelineCount
from mcm_compiler.contracts.sharding.divisions import DividedKernel, DivisionBound
from mcm_compiler.text.json_text import Amount, Count, Index, Number

MAX_ROWS = 64
"""Placements of one number of replicas."""


@dataclass(frozen=True)
class StoredBound:
    """A bound on one of this many pipelines.

    Attributes:
        seconds: between inferences of that pipeline, not of the package.
        proof: kind of argument; empty where there is none.
        argument: the argument in words.
    """

    seconds: Number
    proof: str
    argument: str


@dataclass(frozen=True)
class ConsideredRow:
    """A number of replicas that was looked at.

    Attributes:
        pipelines: equal pipelines side by side.
        devices_each: devices that each of them may use.
        placements: how many rows the array `considered.<index>.device` has; 0 where it is missing.
        period_s: seconds of the package between inferences, with the first placement.
        simulated_period_s: the same of the fastest placement, simulated.
        bound: proven for one of the pipelines.
        ruled_out: code of the diagnostic that proves that there is no placement, or empty.
    """

    pipelines: Count
    devices_each: Count
    placements: Annotated[int, Meta(ge=0, le=MAX_ROWS)]
    period_s: Number | None
    simulated_period_s: Number | None
    bound: StoredBound | None
    ruled_out: str


@dataclass(frozen=True)
class LearnedRow:
    """Gain of learned search over classical search.

    Attributes:
        share: of the throughput that classical search reached.
        simulated: whether the simulator measured both, or else the analytic model.
        learned: whether learned search found a placement that runs.
    """

    share: Number
    simulated: bool
    learned: bool


def considered_to_arrays(
    considered: Sequence[PipelineCount], arrays: dict[str, Array]
) -> tuple[ConsideredRow, ...]:
    """Rows of the head; placements are added to `arrays`."""
    for index, one in enumerate(considered):
        if one.partitions is not None:
            arrays[f"considered.{index}.device"] = _flat(one.partitions)
    return tuple(
        ConsideredRow(
            pipelines=one.replicas,
            devices_each=one.chips_each,
            placements=0 if one.partitions is None else len(one.partitions),
            period_s=one.analytic_s,
            simulated_period_s=one.simulated_s,
            bound=one.bound and StoredBound(one.bound.seconds, one.bound.proof, one.bound.argument),
            ruled_out=one.ruled_out,
        )
        for one in considered
    )


def considered_from_arrays(
    rows: Sequence[ConsideredRow], arrays: Mapping[str, Array], units: int
) -> tuple[PipelineCount, ...]:
    """Read what `considered_to_arrays` stored.

    Raises:
        MalformedError: where placements are missing or are none.
    """
    found: list[PipelineCount] = []
    for index, row in enumerate(rows):
        count, each, bound = row.placements, row.devices_each, row.bound
        name = f"considered.{index}.device"
        placements = _placements(arrays, name, (count, units), each) if count else None
        if (placements is None) != (row.period_s is None):
            raise MalformedError(f"considered[{index}] has a period or placements, not both")
        found.append(
            PipelineCount(
                replicas=row.pipelines,
                chips_each=each,
                analytic_s=row.period_s,
                simulated_s=row.simulated_period_s,
                bound=bound and LowerBound(bound.seconds, bound.argument, bound.proof),
                ruled_out=row.ruled_out,
                partitions=placements,
            )
        )
    return tuple(found)


def learned_to_arrays(learned: LearnedGain | None, arrays: dict[str, Array]) -> LearnedRow | None:
    """An entry of the head; placements are added to `arrays`."""
    if learned is None:
        return None
    arrays["learned.without.device"] = _flat(learned.classical)
    if learned.learned is not None:
        arrays["learned.with.device"] = _flat(learned.learned)
    return LearnedRow(learned.share, learned.simulated, learned.learned is not None)


def learned_from_arrays(
    entry: LearnedRow | None, arrays: Mapping[str, Array], units: int
) -> LearnedGain | None:
    """Read what `learned_to_arrays` stored.

    Raises:
        MalformedError: where placements are missing or are none.
    """
    if entry is None:
        return None
    most = 2**31 - 1
    classical = _placements(arrays, "learned.without.device", (1, units), most)[0]
    learned = None
    if entry.learned:
        learned = _placements(arrays, "learned.with.device", (1, units), most)[0]
    return LearnedGain(entry.share, entry.simulated, classical, learned)


def _flat(placements: Ints) -> Array:
    return np.ascontiguousarray(placements, np.int32).reshape(-1)


def _placements(
    arrays: Mapping[str, Array], name: str, shape: tuple[int, int], devices: int
) -> Ints:
    found = vector(arrays, name, np.int32)
    if found.size != shape[0] * shape[1]:
        raise MalformedError(
            f"the array {name} has {found.size} entries, not {shape[0]} x {shape[1]}"
        )
    if found.size and not 0 <= int(found.min()) <= int(found.max()) < devices:
        raise MalformedError(f"the array {name} names a device that is not there")
    return found.reshape(shape)


_NUMBERS = [field.name for field in fields(DividedKernel) if field.name != "name"]


@dataclass(frozen=True)
class DivisionRow:
    """A bound whose kernels and prices are the arrays `division.*`.

    Attributes:
        seconds: no division, number of copies and placement takes less per inference.
        argument: why.
        first: as in `DivisionBound`.
        last: likewise.
    """

    seconds: Amount
    argument: str
    first: Index
    last: Index


def divisions_to_arrays(
    bound: DivisionBound | None, arrays: dict[str, Array]
) -> DivisionRow | None:
    """The row of a bound, and its arrays; None where there is none."""
    if bound is None:
        return None
    put_texts(arrays, "division.kernel", [kernel.name for kernel in bound.kernels])
    for name in _NUMBERS:
        kind = np.int64 if name.endswith("bytes") else np.float64
        arrays[f"division.{name}"] = np.array([getattr(k, name) for k in bound.kernels], kind)
    arrays["division.price"] = np.array(bound.prices, np.float64)
    arrays["division.forced"] = np.array(bound.forced_bytes, np.int64)
    return DivisionRow(bound.seconds, bound.argument, bound.first, bound.last)


def divisions_from_arrays(
    row: DivisionRow | None, arrays: Mapping[str, Array]
) -> DivisionBound | None:
    """Reads what `divisions_to_arrays` stored.

    Raises:
        MalformedError: for arrays that are missing or differ in length.
    """
    if row is None:
        return None
    columns = [list(texts(arrays, "division.kernel"))]
    for name in _NUMBERS:
        kind = np.int64 if name.endswith("bytes") else np.float64
        columns.append(vector(arrays, f"division.{name}", kind).tolist())
    if len({len(column) for column in columns}) > 1:
        raise MalformedError("the arrays division.* differ in length")
    kernels = tuple(DividedKernel(*values) for values in zip(*columns, strict=True))
    prices = tuple(vector(arrays, "division.price", np.float64).tolist())
    forced = tuple(vector(arrays, "division.forced", np.int64).tolist())
    return DivisionBound(row.seconds, row.argument, row.first, row.last, prices, forced, kernels)
