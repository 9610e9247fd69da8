"""Cells of the experiments: one method on one problem with one seed, and what is kept of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from mcm_compiler.components.target_loading import target_from_text
from mcm_models.policy.features import FEATURES_VERSION
from mcm_study.classical import Exact, Portfolio
from mcm_study.methods import Method
from mcm_study.problems import Setting, package
from tools.kept_records import KeptRecords, Record, digest_of


@dataclass(frozen=True)
class Cell:
    """One method on one problem with one seed.

    Attributes:
        experiment: which experiment it belongs to.
        graph: the problem's name in data and tables.
        setting: the problem.
        method: how it is searched.
        seed: of everything random.
    """

    experiment: str
    graph: str
    setting: Setting
    method: Method | Portfolio | Exact
    seed: int

    @property
    def method_name(self) -> str:
        """The method's name."""
        return self.method.name

    @property
    def key(self) -> str:
        """Names the cell, with a digest of all that decides its outcome but the code."""
        decisive = (
            self.setting,
            numbers_digest(package(self.setting).source_text),
            self.method.digest,
        )
        digest = digest_of(*decisive, FEATURES_VERSION)
        return f"{self.experiment} | {self.graph} | {self.method_name} | {self.seed} | {digest}"


@lru_cache(maxsize=16)
def numbers_digest(text: str) -> str:
    """A digest of a package's numbers but energy and area, which decide nothing here."""
    spec: Any = getattr(target_from_text("cell", text), "spec")  # noqa: B009 (not of all targets)
    return digest_of(dataclasses.replace(spec, summary="", energy=None, area=None))


def cells_of(
    experiment: str, graph: str, setting: Setting, methods: Iterable[Method], seeds: int
) -> list[Cell]:
    """The classical portfolio on a problem, then each method with each seed."""
    searched = [Cell(experiment, graph, setting, m, s) for m in methods for s in range(seeds)]
    return [Cell(experiment, graph, setting, Portfolio(), 0), *searched]


def graph_name(model: str) -> str:
    """The name of a zoo model in data and tables: that it has no weights goes without saying."""
    name = model.removeprefix("zoo:")
    return name.replace(",shape_only=true", "").replace("{shape_only=true}", "")


class KeptCells:
    """What is kept of cells, in a file of one JSON line per cell.

    Args:
        path: of the file; made with the first cell.
    """

    def __init__(self, path: Path) -> None:
        self._records = KeptRecords(path, "code")

    def find(self, cell: Cell, *, fresh: bool = False) -> Record | None:
        """What a cell came to; where `fresh`, only if the code has stayed as it was then."""
        return self._records.find(cell.key, fresh=fresh)

    def keep(self, cell: Cell, found: Record) -> None:
        """Appends what a cell came to."""
        self._records.keep({"key": cell.key} | found)

    def found(self, cells: Iterable[Cell]) -> list[tuple[Cell, Record]]:
        """Those of the cells that there is a record of."""
        known = ((cell, self.find(cell)) for cell in cells)
        return [(cell, record) for cell, record in known if record is not None]
