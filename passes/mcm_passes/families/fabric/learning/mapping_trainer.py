"""`mcmc train mapping-model`: measures blocks, learns from them, and from its own optima."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from msgspec import Struct

from mcm_compiler.components.extras import LEARN
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.contracts.fabrics.fabric import same_problem
from mcm_compiler.contracts.fabrics.target import MapsChips
from mcm_compiler.contracts.training import TrainingProgress, TrainingRequest, TrainingResult
from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.processes.private_folders import remove_stale
from mcm_compiler.processes.staging import write_whole
from mcm_compiler.text.option_ranges import above, at_least, checked, from_to
from mcm_compiler.text.units import count_text
from mcm_models import training_run
from mcm_models.mapping_model.data_files import data_digest, load_data, save_data
from mcm_models.mapping_model.data_set import MappingData, MeasuredGraph
from mcm_models.mapping_model.figures import folds
from mcm_models.mapping_model.layout import (
    MAPPING_MODELS,
    LearningSettings,
    MappingCard,
    MappingLayout,
    Weights,
    initial_weights,
)
from mcm_passes.families.fabric.annealing.measured import NO_PERIODS
from mcm_passes.families.fabric.learning.collecting import (
    CollectionSize,
    check_same,
    collect,
    learned_of,
)
from mcm_passes.families.fabric.learning.gnn import PreparedGnn, prepared_gnn
from mcm_passes.families.fabric.learning.rounds import (
    LEARNED_ERROR,
    MOST_ERROR,
    guesses,
    judged,
    optimism,
    own_optima,
    seen_graphs,
)

MODEL_NAME, CARD_NAME, ASKED_NAME = "mapping-model.safetensors", "mapping-model.json", "asked.json"
COLLECTION_NAME = "collection"

HELD_OUT = 10
"""One graph in so many tells how good the model is; nothing is learned from it."""

SAVED_EVERY = 5
"""Epochs between two times at which the state is saved."""

TRAININGS = training_run.TrainingKind.stopped("MCM-M059", most_bytes=1 << 23)
"""The state of a round has weights and two moments of each."""

Model = tuple[MappingLayout, Weights]


class _Numbers(Struct, frozen=True):
    epoch: int


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
class MappingTrainer(CollectionSize):
    """Trains the mapping model; see `mcm_compiler.contracts.training.Trainer`.

    Attributes:
        target: whose chips are fabrics: the blocks are laid out and measured on one.
        epochs: looks at every graph.
        later_epochs: of each round after the first training.
        learning_rate: of Adam.
        ranking: weight of the order within a graph, beside the error.
        rounds: of measuring what searches with the model find, and learning from it.
        optima: mappings of each graph that a round measures.
        evaluations: of each of these searches.
        width: of the network.
        messages: rounds of messages in the network.

    Raises:
        ValueError: for numbers out of range.
    """

    name: ClassVar[str] = "mapping-model"
    summary: ClassVar[str] = "the model that guesses how fast a mapped fabric is"
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
        """Trains and writes the checkpoint with its card.

        Raises:
            CompileError: MCM-A001 if the folder is not empty and nothing is resumed, MCM-M054 to
                M057 for data that are none of this training, MCM-M058 where it diverges, MCM-M059
                where it cannot go on, MCM-M060 for a target without fabrics, MCM-M061 for too few
                graphs, or too few whose periods are known.
        """
        target = _fabric_target(self.target)
        with training_run.training_folder(request) as folder:
            asked = {**dataclasses.asdict(self), "seed": request.seed}
            TRAININGS.begin(folder, asked, ASKED_NAME)
            # Of a process that was killed while it wrote.
            remove_stale(folder / COLLECTION_NAME)
            return _Training(self, request, target, tell).run()


class _Training:
    """One training; what is done already lies in its folder."""

    def __init__(
        self,
        trainer: MappingTrainer,
        request: TrainingRequest,
        target: MapsChips,
        tell: training_run.Tell,
    ) -> None:
        self.trainer, self.request, self.target, self.tell = trainer, request, target, tell
        self.folder, self.seed = request.folder, request.seed
        self.learned = learned_of(target)

    def run(self) -> TrainingResult:
        trainer, folder = self.trainer, self.folder / COLLECTION_NAME
        data = collect(self.target, trainer, self.seed, folder, self._collected)
        held, known = split(data.graphs, self.seed, data.left_out)
        check_labels(held, known)
        weights = self._model(0, known, initial_weights(self._layout, self.seed))
        for number in range(1, trainer.rounds + 1):
            optima = self._optima(number, f"round {number}", weights, known)
            known = [graph.with_more(new) for graph, new in zip(known, optima, strict=True)]
            weights = self._model(number, known, weights)
        found = judged(guesses(self._prepares(weights), held), held)
        optima = self._optima(0, "held out", weights, held)
        scores = dataclasses.asdict(found)
        scores["own_optimum"] = optimism(self.target, (self._layout, weights), optima)
        measurements = sum(len(graph) for graph in known)
        trained_on = self._trained_on(measurements, scores) | {"data": data_digest(data)}
        card = MappingCard(self._layout, self.learned, trained_on)
        MAPPING_MODELS.save(self.folder / MODEL_NAME, weights, card)
        write_whole(self.folder / CARD_NAME, card.to_json().encode())
        return TrainingResult(
            self.folder / MODEL_NAME,
            measurements,
            scores,
            _told(data.left_out, trainer.graphs),
            f"on {count_text(len(held), 'graph')} that nothing was learned from: relative error, "
            "rank correlations, regret of the best guess, and relative error at the model's own "
            "optima",
        )

    @property
    def _layout(self) -> MappingLayout:
        return MappingLayout(self.trainer.width, self.trainer.messages)

    def _collected(self, graphs: int, left_out: int) -> None:
        note = f"{left_out:,} cannot be measured" if left_out else ""
        wanted = self.trainer.graphs
        self.tell(TrainingProgress("measuring blocks", graphs, wanted, note, unit="graphs"))

    def _model(self, number: int, graphs: Sequence[MeasuredGraph], weights: Weights) -> Weights:
        """Weights after a round, learned or read.

        Raises:
            CompileError: MCM-M058, MCM-M059.
        """
        path = self.folder / f"round-{number}.safetensors"
        # Of this round alone: whoever dies before it is removed leaves it beside the weights, and
        # the next round must not take it for its own.
        state_path = self.folder / f"learning-{number}.safetensors"
        if path.exists():
            state_path.unlink(missing_ok=True)
            found, card = MAPPING_MODELS.load(path)
            # Compiled code goes by the layout, and reads beyond weights of another one.
            if (card.layout, card.learned) != (self._layout, self.learned):
                raise TRAININGS.refusal(
                    "it is another network, or has learned of another target", path
                )
            return found
        from mcm_models.mapping_model.training import LearningState, fresh_state, learn

        trainer = self.trainer
        later = number > 0
        settings = LearningSettings(
            epochs=trainer.later_epochs if later else trainer.epochs,
            learning_rate=trainer.learning_rate * (0.3 if later else 1.0),
            ranking=trainer.ranking,
        )
        state = fresh_state(settings, weights)
        if state_path.exists():
            like = {
                "weights/": state.weights,
                "optimizer/": training_run.leaves_of(state.optimizer, digits=3),
            }

            def fault(numbers: _Numbers) -> str:
                if 0 <= numbers.epoch <= settings.epochs:
                    return ""
                return f"it is of epoch {numbers.epoch}, and there are {settings.epochs}"

            numbers, parts = TRAININGS.load(state_path, _Numbers, like, fault)
            optimizer = training_run.with_leaves(state.optimizer, parts["optimizer/"], digits=3)
            state = LearningState(parts["weights/"], optimizer, numbers.epoch)

        def saved(state: LearningState, _loss: float) -> None:
            if state.epoch % SAVED_EVERY == 0:
                leaves = training_run.leaves_of(state.optimizer, digits=3)
                parts = {"weights/": state.weights, "optimizer/": leaves}
                training_run.save_state(state_path, {"epoch": state.epoch}, parts)

        def told(progress: TrainingProgress) -> None:
            self.tell(dataclasses.replace(progress, phase=f"learning, round {number}"))

        seen = seen_graphs(self.target.fabric, graphs)
        seed = self.seed + number
        found = learn(self._layout, settings, state, seen, seed, saved, tell=told).weights
        prepares = self._prepares(found)
        for graph in graphs:
            if not np.isfinite(prepares(graph).period_cycles(graph.mappings)).all():
                raise self._diverged()
        MAPPING_MODELS.save(path, found, MappingCard(self._layout, self.learned))
        state_path.unlink(missing_ok=True)
        return found

    def _optima(
        self, number: int, purpose: str, weights: Weights, graphs: Sequence[MeasuredGraph]
    ) -> list[MeasuredGraph]:
        """What searches with the model find, measured or read.

        Raises:
            CompileError: MCM-M058 where the model answers with what are no periods, MCM-M059.
        """
        path = self.folder / f"optima-{number}.npz"
        if path.exists():
            data = load_data(path)
            check_same(data, self.target, path)
            if len(data.graphs) != len(graphs):
                raise TRAININGS.refusal(
                    f"it has {len(data.graphs)} graphs, not {len(graphs)}", path
                )
            for known, found in zip(graphs, data.graphs, strict=True):
                if not same_problem(known.problem, found.problem):
                    raise TRAININGS.refusal(f"{quote(found.problem.name)} is another graph", path)
            return list(data.graphs)
        measured: list[MeasuredGraph] = []
        for index, graph in enumerate(graphs):
            try:
                found = own_optima(
                    self.target,
                    (self._layout, weights),
                    graph,
                    self.trainer.optima,
                    self.trainer.evaluations,
                    (self.seed, f"optima of graph {index}, {purpose}"),
                )
            except CompileError as error:
                if error.diagnostics[0].code == NO_PERIODS:
                    # It is no plug-in's model that is to be mended.
                    raise self._diverged() from error
                raise
            measured.append(found)
            self.tell(
                TrainingProgress(
                    f"measuring optima, {purpose}", index + 1, len(graphs), unit="graphs"
                )
            )
        save_data(path, MappingData(self.learned, self.target.fabric, tuple(measured), self.seed))
        return measured

    def _diverged(self) -> CompileError:
        """Finite weights may be so large that what the network answers is not."""
        return CompileError.of(
            "MCM-M058",
            "the training diverges: the network answers with numbers that are no periods",
            hint=f"learn with a rate below {self.trainer.learning_rate}",
        )

    def _prepares(self, weights: Weights) -> Callable[[MeasuredGraph], PreparedGnn]:
        fabric, layout = self.target.fabric, self._layout
        return lambda graph: prepared_gnn(graph.problem, fabric, layout, weights)

    def _trained_on(self, measurements: int, scores: dict[str, float]) -> dict[str, Any]:
        """What is told of a training; nothing in it depends on the machine but the versions."""
        return {
            "options": dataclasses.asdict(self.trainer),
            "seed": self.seed,
            "fabric": self.target.fabric.name,
            "measurements": measurements,
            "scores": {name: round(score, 4) for name, score in scores.items()},
            "versions": training_run.versions_of("numpy", "numba", "jax", "optax"),
        }


def split(
    graphs: Sequence[MeasuredGraph], seed: int, left_out: int = 0
) -> tuple[list[MeasuredGraph], list[MeasuredGraph]]:
    """Graphs that are held out, and those that are learned from.

    Args:
        graphs: all that were measured.
        seed: of the draw.
        left_out: others that could not be measured.

    Raises:
        CompileError: MCM-M061 for fewer than two graphs.
    """
    if len(graphs) < 2:
        lacking = f", and {left_out:,} more cannot be measured" if left_out else ""
        hint = "ask for at least 2 graphs, and better for hundreds"
        if left_out:
            hint = "ask for shorter blocks with a smaller `longest`, or for more graphs"
        raise CompileError.of(
            "MCM-M061",
            f"{len(graphs)} graphs are too few: some are learned from, and others tell how "
            f"good the model is{lacking}",
            hint=hint,
        )
    parts = folds(len(graphs), max(len(graphs) // max(len(graphs) // HELD_OUT, 1), 2), seed)
    held = parts[0].tolist()
    return [graphs[k] for k in held], [g for k, g in enumerate(graphs) if k not in held]


def check_labels(held: Sequence[MeasuredGraph], known: Sequence[MeasuredGraph]) -> None:
    """Makes sure that there is something to learn from and to test on, before anything is learned.

    Args:
        held: graphs that nothing is learned from.
        known: those that are learned from.

    Raises:
        CompileError: MCM-M061 where all periods of either are known too badly.
    """
    for graphs, most, use in (
        (known, LEARNED_ERROR, "learned from"),
        (held, MOST_ERROR, "used to tell how good the model is"),
    ):
        if any((graph.error <= most).any() for graph in graphs):
            continue
        raise CompileError.of(
            "MCM-M061",
            f"none of the measurements of {len(graphs)} graphs can be {use}: their plays were "
            f"given up before periods were known to {most:.1%}",
            hint="ask for more graphs, or for shorter blocks with a smaller `longest`",
        )


def _told(left_out: int, graphs: int) -> tuple[str, ...]:
    """What is said of blocks that nothing was learned from."""
    if not left_out:
        return ()
    told = f"{left_out:,} of {graphs:,} blocks: no sample was seen to leave the fabric"
    return (told,)


def _fabric_target(name: str) -> MapsChips:
    target = load_target(name)
    if not isinstance(target, MapsChips):
        raise CompileError.of(
            "MCM-M060",
            f"the chips of the target {quote(name)} are no fabrics",
            at="target",
            hint="name one whose chips are, such as fabric-16",
        )
    return target
