"""The mapping model `gnn`: a network that corrects the best formula, without JAX."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from mcm_compiler.contracts.fabrics.fabric import Fabric, MappingProblem
from mcm_compiler.text.option_ranges import at_least, checked
from mcm_models.mapping_model.checkpoint import (
    SHIPPED_MAPPING_MODEL,
    Learned,
    MappingCard,
    check_learned,
    load_mapping_model,
    make_of,
)
from mcm_models.mapping_model.layout import Weights
from mcm_passes.families.fabric.learning.prepared import PreparedGnn, prepared_gnn


@dataclass(frozen=True)
@checked(wire=at_least(0))
class Gnn:
    """A graph network that has learned what the judge measured.

    Attributes:
        checkpoint: file that `mcmc train mapping-model` wrote; the compiler's own if empty.
        wire: weight of the mean load of links in what search minimises.
    """

    name: ClassVar[str] = "gnn"
    summary: ClassVar[str] = "round trips corrected by a graph network that learned from the judge"

    checkpoint: str = ""
    wire: float = 1.0

    def prepared(self, problem: MappingProblem, fabric: Fabric) -> PreparedGnn:
        """Of a problem on a fabric.

        Raises:
            CompileError: MCM-M050 to M052 for checkpoints that cannot be used, MCM-M053 for one
                that has learned of fabrics of another make.
        """
        weights, card = self._loaded()
        known = card.learned
        check_learned(card, Learned(make_of(fabric), known.lowering, known.physics), self._place)
        return prepared_gnn(problem, fabric, card.layout, weights, self.wire)

    def check_learned_of(self, fabric: Fabric, lowering: str, physics: str) -> None:
        """See `mcm_compiler.contracts.fabrics.models.LearnedMappingModel`.

        Raises:
            CompileError: as `prepared`.
        """
        _, card = self._loaded()
        check_learned(card, Learned(make_of(fabric), lowering, physics), self._place)

    @property
    def _place(self) -> str:
        return str(self._path)

    @property
    def _path(self) -> Path:
        return Path(self.checkpoint) if self.checkpoint else SHIPPED_MAPPING_MODEL

    def _loaded(self) -> tuple[Weights, MappingCard]:
        path = self._path
        changed = path.stat().st_mtime_ns if path.is_file() else 0
        return _loaded(path, changed)


@lru_cache(maxsize=4)
def _loaded(path: Path, changed: int) -> tuple[Weights, MappingCard]:
    """Checkpoints by file and the time when it changed; the time only tells files apart."""
    del changed
    return load_mapping_model(path)
