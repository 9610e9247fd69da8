"""The network as a mapping model, with its problems in mind.

A prepared model answers for batches, and shows its features, for training.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np

from mapping_network import feature_kernels, layout, network_kernels
from mapping_network.graphs import MappingGraph
from mapping_network.layout import MappingLayout, Singles, Weights
from mcm_compiler.arrays.types import Floats, Ints
from mcm_compiler.contracts.fabrics.fabric import Fabric, MappingProblem, Mappings
from mcm_compiler.text.option_fields import at_least, checked
from mcm_models.mapping_model.data_set import Learned, make_of
from mcm_passes.families.fabric.formulas.analytic import Formula, Prepared, RoundTrips, room_of
from mcm_passes.families.fabric.routing_trees import room_for

NOTED = 0.01
"""Corrections of the formula by less, in logarithms, are left out: they are smaller than the
network's errors, and would make an order of noise among mappings that are equal."""

LARGEST = 10.0
"""Logarithms beyond this are cut off, so that no answer is infinite."""


@dataclass(frozen=True, eq=False)
class PreparedGnn(Prepared):
    """For many mappings of one problem on one fabric.

    Attributes:
        layout: of the network.
        corrected: the formula that the network corrects. Not named `formula`, by which mappers
            recognise models that are nothing else.
        features: static ones of units and branches.
        network: weights with the problem in mind.
        wire: weight of the mean load of links in what search minimises.
        noted: least correction of the formula that is made; see `NOTED`.
    """

    layout: MappingLayout
    corrected: Formula
    features: tuple[Singles, Singles]
    network: network_kernels.Network
    wire: float = 0.0
    noted: float = NOTED

    def period_cycles(self, mappings: Mappings) -> Floats:
        """`[B]`, cycles per sample; never below the bound of the problem.

        Raises:
            ValueError: for mappings that are not legal.
        """
        return self._period(self._answers(mappings))

    def search_cost(self, mappings: Mappings) -> Floats:
        """`[B]`, the period with a term for the length of wires, in cycles.

        Raises:
            ValueError: as `period_cycles`.
        """
        answers = self._answers(mappings)
        return self._period(answers) + self.wire * self.corrected.facts.bound * answers[:, 2]

    def latency_cycles(self, mappings: Mappings) -> Floats:
        """`[B]`, cycles until the first sample has left.

        Raises:
            ValueError: as `period_cycles`.
        """
        logarithm = self._answers(mappings)[:, 1]
        return self.corrected.facts.bound * np.exp(np.clip(logarithm, -LARGEST, LARGEST))

    def graphs(self, mappings: Mappings) -> list[MappingGraph]:
        """The features that the network sees of each mapping.

        Raises:
            ValueError: as `period_cycles`.
        """
        pairs = zip(*self.checked(mappings), strict=True)
        evaluation = self._evaluation()
        return [self._graph(evaluation, site, turn) for site, turn in pairs]

    def _graph(
        self, evaluation: network_kernels.Evaluation, site: Ints, turn: Ints
    ) -> MappingGraph:
        network_kernels.look_at(evaluation, site, turn)
        seen = evaluation.seen
        links, pairs = int(seen.sizes[0]), int(seen.pair_ptr[-1])
        static_units, static_branches = self.features
        return MappingGraph(
            op=self.problem.op.astype(np.int32),
            units=np.concatenate([static_units, seen.units.T], axis=1),
            source=self.network.source,
            target=self.network.target,
            branches=np.concatenate([static_branches, seen.branches.T], axis=1),
            links=seen.links[:, :links].T.copy(),
            pair_branch=np.repeat(
                np.arange(len(self.network.source), dtype=np.int32), np.diff(seen.pair_ptr)
            ),
            pair_link=seen.pair_link[:pairs].copy(),
            pair_weight=seen.pair_weight[:pairs].copy(),
            whole=seen.whole.copy(),
        )

    def _period(self, answers: Floats) -> Floats:
        guess, formula = answers[:, 0], answers[:, 3]
        noted = np.where(np.abs(guess - formula) < self.noted, formula, guess)
        return self.corrected.facts.bound * np.exp(np.clip(noted, 0, LARGEST))

    def _answers(self, mappings: Mappings) -> Floats:
        answers = np.empty((len(mappings), 4))
        network_kernels.answer_all(self._evaluation(), *self.checked(mappings), answers)
        return answers

    def _evaluation(self) -> network_kernels.Evaluation:
        grid = self.corrected.tables.grid
        return network_kernels.Evaluation(
            self.corrected,
            self.network,
            self.problem.num_stages,
            room_for(self.corrected.tables),
            room_of(self.corrected),
            feature_kernels.seen_for(self.corrected),
            network_kernels.vectors_for(self.layout, self.network, 4 * grid.rows * grid.cols),
        )


def prepared_gnn(
    problem: MappingProblem,
    fabric: Fabric,
    layout: MappingLayout,
    weights: Weights,
    wire: float = 0.0,
) -> PreparedGnn:
    """Works out what no mapping changes."""
    formula = RoundTrips().prepared(problem, fabric).formula
    features = (
        feature_kernels.unit_features(problem, fabric, formula.facts),
        feature_kernels.branch_features(problem, fabric, formula.facts),
    )
    source = problem.source[problem.stream_of_leaf]
    network = network_kernels.network_for(weights, problem.op, features, (source, problem.leaf))
    return PreparedGnn(problem, fabric, layout, formula, features, network, wire)


@dataclass(frozen=True)
@checked(wire=at_least(0))
class Gnn:
    """A graph network that has learned what the judge measured.

    Attributes:
        checkpoint: file that `mcmc train mapping-network` wrote; that of the record if empty.
        wire: weight of the mean load of links in what search minimises.
    """

    name: ClassVar[str] = "gnn"
    summary: ClassVar[str] = "round trips corrected by a graph network that learned from the judge"

    checkpoint: str = ""
    wire: float = 1.0

    def prepared(self, problem: MappingProblem, fabric: Fabric) -> PreparedGnn:
        """Of a problem on a fabric.

        Raises:
            CompileError: MCM-M050 or M052 for checkpoints that cannot be used, MCM-M053 for one
                that has learned of fabrics of another make.
        """
        weights, card = self._loaded()
        known = card.learned
        layout.check_learned(
            card, Learned(make_of(fabric), known.lowering, known.physics), self._place
        )
        return prepared_gnn(problem, fabric, card.layout, weights, self.wire)

    def check_learned_of(self, fabric: Fabric, lowering: str, physics: str) -> None:
        """See `mcm_compiler.contracts.fabrics.mappers.LearnedMappingModel`.

        Raises:
            CompileError: as `prepared`.
        """
        _, card = self._loaded()
        layout.check_learned(card, Learned(make_of(fabric), lowering, physics), self._place)

    @property
    def _place(self) -> str:
        return str(self._path)

    @property
    def _path(self) -> Path:
        return Path(self.checkpoint) if self.checkpoint else layout.RECORDED_NETWORK

    def _loaded(self) -> tuple[layout.Weights, layout.MappingCard]:
        path = self._path
        changed = path.stat().st_mtime_ns if path.is_file() else 0
        return _loaded(path, changed)


@lru_cache(maxsize=4)
def _loaded(path: Path, changed: int) -> tuple[layout.Weights, layout.MappingCard]:
    """Checkpoints by file and the time when it changed; the time only distinguishes files."""
    del changed
    return layout.MAPPING_MODELS.load(path)
