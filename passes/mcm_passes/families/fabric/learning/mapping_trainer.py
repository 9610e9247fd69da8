"""`mcmc train mapping-model`: measures mappings of random blocks and fits a ridge to them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from msgspec import structs

from mcm_compiler.arrays.types import Floats
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.contracts.fabrics.fabric import Fabric, Mappings
from mcm_compiler.contracts.fabrics.models import PreparedMappingModel
from mcm_compiler.contracts.fabrics.target import MapsChips
from mcm_compiler.contracts.training import TrainingProgress, TrainingRequest, TrainingResult
from mcm_compiler.diagnostics import CompileError, quote
from mcm_compiler.processes.private_folders import remove_stale
from mcm_compiler.text.option_fields import at_least, checked
from mcm_compiler.text.units import count_text
from mcm_models import training_run
from mcm_models.mapping_model.data_files import data_digest
from mcm_models.mapping_model.data_set import MappingData, MeasuredGraph
from mcm_models.mapping_model.figures import Figures, figures_of, folds
from mcm_passes.families.fabric.formulas.analytic import RoundTrips
from mcm_passes.families.fabric.formulas.ridge import fitted, prepared_ridge, ridge_card, save_ridge
from mcm_passes.families.fabric.formulas.terms import NUM_FEATURES
from mcm_passes.families.fabric.learning.collecting import CollectionSize, collect, learned_of

MOST_ERROR = 0.005
"""Labels that may be wrong by more are not tested on."""

LEARNED_ERROR = 0.1
"""Labels that may be wrong by more are not learned from. Bounds are tens of times as wide as the
errors of plays that were given up, so that those may be learned from, but not tested on."""


def exact(graph: MeasuredGraph) -> np.ndarray:
    """`[B]`, which labels are good enough to test on."""
    return graph.error <= MOST_ERROR


Prepares = Callable[[MeasuredGraph], PreparedMappingModel]


def guesses(prepare: Prepares, graphs: Sequence[MeasuredGraph]) -> list[Floats]:
    """Periods that a model expects of the mappings of each graph whose labels are exact."""
    found: list[Floats] = []
    for graph in graphs:
        rows = exact(graph)
        mappings = Mappings(graph.mappings.site[rows], graph.mappings.turn[rows])
        found.append(prepare(graph).period_cycles(mappings))
    return found


def judged(guessed: Sequence[Floats], graphs: Sequence[MeasuredGraph]) -> Figures:
    """Figures of guesses for the mappings whose labels are exact; graphs without any are left out.

    Args:
        guessed: of each graph, as `guesses` gives them.
        graphs: as measured.
    """
    rows = [
        (guess, graph.period_cycles[exact(graph)], graph.bound_cycles)
        for guess, graph in zip(guessed, graphs, strict=True)
        if exact(graph).any()
    ]
    return figures_of([row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows])


MODEL_NAME, ASKED_NAME, COLLECTION_NAME = "mapping-model.json", "asked.json", "collection"

HELD_OUT = 10
"""One graph in this many is scored on; nothing is learned from it."""

TRAININGS = training_run.TrainingKind.stopped("MCM-M059")


@dataclass(frozen=True)
@checked(strength=at_least(0))
class MappingTrainer(CollectionSize):
    """Fits the mapping model `ridge`; see `mcm_compiler.contracts.training.Trainer`.

    Attributes:
        target: whose chips are fabrics: the blocks are laid out and measured on one.
        strength: weight of squared coefficients next to squared errors.

    Raises:
        ValueError: for numbers out of range.
    """

    name: ClassVar[str] = "mapping-model"
    summary: ClassVar[str] = "the model ridge, fitted to measured mappings of a fabric"

    graphs: int = 60
    target: str = "fabric-12"
    strength: float = 10.0

    def train(self, request: TrainingRequest, tell: training_run.Tell) -> TrainingResult:
        """Measures, fits and writes the checkpoint.

        Raises:
            CompileError: MCM-A001 if the folder is not empty and nothing is resumed, MCM-M054 to
                M057 for data that are none of this training, MCM-M059 where it cannot go on.
                MCM-M060 for a target without fabrics, MCM-M061 for too few graphs or labels.
        """
        target = fabric_target(self.target)
        with training_run.training_folder(request) as folder:
            data, held, known = measured_blocks(self, target, request, tell)
            terms, periods = _samples(target.fabric, known)
            found = fitted(terms, periods, self.strength)
            learned = learned_of(target)
            hashes = (learned.lowering, learned.physics)
            card = ridge_card(found, target.fabric, hashes, {})
            scores = dataclasses.asdict(
                judged(
                    guesses(lambda graph: prepared_ridge(card, graph.problem, target.fabric), held),
                    held,
                )
            )
            provenance: dict[str, Any] = {
                "options": dataclasses.asdict(self),
                "seed": request.seed,
                "fabric": target.fabric.name,
                "samples": len(periods),
                "data": data_digest(data),
                "scores": {name: round(score, 4) for name, score in scores.items()},
                "versions": training_run.versions_of("numpy", "numba"),
            }
            path = folder / MODEL_NAME
            save_ridge(path, structs.replace(card, provenance=provenance))
        return TrainingResult(path, len(periods), scores, left_out(data, self), meaning(held))


def measured_blocks(
    trainer: CollectionSize, target: MapsChips, request: TrainingRequest, tell: training_run.Tell
) -> tuple[MappingData, list[MeasuredGraph], list[MeasuredGraph]]:
    """All measured graphs, those to score on, and those to learn from.

    Args:
        trainer: its options decide what is measured.
        target: of whose blocks.
        request: with the folder, in which a stopped collection goes on.
        tell: hears of each part of the collection.

    Raises:
        CompileError: MCM-M054 to M057, MCM-M059 or MCM-M061; see `MappingTrainer.train`.
    """
    asked = {**dataclasses.asdict(trainer), "seed": request.seed}
    TRAININGS.begin(request.folder, asked, ASKED_NAME)
    folder = request.folder / COLLECTION_NAME
    # Of a process that was killed while it wrote.
    remove_stale(folder)

    def progress(graphs: int, left: int) -> None:
        note = f"{left:,} cannot be measured" if left else ""
        tell(TrainingProgress("measuring blocks", graphs, trainer.graphs, note, unit="graphs"))

    data = collect(target, trainer, request.seed, folder, progress)
    held, known = split(data.graphs, request.seed, data.left_out)
    check_labels(held, known)
    return data, held, known


def _samples(fabric: Fabric, graphs: Sequence[MeasuredGraph]) -> tuple[Floats, Floats]:
    """Terms and periods of the mappings whose labels are learned from.

    Raises:
        CompileError: MCM-M061 for fewer of them than coefficients.
    """
    terms: list[Floats] = []
    periods: list[Floats] = []
    for graph in graphs:
        rows = graph.error <= LEARNED_ERROR
        mappings = Mappings(graph.mappings.site[rows], graph.mappings.turn[rows])
        terms.append(RoundTrips().prepared(graph.problem, fabric).terms(mappings))
        periods.append(graph.period_cycles[rows])
    found = np.concatenate(terms), np.concatenate(periods)
    if len(found[1]) <= NUM_FEATURES:
        raise CompileError.of(
            "MCM-M061",
            f"{len(found[1])} measurements are too few for {NUM_FEATURES + 1} coefficients",
            hint="ask for more graphs",
        )
    return found


def meaning(held: Sequence[MeasuredGraph]) -> str:
    """The description of the scores."""
    return (
        f"on {count_text(len(held), 'graph')} that nothing was learned from: relative error, rank "
        "correlations, and regret of the best guess"
    )


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


def left_out(data: MappingData, size: CollectionSize) -> tuple[str, ...]:
    """The text about blocks that could not be measured; none where all could be."""
    if not data.left_out:
        return ()
    count = f"{data.left_out:,} of {size.graphs:,} blocks"
    return (f"{count}: no sample was seen to leave the fabric",)


def fabric_target(name: str) -> MapsChips:
    """The target of a name.

    Raises:
        CompileError: MCM-M060 where its chips are no fabrics.
    """
    target = load_target(name)
    if not isinstance(target, MapsChips):
        raise CompileError.of(
            "MCM-M060",
            f"the chips of the target {quote(name)} are no fabrics",
            at="target",
            hint="name one whose chips are, such as fabric-16",
        )
    return target
