"""`mcmc train mapping-network`: measures blocks, learns from them, and from its own optima."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mapping_network.gnn import PreparedGnn, prepared_gnn
from mapping_network.layout import (
    MAPPING_MODELS,
    LearningSettings,
    MappingCard,
    MappingLayout,
    Weights,
    initial_weights,
)
from mapping_network.rounds import optimism, own_optima, seen_graphs, with_more
from mcm_compiler.components.extras import LEARN
from mcm_compiler.contracts.fabrics.target import MapsChips
from mcm_compiler.contracts.training import TrainingProgress, TrainingRequest, TrainingResult
from mcm_compiler.text.option_fields import above, at_least, checked, from_to
from mcm_models import training_run
from mcm_models.mapping_model.data_files import data_digest
from mcm_models.mapping_model.data_set import MeasuredGraph
from mcm_passes.families.fabric.learning import mapping_trainer
from mcm_passes.families.fabric.learning.collecting import CollectionSize, learned_of
from mcm_passes.families.fabric.learning.mapping_trainer import guesses, judged

MODEL_NAME = "mapping-network.safetensors"


@dataclass(frozen=True)
@checked(
    epochs=at_least(1),
    later_epochs=at_least(1),
    learning_rate=above(0),
    ranking=at_least(0),
    rounds=at_least(0),
    optima=at_least(1),
    evaluations=at_least(1),
    width=from_to(4, 64),
    messages=from_to(1, 4),
)
class NetworkTrainer(CollectionSize):
    """Trains the network; see `mcm_compiler.contracts.training.Trainer`.

    Attributes:
        target: whose chips are fabrics: the blocks are laid out and measured on one.
        epochs: passes over all graphs.
        later_epochs: of each round after the first training.
        learning_rate: of Adam.
        ranking: weight of the order within a graph, next to the error.
        rounds: of measuring optima of searches with the model, and learning from them.
        optima: mappings of each graph that a round measures.
        evaluations: of each of these searches.
        width: of the network.
        messages: rounds of messages in the network.
    """

    name: ClassVar[str] = "mapping-network"
    summary: ClassVar[str] = "the network that predicts periods of mapped fabrics"
    extra: ClassVar[str] = LEARN

    target: str = "fabric-12"
    epochs: int = LearningSettings.epochs
    later_epochs: int = 25
    learning_rate: float = LearningSettings.learning_rate
    ranking: float = LearningSettings.ranking
    rounds: int = 1
    optima: int = 1
    evaluations: int = 1500
    width: int = 16
    messages: int = 2

    def train(self, request: TrainingRequest, tell: training_run.Tell) -> TrainingResult:
        """Trains and writes the checkpoint; a stopped training resumes its measurements alone.

        Raises:
            CompileError: as `mcmc train mapping-model`.
            FloatingPointError: where the training diverges.
        """
        target = mapping_trainer.fabric_target(self.target)
        with training_run.training_folder(request) as folder:
            blocks = mapping_trainer.measured_blocks(self, target, request, tell)
            data, held, known = blocks
            weights = initial_weights(self.layout, request.seed)
            for number in range(self.rounds + 1):
                if number:
                    optima = self._optima(target, weights, known, (request.seed, f"round {number}"))
                    known = [with_more(old, new) for old, new in zip(known, optima, strict=True)]
                weights = self._learned(target, weights, known, request.seed, number, tell)
            optima = self._optima(target, weights, held, (request.seed, "held out"))

            def prepare(graph: MeasuredGraph) -> PreparedGnn:
                return prepared_gnn(graph.problem, target.fabric, self.layout, weights)

            scores = dataclasses.asdict(judged(guesses(prepare, held), held))
            scores["own_optimum"] = optimism(target, (self.layout, weights), optima)
            samples = sum(len(graph) for graph in known)
            trained_on = {
                "options": dataclasses.asdict(self),
                "seed": request.seed,
                "fabric": target.fabric.name,
                "measurements": samples,
                "scores": {name: round(score, 4) for name, score in scores.items()},
                "versions": training_run.versions_of("numpy", "numba", "jax", "optax"),
                "data": data_digest(data),
            }
            card = MappingCard(self.layout, learned_of(target), trained_on)
            MAPPING_MODELS.save(folder / MODEL_NAME, weights, card)
        left_out = mapping_trainer.left_out(data, self)
        meaning = f"{mapping_trainer.meaning(held)}, and relative error at its own optima"
        return TrainingResult(folder / MODEL_NAME, samples, scores, left_out, meaning)

    @property
    def layout(self) -> MappingLayout:
        """Of the network."""
        return MappingLayout(self.width, self.messages)

    def _learned(
        self,
        target: MapsChips,
        weights: Weights,
        graphs: Sequence[MeasuredGraph],
        seed: int,
        number: int,
        tell: training_run.Tell,
    ) -> Weights:
        from mapping_network.training import fresh_state, learn

        settings = LearningSettings(
            epochs=self.later_epochs if number else self.epochs,
            learning_rate=self.learning_rate * (0.3 if number else 1.0),
            ranking=self.ranking,
        )

        def told(progress: TrainingProgress) -> None:
            tell(dataclasses.replace(progress, phase=f"learning, round {number}"))

        state, seen = fresh_state(settings, weights), seen_graphs(target.fabric, graphs)
        end = learn(
            self.layout, settings, state, seen, seed + number, lambda _, __: None, tell=told
        )
        return end.weights

    def _optima(
        self,
        target: MapsChips,
        weights: Weights,
        graphs: Sequence[MeasuredGraph],
        purpose: tuple[int, str],
    ) -> list[MeasuredGraph]:
        seed, text = purpose
        amounts = self.optima, self.evaluations
        return [
            own_optima(
                target,
                (self.layout, weights),
                graph,
                *amounts,
                (seed, f"optima of graph {index}, {text}"),
            )
            for index, graph in enumerate(graphs)
        ]
