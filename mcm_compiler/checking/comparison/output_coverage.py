"""Outputs that are too uniform for their equality to show anything: empty, NaN, or constant.

An output that is empty, NaN, infinite or one and the same number in all its elements and in every
run agrees with many a wrong result. Such outputs are named, and inputs of other sizes are drawn to
do better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mcm_compiler.contracts.verification import StructureProof, WeakOutput
from mcm_compiler.diagnostics import Diagnostic, quote
from mcm_compiler.execution.runtime_values import is_exotic

REDRAWS = (("small", 2.0**-6), ("large", 2.0**6), ("positive", 0.0))
"""Inputs that are tried where standard normal ones show little, in this order: the same numbers
times a factor, or without their signs."""


def rescaled(feeds: Mapping[str, Any], factor: float) -> dict[str, Any]:
    """Inputs with other sizes; integers, which mean something, stay.

    Args:
        feeds: arrays by input; other values stay.
        factor: for floats; 0 takes their absolute values.
    """
    return {name: _rescaled(value, factor) for name, value in feeds.items()}


def _rescaled(value: Any, factor: float) -> Any:
    if isinstance(value, list):
        return [_rescaled(item, factor) for item in value]
    if not isinstance(value, np.ndarray) or not (value.dtype.kind == "f" or is_exotic(value.dtype)):
        return value
    if is_exotic(value.dtype) and not np.issubdtype(value.astype(np.float32).dtype, np.floating):
        return value
    numbers = value.astype(np.float64)
    made = np.abs(numbers) if factor == 0.0 else numbers * factor
    with np.errstate(over="ignore"):
        return made.astype(value.dtype)


def weak_outputs(
    names: Sequence[str], results: Sequence[Mapping[str, Any]]
) -> tuple[WeakOutput, ...]:
    """Outputs that are the same in all elements of all results, and what they are.

    Args:
        names: outputs to look at.
        results: of each run.
    """
    found: list[WeakOutput] = []
    for name in names:
        why = _weakness([result[name] for result in results])
        if why is not None:
            found.append(WeakOutput(name, why))
    return tuple(found)


def weakness_warnings(
    weak: Sequence[WeakOutput], structure: StructureProof | None
) -> list[Diagnostic]:
    """MCM-V064 for each output on which equality says nothing."""
    if structure is None:
        otherwise = "nothing else was compared"
    elif structure.whole:
        otherwise = f"all {structure.ops:,} ops are proven by structure"
    else:
        otherwise = f"{structure.proven:,} of {structure.ops:,} ops are proven by structure"
    return [
        Diagnostic(
            "MCM-V064",
            f"the output is {output.why} in every run, so that equal bits say nothing; {otherwise}",
            at=f"output {quote(output.output)}",
        )
        for output in weak
    ]


def _weakness(values: Sequence[Any]) -> str | None:
    arrays: list[np.ndarray] = []
    for value in values:
        if not isinstance(value, np.ndarray) or value.dtype.kind in "OUSc":
            return None
        arrays.append(value.astype(np.float32) if is_exotic(value.dtype) else value)
    if all(array.size == 0 for array in arrays):
        return "empty"
    flat = [array.reshape(-1) for array in arrays if array.size]
    if all(array.dtype.kind == "f" and bool(np.isnan(array).all()) for array in flat):
        return "NaN"
    if sum(array.size for array in flat) < 2:
        return None
    first = flat[0][0]
    if not all(bool((array == first).all()) for array in flat):
        return None
    infinite = flat[0].dtype.kind == "f" and bool(np.isinf(first))
    return "infinite" if infinite else f"{first.item():g} in all its elements"
