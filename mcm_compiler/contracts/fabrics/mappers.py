"""The contract of mappers, which search for the mapping with the shortest period."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from mcm_compiler.contracts.described import Named
from mcm_compiler.contracts.fabrics.fabric import Fabric, MappingProblem, Mappings
from mcm_compiler.contracts.fabrics.measurement import MappingJudge
from mcm_compiler.contracts.fabrics.models import PreparedMappingModel


@dataclass(frozen=True)
class MapperRequest:
    """Request to a mapper; settings of single mappers are their own options.

    Attributes:
        evaluations: mappings that it may ask the model about.
        measurements: mappings that it may have measured.
        seed: of everything random.
        budget_s: CPU time of the thread, or None; with one, results need not be reproducible.
        start: a mapping to start from, or None.
    """

    evaluations: int = 20_000
    measurements: int = 6
    seed: int = 0
    budget_s: float | None = None
    start: Mappings | None = None


@dataclass(frozen=True, eq=False)
class MapperAnswer:
    """Result of a mapper.

    Attributes:
        mapping: one legal mapping, as a batch of one.
        method: search method, for reports.
        evaluations: mappings that the model was asked about.
        measurements: mappings that were measured.
        period_cycles: of the mapping: measured, or else predicted.
        latency_cycles: as measured; 0 if nothing was.
        history: pairs of evaluations and the best cost by then, ascending; for curves.
    """

    mapping: Mappings
    method: str
    evaluations: int
    measurements: int
    period_cycles: float
    latency_cycles: float = 0.0
    history: tuple[tuple[int, float], ...] = ()


class Mapper(Named, Protocol):
    """Lays problems out on fabrics: a frozen dataclass whose fields are its options.

    Registered by name as kind `mapper`.
    """

    def map(
        self,
        problem: MappingProblem,
        fabric: Fabric,
        model: PreparedMappingModel,
        judge: MappingJudge,
        request: MapperRequest,
        progress: Callable[[str], None],
    ) -> MapperAnswer:
        """Searches for a legal mapping with a short period.

        Chips are mapped side by side: threads call it at the same time.

        Args:
            problem: one in which `legality` finds no fault.
            fabric: what it is laid out on.
            model: guesses periods.
            judge: measures them.
            request: see there.
            progress: called with what happens next.

        Raises:
            CompileError: MCM-M0## where it cannot do with the problem or the fabric at all.
        """
        ...
