"""A judge and mapping models that are made up, for tests of mappers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mcm_compiler.arrays.types import Floats
from mcm_compiler.contracts.fabrics.fabric import Fabric, MappingProblem, Mappings
from mcm_compiler.contracts.fabrics.measurement import Measurements
from mcm_compiler.contracts.fabrics.models import PreparedMappingModel


@dataclass(eq=False)
class SumJudge:
    """Takes the sum of all site numbers for the period; remembers what it measured."""

    seen: list[Mappings] = field(default_factory=list[Mappings])

    @property
    def name(self) -> str:
        return "sum"

    @property
    def physics(self) -> str:
        return "none"

    def bound_cycles(self, problem: MappingProblem, fabric: Fabric) -> float:
        return 1.0

    def measure(self, problem: MappingProblem, fabric: Fabric, mappings: Mappings) -> Measurements:
        self.seen.append(mappings)
        period = mappings.site.sum(axis=1).astype(np.float64)
        return Measurements(period, period * 10, np.zeros(len(mappings)))


def _as_it_is(answer: Floats) -> Floats:
    return answer


@dataclass(eq=False)
class PluginModel:
    """A model without a formula: answers as another one does, or with what it is told to."""

    inner: PreparedMappingModel
    spoil: Callable[[Floats], Any] = _as_it_is
    asked: int = 0

    def period_cycles(self, mappings: Mappings) -> Floats:
        return self.spoil(self.inner.period_cycles(mappings))

    def search_cost(self, mappings: Mappings) -> Floats:
        self.asked += len(mappings)
        return self.spoil(self.inner.search_cost(mappings))
