"""The methods that are compared, and how each is run on a problem."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np

from mcm_compiler.contracts.partition import Budget
from mcm_models.policy import layout
from mcm_models.policy.layout import (
    SHIPPED_POLICY,
    PolicyCard,
    PolicyLayout,
    Weights,
    initial_weights,
)
from mcm_passes.families.ring.contiguous.contiguous_dp import ContiguousDp
from mcm_passes.families.ring.learning.recipes import RECIPES, Recipe
from mcm_passes.families.ring.learning.rl import LearnedRun, recipe_of
from mcm_study.problems import StudyProblem
from mcm_study.recording import RecordedPeriods
from mcm_study.search_baselines import Annealing, RandomSearch
from tools.kept_records import digest_of

Kind = Literal[
    "random", "annealing", "dp", "learn", "draw", "draw and learn",
    "do not learn", "draw and do not learn",
]  # fmt: skip
Source = Literal["", "random", "zero", "policy", "policy-no-prior"]
"""Weights of a policy: none, random ones, all 0, or a checkpoint that comes with the compiler."""

POLICIES: tuple[Source, ...] = ("policy", "policy-no-prior")

DRAWS = 80
"""Partitions that are drawn before learning: 20 along each of four orders."""

CONTROL = "-still"
"""Ends the names of controls: the same method with a learning rate of 0."""

DP = "dp"
"""The classical strategy, as a method."""

BATCH = 64
"""Partitions that random search draws at once: small, so that processor times are fine-grained."""


@dataclass(frozen=True)
class Method:
    """A way to search.

    Attributes:
        name: in data and tables.
        label: in plots.
        kind: `random` draws uniformly by SAMPLE; `annealing` is that of the paper; `dp` is the
            classical strategy of that name, with nothing random; `learn` is PPO; `draw` takes what
            a policy proposes, and does not learn; `draw and learn` takes `DRAWS` of its proposals,
            and around the best of them a new policy learns on this graph alone. Those that do not
            learn are the controls of those that do: all is the same, but the learning rate is 0.
        samples: partitions it evaluates.
        weights: that its policy starts from.
        recipe: how it learns or draws; a policy with a card brings its layout, prior and sampler.
    """

    name: str
    label: str
    kind: Kind
    samples: int
    weights: Source = ""
    recipe: Recipe | None = None

    @property
    def digest(self) -> str:
        """A digest of all that decides what the method does, but the code."""
        weights = _checkpoint_digest(self.weights) if self.weights.startswith("policy") else ""
        return digest_of(replace(self, label=""), weights)


def run_method(method: Method, study: StudyProblem, seed: int, record: RecordedPeriods) -> None:
    """Runs a method until its samples are spent.

    Args:
        method: which.
        study: the problem.
        seed: of everything random.
        record: sees all that it evaluates.
    """
    problem, rng = study.problem, np.random.default_rng(seed)
    budget = Budget(evaluations=method.samples)
    if method.kind == "random":
        RandomSearch(batch=BATCH).solve(problem, record, rng, budget)
    elif method.kind == "annealing":
        Annealing().solve(problem, record, rng, budget)
    elif method.kind == "dp":
        ContiguousDp().solve(problem, record, rng, budget)
    else:
        assert method.recipe is not None
        recipe, weights = _policy(method.weights, method.recipe, rng)
        draws = method.kind in {"draw", "draw and learn", "draw and do not learn"}
        # The advantage is normalised over the rollouts, so that the scale of rewards, which here
        # is that of the strategy, has no part in what is learned.
        run = LearnedRun(problem, record, budget, "fast", method.samples)
        if draws:
            run.draw(recipe, weights, rng, None if method.kind == "draw" else DRAWS)
        if draws and method.kind != "draw":
            recipe = method.recipe
            weights = initial_weights(recipe.layout, int(rng.integers(1 << 31)))
        if method.kind.endswith("do not learn"):
            recipe = replace(recipe, ppo=replace(recipe.ppo, learning_rate=0.0))
        if method.kind != "draw":
            run.learn(recipe, weights, rng, 0.0)


def policy_card(source: Source) -> PolicyCard:
    """The card of a policy that comes with the compiler."""
    return layout.POLICIES.load(_checkpoint_path(source))[1]


def standard_methods(short: int, long: int) -> tuple[Method, ...]:
    """All methods of the comparison.

    Annealing cools down over its samples, so that with fewer it is another search: it is run with
    both numbers.

    Args:
        short: samples of those that learn with a prior, as published, or from a checkpoint.
        long: samples of the others.
    """
    default, no_prior, windows = (RECIPES[name] for name in ("default", "no-prior", "windows"))
    published, with_prior = RECIPES["published"], RECIPES["published-prior"]
    methods = (
        Method("random", "Random", "random", long),
        Method("sa", "SA", "annealing", long),
        Method("sa-short", f"SA, {short} samples", "annealing", short),
        dp_method(short),
        Method("rl", "RL", "learn", short, "random", default),
        Method("rl-windows", "RL, windows alone", "learn", short, "random", windows),
        Method("rl-no-prior", "RL, no prior", "learn", long, "random", no_prior),
        Method("rl-published", "RL, as published", "learn", short, "random", published),
        Method("rl-published-prior", "RL, published + prior", "learn", short, "random", with_prior),
        Method("prior", "prior alone", "draw", long, "zero", default),
        Method("zero-shot", "zero-shot", "draw", long, "policy", default),
        Method(
            "zero-shot-no-prior", "zero-shot, no prior", "draw", long, "policy-no-prior", no_prior
        ),
        Method("zero-shot-windows", "zero-shot, windows", "draw", long, "policy-no-prior", windows),
        Method("fine-tuned", "fine-tuned", "learn", short, "policy", default),
        Method("everything", "zero-shot, then RL", "draw and learn", short, "policy", default),
        Method(
            "fine-tuned-no-prior",
            "fine-tuned, no prior",
            "learn",
            short,
            "policy-no-prior",
            no_prior,
        ),
        Method(
            "fine-tuned-windows", "fine-tuned, windows", "learn", short, "policy-no-prior", windows
        ),
    )
    controlled = [c for m in methods for c in (m, *_control(m))]
    return tuple(m for m in controlled if m.name != "sa-short" or short < long)


def dp_method(samples: int) -> Method:
    """The classical strategy `dp`, which evaluates a handful of partitions."""
    return Method(DP, "dp, nothing learned", "dp", samples)


def _control(method: Method) -> tuple[Method, ...]:
    """A method that learns, without what is learned; none for others."""
    kinds: dict[Kind, Kind] = {"learn": "do not learn", "draw and learn": "draw and do not learn"}
    if method.kind not in kinds:
        return ()
    name, label = method.name + CONTROL, f"{method.label}, no updates"
    return (replace(method, name=name, label=label, kind=kinds[method.kind]),)


def _policy(source: Source, recipe: Recipe, rng: np.random.Generator) -> tuple[Recipe, Weights]:
    if source == "random":
        return recipe, initial_weights(recipe.layout, int(rng.integers(1 << 31)))
    if source == "zero":
        return recipe, _no_weights(recipe.layout)
    weights, card = layout.POLICIES.load(_checkpoint_path(source))
    name = next(name for name, known in RECIPES.items() if known == recipe)
    return recipe_of(card, name), weights


def _no_weights(layout: PolicyLayout) -> Weights:
    """All scores of such a policy are 0, so that its probabilities are the prior's alone."""
    return {name: np.zeros(shape, np.float32) for name, shape in layout.shapes().items()}


def _checkpoint_path(source: Source) -> Path:
    return SHIPPED_POLICY.with_name(f"{source}.safetensors")


@lru_cache(maxsize=8)
def _checkpoint_digest(source: Source) -> str:
    return hashlib.sha256(_checkpoint_path(source).read_bytes()).hexdigest()
