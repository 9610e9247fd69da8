"""Asking a mapping model that may be anyone's, and not trusting what it says."""

from __future__ import annotations

import numpy as np

from mcm_compiler.arrays.types import Floats
from mcm_compiler.contracts.fabrics.fabric import Mappings
from mcm_compiler.contracts.fabrics.models import PreparedMappingModel
from mcm_compiler.diagnostics import CompileError, Diagnostic

NO_PERIODS = "MCM-M041"
"""Code of answers that are not finite and positive."""


def asked_costs(model: PreparedMappingModel, mappings: Mappings) -> Floats:
    """`[B]`, what search minimises.

    Raises:
        CompileError: MCM-M040 where the model answers with another shape than one number per
            mapping; MCM-M041 where one is not finite and positive.
    """
    return _checked(model, "search_cost", model.search_cost(mappings), len(mappings))


def asked_periods(model: PreparedMappingModel, mappings: Mappings) -> Floats:
    """`[B]`, the periods that it expects; raises as `asked_costs`."""
    return _checked(model, "period_cycles", model.period_cycles(mappings), len(mappings))


def _checked(model: PreparedMappingModel, method: str, answer: object, count: int) -> Floats:
    name = type(model).__name__
    try:
        values = np.asarray(answer, np.float64)
    except (TypeError, ValueError):
        values = None
    if values is None or values.shape != (count,):
        found = type(answer).__name__ if values is None else f"shape {values.shape}"
        raise CompileError(
            Diagnostic(
                "MCM-M040",
                f"{method} was asked about {count} mappings and answered {found}",
                at=f"mapping model {name}",
                hint="A mapping model answers with one number per mapping, shape "
                f"({count},); fix the model, or choose another one.",
            )
        )
    wrong = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
    if len(wrong):
        raise CompileError(
            Diagnostic(
                NO_PERIODS,
                f"{method} answered {values[wrong[0]]} for mapping {wrong[0]}; {len(wrong)} of "
                f"{count} answers are no finite numbers above 0",
                at=f"mapping model {name}",
                hint="A mapping model expects finite cycles above 0; fix the model, or choose "
                "another one.",
            )
        )
    return values
