"""`mcmc train placement`: the policy that places steps which it has not seen."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from msgspec import Struct

from mcm_compiler.components.extras import LEARN
from mcm_compiler.contracts.training import TrainingProgress, TrainingRequest, TrainingResult
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.processes.staging import write_whole
from mcm_compiler.text.option_fields import at_least, checked, from_to
from mcm_models import training_run
from mcm_models.cluster_policy import layout
from mcm_models.cluster_policy.decoding import decode, scorer_of
from mcm_models.ppo_settings import PpoSettings
from mcm_passes.families.box.learning.cases import (
    ClusteredStep,
    iterate,
    single_device,
    training_case,
)

POLICY_NAME, CARD_NAME = "placement-policy.safetensors", "placement-policy.json"

TRAINING_SEED, VALIDATION_SEED = 11, 12
"""Seeds of cases; those that results are reported on are no synthetic cases at all."""

LEARNED_FROM = "steps made up by mcm_models.cluster_policy.synthetic_steps, on made-up hosts"

LEFT_OUT = (
    "rnnlm, nmt and gnmt of any number of layers, length and size",
    "all other models of the zoo",
    "all hosts that come with the compiler",
)
"""Held-out cases of a policy: everything but generated steps."""

MOST_PLACEMENTS = 1 << 12
"""Of a case in an update: all of them are in memory at once."""

DRAWN = 16
"""Placements of a validation case, next to the likeliest."""

STATE_NAME = "training.safetensors"

TRAININGS = training_run.TrainingKind.stopped("MCM-D067")


@dataclass(frozen=True)
@checked(
    iterations=at_least(1),
    cases=at_least(1),
    validation_cases=at_least(1),
    cases_per_iteration=at_least(1),
    placements=from_to(2, MOST_PLACEMENTS),
    check_every=at_least(1),
    learning_rate=at_least(0),
    entropy=at_least(0),
    width=from_to(1, layout.MAX_WIDTH),
    parts=at_least(0),
)
class PlacementTrainer:
    """Trains the placement policy; see `mcm_compiler.contracts.training.Trainer`.

    Attributes:
        iterations: updates, each of `cases_per_iteration` cases. A training that goes on may ask
            for more than it began with, and ends as one that asked for this many at once.
        cases: random steps and boxes to learn on, repeatedly.
        validation_cases: others, by which the best policy is chosen.
        cases_per_iteration: of one update, as far as there are this many.
        placements: of each case in an update, at most `MOST_PLACEMENTS`.
        check_every: iterations between two looks at validation cases; the state is saved then.
            The last iteration is looked at in any case.
        learning_rate: of Adam.
        entropy: weight of entropies.
        width: of the network.
        parts: into which clusters of cases are divided at most; how far is drawn for each case.

    Raises:
        ValueError: for numbers out of range.
    """

    name: ClassVar[str] = "placement"
    summary: ClassVar[str] = "the policy that places steps on hosts that it has not seen"
    extra: ClassVar[str] = LEARN

    iterations: int = 2000
    cases: int = 400
    validation_cases: int = 60
    cases_per_iteration: int = 12
    placements: int = 12
    check_every: int = 100
    learning_rate: float = 5e-4
    entropy: float = 0.01
    width: int = 32
    parts: int = 0

    def train(self, request: TrainingRequest, tell: training_run.Tell) -> TrainingResult:
        """Trains and writes the checkpoint with its card.

        Raises:
            CompileError: MCM-A001 if the folder is not empty and nothing is resumed, MCM-D060 for
                scores that are no numbers, MCM-D066 where weights diverge, MCM-D067 for a state
                that cannot be gone on from.
        """
        with training_run.training_folder(request) as folder:
            TRAININGS.begin(folder, None, STATE_NAME)
            return _train(self, request, tell)


def _train(
    trainer: PlacementTrainer, request: TrainingRequest, tell: training_run.Tell
) -> TrainingResult:
    asked = {**dataclasses.asdict(trainer), "seed": request.seed}
    del asked["iterations"]
    path = request.folder / STATE_NAME
    state = _fresh(trainer, request.seed)
    if request.resume and path.exists():
        state = _load_state(path, asked, state)
        _check_ahead(trainer, state, path)
    tell(TrainingProgress("making cases", 0, 2))
    held = usable_cases(VALIDATION_SEED, trainer.validation_cases, trainer.parts)
    tell(TrainingProgress("making cases", 1, 2))
    cases = usable_cases(TRAINING_SEED, trainer.cases, trainer.parts)
    _learn(trainer, request, state, (cases, held), tell, asked)
    if state.iteration % trainer.check_every:
        # A longer training does not look here, so that what it goes on from does not know of it.
        done, (note, figures) = state.iteration, _look(state, held)
        tell(TrainingProgress("training", done, trainer.iterations, note, "updates", figures))
    card = layout.PlacementPolicyCard(
        layout.ClusterLayout(trainer.width), _trained_on(trainer, request, state)
    )
    checkpoint = request.folder / POLICY_NAME
    layout.PLACEMENT_POLICIES.save(checkpoint, state.best, card)
    write_whole(request.folder / CARD_NAME, card.to_json().encode())
    each = min(trainer.cases_per_iteration, len(cases))
    samples = state.iteration * each * trainer.placements
    return TrainingResult(
        checkpoint,
        samples,
        {"score_over_single_device": state.best_ratio},
        meaning=f"geometric mean of the best of {1 + DRAWN} placements of validation cases, over "
        "the best single device",
    )


class _Numbers(Struct, frozen=True):
    asked: dict[str, Any]
    iteration: int
    best_ratio: float | None
    best_iteration: int


@dataclass(eq=False)
class TrainingState:
    """State that changes while the policy learns. Seed and iteration decide everything random.

    Attributes:
        weights: of the policy.
        optimizer: state of the optimizer.
        iteration: that comes next.
        best: weights that did best on validation cases.
        best_ratio: their score over that of the best single device, infinite before the first.
        best_iteration: when that was.
    """

    weights: layout.Weights
    optimizer: Any
    iteration: int
    best: layout.Weights
    best_ratio: float
    best_iteration: int

    def parts(self) -> dict[str, training_run.Arrays]:
        """Arrays of the state on disk."""
        leaves = training_run.leaves_of(self.optimizer, digits=2)
        return {"weights/": self.weights, "best/": self.best, "optimizer/": leaves}


def _load_state(path: Path, asked: dict[str, Any], fresh: TrainingState) -> TrainingState:
    """Reads a state of what is asked for, of the same shapes as a fresh one.

    Raises:
        CompileError: MCM-D067 if the file is damaged or of another training.
    """

    def fault(numbers: _Numbers) -> str:
        if numbers.asked != asked:
            return "it is of a training with other options or another seed"
        return f"it is of iteration {numbers.iteration}" if numbers.iteration < 0 else ""

    numbers, parts = TRAININGS.load(path, _Numbers, fresh.parts(), fault)
    return TrainingState(
        parts["weights/"],
        training_run.with_leaves(fresh.optimizer, parts["optimizer/"], digits=2),
        numbers.iteration,
        parts["best/"],
        np.inf if numbers.best_ratio is None else numbers.best_ratio,
        numbers.best_iteration,
    )


def _check_ahead(trainer: PlacementTrainer, state: TrainingState, path: Path) -> None:
    """Refuses states that a training of this length does not come through.

    From beyond the end the card would name fewer iterations than it took, and the best of an
    iteration at which none looks would be another policy than that of a training in one go.
    """
    if state.iteration > trainer.iterations:
        why = (
            f"its state is of iteration {state.iteration}, beyond the {trainer.iterations} that "
            "are asked for"
        )
        hint = f"ask for at least {state.iteration} iterations, or start it again in another folder"
    elif state.best_iteration % trainer.check_every or state.best_iteration > state.iteration:
        why = f"its best is of iteration {state.best_iteration}, which is never looked at"
        hint = None
    else:
        return
    raise TRAININGS.refusal(why, path, hint)


def _fresh(trainer: PlacementTrainer, seed: int) -> TrainingState:
    from mcm_models.ppo import adam

    settings = _settings(trainer)
    weights = layout.initial_weights(layout.ClusterLayout(trainer.width), seed)
    begun = adam(settings.max_gradient, settings.learning_rate).init(dict(weights))
    return TrainingState(weights, begun, 0, weights, np.inf, 0)


def _settings(trainer: PlacementTrainer) -> PpoSettings:
    return PpoSettings(
        epochs=3, minibatches=1, learning_rate=trainer.learning_rate, entropy=trainer.entropy
    )


def _learn(
    trainer: PlacementTrainer,
    request: TrainingRequest,
    state: TrainingState,
    cases: tuple[Sequence[ClusteredStep], Sequence[ClusteredStep]],
    tell: training_run.Tell,
    asked: dict[str, Any],
) -> None:
    """Goes on until all iterations are done; changes the state."""
    train, held = cases
    settings = _settings(trainer)
    each = min(trainer.cases_per_iteration, len(train))

    def step(number: int) -> dict[str, float]:
        rng = np.random.default_rng([request.seed, number - 1])
        chosen = [train[i] for i in rng.choice(len(train), each, replace=False)]
        state.weights, state.optimizer, figures = iterate(
            settings, trainer.placements, state.weights, state.optimizer, chosen, rng
        )
        state.iteration = number
        _check_finite(trainer, state)
        return {"ratio": figures.ratio, "entropy": figures.entropy}

    def stop(number: int) -> tuple[str, dict[str, float]]:
        found = ("", {}) if number % trainer.check_every else _look(state, held)
        numbers = {
            "asked": asked,
            "iteration": state.iteration,
            # JSON has no infinity.
            "best_ratio": state.best_ratio if np.isfinite(state.best_ratio) else None,
            "best_iteration": state.best_iteration,
        }
        training_run.save_state(request.folder / STATE_NAME, numbers, state.parts())
        return found

    def stops(number: int) -> bool:
        return number % trainer.check_every == 0 or number == trainer.iterations

    training_run.TrainingLoop(trainer.iterations, tell, "updates").run(
        state.iteration, step, stop, stops
    )


def _look(state: TrainingState, held: Sequence[ClusteredStep]) -> tuple[str, dict[str, float]]:
    """The score of the weights on validation cases; keeps them where they are the best so far."""
    ratio = validation_ratio(state.weights, held)
    if ratio < state.best_ratio:
        state.best, state.best_ratio = state.weights, ratio
        state.best_iteration = state.iteration
    return f"over the best single device: {ratio:.4f}", {"validation": ratio}


def _check_finite(trainer: PlacementTrainer, state: TrainingState) -> None:
    """Stops before weights that are no numbers are scored or saved: NaN decides, too, and badly."""
    if all(np.isfinite(array).all() for array in state.weights.values()):
        return
    raise CompileError.of(
        "MCM-D066",
        f"the training diverges in iteration {state.iteration}: its weights are not finite",
        at=f"learning rate {trainer.learning_rate:g}, entropy {trainer.entropy:g}",
        hint="take a smaller learning rate, or less weight of the entropy",
    )


def usable_cases(seed: int, count: int, parts: int = 0) -> list[ClusteredStep]:
    """The first cases of a seed in which there is something to decide: three clusters or more."""
    found: list[ClusteredStep] = []
    index = 0
    while len(found) < count:
        case = training_case(seed, index, parts)
        index += 1
        if len(case.graph.order) > 2:
            found.append(case)
    return found


def validation_ratio(weights: layout.Weights, cases: Sequence[ClusteredStep]) -> float:
    """Geometric mean of the best score of some placements over that of the best single device."""
    scorer = scorer_of(weights)
    rng = np.random.default_rng(0)
    logs: list[float] = []
    for case in cases:
        drawn = decode(case.graph, scorer, DRAWN, rng).devices
        likeliest = decode(case.graph, scorer, 1, rng, greedy=True).devices
        scores = case.scores(np.concatenate([drawn, likeliest]))
        logs.append(float(np.log(scores.min() / case.scores(single_device(case)).min())))
    return float(np.exp(np.mean(logs)))


def _trained_on(
    trainer: PlacementTrainer, request: TrainingRequest, state: TrainingState
) -> dict[str, Any]:
    """Description of a training; nothing in it depends on the machine but the versions."""
    options = dataclasses.asdict(trainer)
    defaults = dataclasses.asdict(PlacementTrainer())
    changed = [f"--set {k}={v}" for k, v in options.items() if v != defaults[k]]
    return {
        "command": " ".join(["mcmc train placement", *changed, f"--seed {request.seed}"]),
        "options": options,
        "seed": request.seed,
        "iterations_of_best": state.best_iteration,
        "metrics": {"score_over_single_device": state.best_ratio},
        "learned_from": LEARNED_FROM,
        "left_out": list(LEFT_OUT),
        "versions": training_run.versions_of("numpy", "numba", "jax", "optax"),
    }
