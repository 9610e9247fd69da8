"""The bound over all divisions, as a row of the certificate's head and arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

from mcm_compiler.certificate.stored_problem import Array, MalformedError, put_texts, texts, vector
from mcm_compiler.contracts.sharding.divisions import DividedKernel, DivisionBound
from mcm_compiler.text.json_text import Amount, Index

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
