"""The learned mapping model, and the choice among models."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, cast

from mcm_compiler.contracts.fabrics.fabric import Fabric, MappingProblem
from mcm_compiler.contracts.fabrics.models import MappingModel, PreparedMappingModel
from mcm_compiler.registry import MAPPING_MODELS
from mcm_compiler.text import spec_text
from mcm_compiler.text.option_ranges import at_least, checked
from mcm_models.mapping_model import layout
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
        layout.check_learned(
            card, layout.Learned(layout.make_of(fabric), known.lowering, known.physics), self._place
        )
        return prepared_gnn(problem, fabric, card.layout, weights, self.wire)

    def check_learned_of(self, fabric: Fabric, lowering: str, physics: str) -> None:
        """See `mcm_compiler.contracts.fabrics.models.LearnedMappingModel`.

        Raises:
            CompileError: as `prepared`.
        """
        _, card = self._loaded()
        layout.check_learned(
            card, layout.Learned(layout.make_of(fabric), lowering, physics), self._place
        )

    @property
    def _place(self) -> str:
        return str(self._path)

    @property
    def _path(self) -> Path:
        return Path(self.checkpoint) if self.checkpoint else layout.SHIPPED_MAPPING_MODEL

    def _loaded(self) -> tuple[layout.Weights, layout.MappingCard]:
        path = self._path
        changed = path.stat().st_mtime_ns if path.is_file() else 0
        return _loaded(path, changed)


@lru_cache(maxsize=4)
def _loaded(path: Path, changed: int) -> tuple[layout.Weights, layout.MappingCard]:
    """Checkpoints by file and the time when it changed; the time only tells files apart."""
    del changed
    return layout.load_mapping_model(path)


@dataclass(frozen=True)
class Auto:
    """The winner of the recorded comparison of flows, where it was made on such a target.

    A flow with something that was fitted to measurements, coefficients or a network, stands for the
    make of fabric, the lowering and the physics that it was measured with; for others `auto` is the
    best flow without.
    """

    name: ClassVar[str] = "auto"
    summary: ClassVar[str] = "the model whose flow won the recorded comparison"

    def chosen_for(self, fabric: Fabric, lowering: str, physics: str) -> MappingModel:
        """See `mcm_compiler.contracts.fabrics.models.ChoosingMappingModel`."""
        found = recorded_flows()
        asked = {"make": layout.make_of(fabric), "lowering": lowering, "physics": physics}
        same = all(found[name] == value for name, value in asked.items())
        return _model(found["winner" if same else "elsewhere"])

    def prepared(self, problem: MappingProblem, fabric: Fabric) -> PreparedMappingModel:
        """Of a problem on a fabric, as on the target of the comparison."""
        found = recorded_flows()
        chosen = self.chosen_for(fabric, found["lowering"], found["physics"])
        return chosen.prepared(problem, fabric)


@cache
def recorded_flows() -> dict[str, Any]:
    """What `lcm_placers.py --write` wrote: who won, on which target, and with which figures."""
    text = files("mcm_passes.families.fabric.learning") / "flows.json"
    return json.loads(text.read_text(encoding="utf-8"))


def _model(text: str) -> MappingModel:
    return cast("MappingModel", MAPPING_MODELS.made(spec_text.parse_one(text)))
