"""What was found besides the placement, as rows of a certificate's head and arrays.

Figures of other numbers of pipelines, and of search with and without learning, are worth nothing
without the placements that they are of: with them, whoever reads can derive the figures again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mcm_compiler.artifact.json_shapes import Flag, ListOf, Maybe, Number, Record, Text, Whole
from mcm_compiler.certificate.problem_arrays import Array, MalformedError, vector
from mcm_compiler.partition import Ints, LearnedGain, LowerBound
from mcm_compiler.replication import PipelineCount

_COUNT = Whole(1, 2**31 - 1)

MAX_ROWS = 64
"""Placements of one number of pipelines."""

CONSIDERED = ListOf(
    Record(
        {
            "pipelines": _COUNT,
            "devices_each": _COUNT,
            "placements": Whole(0, MAX_ROWS),
            "period_s": Maybe(Number()),
            "simulated_period_s": Maybe(Number()),
            "bound": Maybe(Record({"seconds": Number(), "proof": Text(), "argument": Text()})),
            "ruled_out": Text(),
        }
    )
)
"""Seconds are those of the package between inferences; those of a bound are one pipeline's."""

LEARNED = Maybe(Record({"share": Number(), "simulated": Flag(), "learned": Flag()}))


def considered_to_arrays(
    considered: Sequence[PipelineCount], arrays: dict[str, Array]
) -> list[dict[str, Any]]:
    """Rows of the head; placements are added to `arrays`."""
    rows: list[dict[str, Any]] = []
    for index, one in enumerate(considered):
        if one.partitions is not None:
            arrays[f"considered.{index}.device"] = _flat(one.partitions)
        bound = one.bound
        rows.append(
            {
                "pipelines": one.replicas,
                "devices_each": one.chips_each,
                "placements": 0 if one.partitions is None else len(one.partitions),
                "period_s": one.analytic_s,
                "simulated_period_s": one.simulated_s,
                "bound": bound
                and {"seconds": bound.seconds, "proof": bound.proof, "argument": bound.argument},
                "ruled_out": one.ruled_out,
            }
        )
    return rows


def considered_from_arrays(
    rows: Sequence[Mapping[str, Any]], arrays: Mapping[str, Array], units: int
) -> tuple[PipelineCount, ...]:
    """What `considered_to_arrays` stored.

    Raises:
        MalformedError: where placements are missing or are none.
    """
    found: list[PipelineCount] = []
    for index, row in enumerate(rows):
        count, each, bound = row["placements"], row["devices_each"], row["bound"]
        name = f"considered.{index}.device"
        placements = _placements(arrays, name, (count, units), each) if count else None
        if (placements is None) != (row["period_s"] is None):
            raise MalformedError(f"considered[{index}] has a period or placements, not both")
        found.append(
            PipelineCount(
                replicas=row["pipelines"],
                chips_each=each,
                analytic_s=_float(row["period_s"]),
                simulated_s=_float(row["simulated_period_s"]),
                bound=bound
                and LowerBound(float(bound["seconds"]), bound["argument"], bound["proof"]),
                ruled_out=row["ruled_out"],
                partitions=placements,
            )
        )
    return tuple(found)


def learned_to_arrays(
    learned: LearnedGain | None, arrays: dict[str, Array]
) -> dict[str, Any] | None:
    """An entry of the head; placements are added to `arrays`."""
    if learned is None:
        return None
    arrays["learned.without.device"] = _flat(learned.classical)
    if learned.learned is not None:
        arrays["learned.with.device"] = _flat(learned.learned)
    return {
        "share": learned.share,
        "simulated": learned.simulated,
        "learned": learned.learned is not None,
    }


def learned_from_arrays(
    entry: Mapping[str, Any] | None, arrays: Mapping[str, Array], units: int
) -> LearnedGain | None:
    """What `learned_to_arrays` stored.

    Raises:
        MalformedError: where placements are missing or are none.
    """
    if entry is None:
        return None
    most = 2**31 - 1
    classical = _placements(arrays, "learned.without.device", (1, units), most)[0]
    learned = None
    if entry["learned"]:
        learned = _placements(arrays, "learned.with.device", (1, units), most)[0]
    return LearnedGain(float(entry["share"]), entry["simulated"], classical, learned)


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


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)
