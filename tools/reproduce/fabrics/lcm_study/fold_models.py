"""Networks of cross-validation, one a fold, kept in a folder so that a stopped study goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from mapping_network.layout import (
    MAPPING_MODELS,
    LearningSettings,
    MappingCard,
    MappingLayout,
    Weights,
    initial_weights,
)
from mapping_network.rounds import seen_graphs

from mcm_models.mapping_model.data_set import MappingData

if TYPE_CHECKING:
    from mapping_network.training import SeenGraph

LAYOUT = MappingLayout()


class FoldModels:
    """Trains networks on parts of a data set, or reads those that are there.

    Args:
        data: whole.
        settings: of all trainings.
        folder: for their weights.
    """

    def __init__(self, data: MappingData, settings: LearningSettings, folder: Path) -> None:
        self._data, self._settings, self._folder = data, settings, folder
        self._seen: list[SeenGraph] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    def without_graphs(self, held: Sequence[int], fold: int, seed: int) -> Weights:
        """Weights that have learned from all graphs but some."""
        inside = set(held)
        return self._weights(f"graphs-{fold}-{seed}", seed, inside, {})

    def without_mappings(self, held: dict[int, np.ndarray], fold: int, seed: int) -> Weights:
        """Weights that have learned from all mappings but some, `[B]` true, of each graph."""
        return self._weights(f"mappings-{fold}-{seed}", seed, set(), held)

    def _weights(
        self, name: str, seed: int, graphs: set[int], mappings: dict[int, np.ndarray]
    ) -> Weights:
        path = self._folder / f"{name}.safetensors"
        if path.exists():
            return MAPPING_MODELS.load(path)[0]
        from mapping_network.training import fresh_state, learn

        if self._seen is None:
            self._seen = seen_graphs(self._data.fabric, self._data.graphs)
        seen = [
            replace(graph, weight=graph.weight * ~mappings[k]) if k in mappings else graph
            for k, graph in enumerate(self._seen)
        ]
        known = [graph for k, graph in enumerate(seen) if k not in graphs]
        beside = [graph for k, graph in enumerate(seen) if k in graphs]
        state = fresh_state(self._settings, initial_weights(LAYOUT, seed))
        end = learn(LAYOUT, self._settings, state, known, seed, lambda _, __: None, beside)
        MAPPING_MODELS.save(path, end.weights, MappingCard(LAYOUT, self._data.learned))
        return end.weights
