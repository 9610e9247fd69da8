"""The contract of mappers, which search for the mapping with the shortest period."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from mcm_compiler.contracts.described import Named
from mcm_compiler.contracts.fabrics.fabric import Fabric, MappingProblem, Mappings
from mcm_compiler.contracts.fabrics.measurement import MappingJudge
from mcm_compiler.contracts.fabrics.models import PreparedMappingModel
from mcm_compiler.contracts.requests import SearchAnswer, SearchRequest


@dataclass(frozen=True, eq=False)
class MapperRequest(SearchRequest):
    """Request to a mapper: candidates are mappings that it asks the model about.

    The time limit is CPU time of the thread.

    Attributes:
        problem: one in which `legality` finds no fault.
        fabric: where its units go.
        model: predicts periods.
        judge: measures them.
        measurements: mappings that it may have measured.
    """

    problem: MappingProblem
    fabric: Fabric
    model: PreparedMappingModel
    judge: MappingJudge
    measurements: int = 6


@dataclass(frozen=True, eq=False)
class MapperAnswer(SearchAnswer[Mappings]):
    """Result of a mapper: one legal mapping, as a batch of one.

    Attributes:
        measurements: mappings that were measured.
        period_cycles: of the mapping: measured, or else predicted.
        latency_cycles: as measured; 0 if nothing was.
    """

    measurements: int = 0
    period_cycles: float = 0.0
    latency_cycles: float = 0.0

    @property
    def mapping(self) -> Mappings:
        """The mapping."""
        return self.found


class Mapper(Named, Protocol):
    """Lays problems out on fabrics: a frozen dataclass whose fields are its options.

    Registered by name as kind `mapper`.
    """

    def map(self, request: MapperRequest) -> MapperAnswer:
        """Searches for a legal mapping with a short period.

        Chips are mapped side by side: threads call it at the same time.

        Raises:
            CompileError: MCM-M0## where it supports neither the problem nor the fabric.
        """
        ...
