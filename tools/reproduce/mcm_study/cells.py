"""Cells of the experiments: one method on one problem with one seed, and what is kept of them."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcm_models.policy.features import FEATURES_VERSION
from mcm_study.methods import Method
from mcm_study.problems import Setting, package

Record = dict[str, Any]

PACKAGES = ("mcm_compiler", "mcm_hardware", "mcm_models", "mcm_passes")


@dataclass(frozen=True)
class Cell:
    """One method on one problem with one seed.

    Attributes:
        experiment: which experiment it belongs to.
        graph: the problem's name in data and tables.
        setting: the problem.
        method: how it is searched; None for the classical portfolio.
        seed: of everything random.
    """

    experiment: str
    graph: str
    setting: Setting
    method: Method | None
    seed: int

    @property
    def method_name(self) -> str:
        """The method's name."""
        return "portfolio" if self.method is None else self.method.name

    @property
    def key(self) -> str:
        """Names the cell, with a digest of all that decides its outcome but the code."""
        inputs = [
            repr(self.setting),
            package(self.setting).source_text,
            "portfolio" if self.method is None else self.method.digest,
            str(FEATURES_VERSION),
        ]
        digest = hashlib.sha256("\0".join(inputs).encode()).hexdigest()[:12]
        return f"{self.experiment} | {self.graph} | {self.method_name} | {self.seed} | {digest}"


def cells_of(
    experiment: str, graph: str, setting: Setting, methods: Iterable[Method], seeds: int
) -> list[Cell]:
    """The classical portfolio on a problem, then each method with each seed."""
    searched = [Cell(experiment, graph, setting, m, s) for m in methods for s in range(seeds)]
    return [Cell(experiment, graph, setting, None, 0), *searched]


def graph_name(model: str) -> str:
    """The name of a zoo model in data and tables: that it has no weights goes without saying."""
    name = model.removeprefix("zoo:")
    return name.replace(",shape_only=true", "").replace("{shape_only=true}", "")


class KeptCells:
    """A file of one JSON line per cell, which lines are appended to; the last of a key counts.

    Args:
        path: of the file; made with the first cell.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._by_key: dict[str, Record] = {}
        self.code = code_digest()
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    record: Record = json.loads(line)
                except json.JSONDecodeError:
                    continue  # the run before ended in the middle of this line
                self._by_key[record["key"]] = record

    def find(self, cell: Cell, *, fresh: bool = False) -> Record | None:
        """What a cell came to; where `fresh`, only if the code has stayed as it was then."""
        record = self._by_key.get(cell.key)
        if record is None or (fresh and record["code"] != self.code):
            return None
        return record

    def keep(self, cell: Cell, found: Record) -> None:
        """Appends what a cell came to."""
        record = {"key": cell.key, "code": self.code} | found
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, allow_nan=False) + "\n")
        self._by_key[record["key"]] = record

    def found(self, cells: Iterable[Cell]) -> list[tuple[Cell, Record]]:
        """Those of the cells that there is a record of."""
        known = ((cell, self._by_key.get(cell.key)) for cell in cells)
        return [(cell, record) for cell, record in known if record is not None]


def code_digest() -> str:
    """A digest of the code that is measured."""
    digest = hashlib.sha256()
    for name in PACKAGES:
        folder = Path(str(importlib.import_module(name).__file__)).parent
        for path in sorted(p for p in folder.rglob("*") if p.suffix in {".py", ".toml"}):
            digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]
