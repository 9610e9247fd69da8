"""A judge that plays no mapping twice."""

from __future__ import annotations

import numpy as np

from mcm_compiler.contracts.fabrics.fabric import Fabric
from mcm_compiler.contracts.fabrics.measurement import MappingJudge, Measurements
from mcm_compiler.contracts.fabrics.problem import MappingProblem, Mappings


class RememberingJudge:
    """Implements `MappingJudge` by another one, for one fabric and the problems of one compile.

    What a mapper has had measured needs no second play to be believed.

    Args:
        judge: measures what is not known yet.
    """

    def __init__(self, judge: MappingJudge) -> None:
        self._judge = judge
        self._known: dict[tuple[int, bytes, bytes], tuple[float, float, float]] = {}
        self._problems: dict[int, MappingProblem] = {}

    @property
    def name(self) -> str:
        return self._judge.name

    @property
    def physics(self) -> str:
        return self._judge.physics

    def bound_cycles(self, problem: MappingProblem, fabric: Fabric) -> float:
        return self._judge.bound_cycles(problem, fabric)

    def measure(self, problem: MappingProblem, fabric: Fabric, mappings: Mappings) -> Measurements:
        # A problem is kept, so that no other one gets its identity.
        self._problems[id(problem)] = problem
        keys = [
            (id(problem), site.astype(np.int32).tobytes(), turn.astype(np.int32).tobytes())
            for site, turn in zip(mappings.site, mappings.turn, strict=True)
        ]
        new = [row for row, key in enumerate(keys) if key not in self._known]
        if new:
            asked = Mappings(mappings.site[new], mappings.turn[new])
            found = self._judge.measure(problem, fabric, asked)
            for at, row in enumerate(new):
                self._known[keys[row]] = (
                    float(found.period_cycles[at]),
                    float(found.latency_cycles[at]),
                    float(found.error[at]),
                )
        figures = np.array([self._known[key] for key in keys], np.float64).reshape(-1, 3)
        return Measurements(figures[:, 0], figures[:, 1], figures[:, 2])
