"""The target's own cost models under the names by which they can be chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mcm_compiler.components.cost_choice import CostBasis, CostModelMaker
from mcm_compiler.contracts.cost import OpCosts


@dataclass(frozen=True)
class RooflineCosts(CostModelMaker):
    """What holds where nothing is chosen: the roofline for search, cycles for the simulator."""

    name: ClassVar[str] = "roofline"
    summary: ClassVar[str] = "roofline for search and bounds, the cycle model for the simulator"

    def make(self, basis: CostBasis) -> OpCosts:
        """The target's own model for the purpose at hand."""
        return basis.own


@dataclass(frozen=True)
class CycleCosts(CostModelMaker):
    """The simulator's durations for search and bounds, too."""

    name: ClassVar[str] = "cycles"
    summary: ClassVar[str] = "the simulator's durations of kernels, for search and bounds as well"

    def make(self, basis: CostBasis) -> OpCosts:
        """The model that gives kernels their durations."""
        return basis.played
