"""The cost model `table`: measured times from a CSV file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from mcm_compiler.components.cost_choice import CostBasis, CostModelMaker
from mcm_compiler.contracts.cost import OpCosts
from mcm_hardware.measured_times.costs import MeasuredTimes
from mcm_hardware.measured_times.times_file import read_times


@dataclass(frozen=True)
class TableCosts(CostModelMaker):
    """Times by name of op or kernel, or by kind of op; the rest by the target's own model.

    Where the table has few of a model's kernels, what its rows have in common holds for the rest.

    Attributes:
        file: the table.
        chip: kind of chip whose rows hold, where the table is about several.
        factor: what times of the own model are multiplied by; None for the median of the rows'
            times over those of the own model, for the model that is compiled.

    Raises:
        ValueError: if the factor is no number above 0.
    """

    name: ClassVar[str] = "table"
    summary: ClassVar[str] = "measured times from a CSV file, the rest by the target's own model"
    files: ClassVar[tuple[str, ...]] = ("file",)

    file: str
    chip: str = ""
    factor: float | None = None

    def __post_init__(self) -> None:
        if self.factor is not None and not 0.0 < self.factor < math.inf:
            raise ValueError("factor has to be a number above 0")

    def make(self, basis: CostBasis) -> OpCosts:
        """Reads the table.

        Raises:
            CompileError: MCM-C005, one diagnostic per fault of the table.
        """
        times = _read_once(basis.files["file"], basis.paths["file"], self.chip)
        return MeasuredTimes(times, basis.own, 1.0 if self.factor is None else self.factor)


_read_once = lru_cache(maxsize=1)(read_times)
"""For search and for the simulator."""
