"""Recipes: everything that a training or search with a policy can vary, under one name."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Literal, get_args

from mcm_compiler.text.option_fields import above, at_least, checked, one_of
from mcm_models.policy.layout import PolicyLayout
from mcm_models.ppo_settings import PpoSettings

Sampler = Literal["engine", "staircase"]
"""How proposals become valid: MCM's solver in a node order, or the exact sampler over monotone
paths along one late order (ours)."""

Mode = Literal["fix", "sample"]
"""Of the engine: keep what the proposal says where it can stay (MCM, algorithm 2), or draw every
node from its domain (algorithm 1)."""

Gradient = Literal["proposed", "repaired"]
"""Which partition the likelihood is taken of: the policy's proposal, as published, or what the
solver made of it (ours)."""


_ON_ONE_GRAPH = PpoSettings(epochs=4, learning_rate=1e-3, node_scores=100.0)
_TRANSFERRING = PpoSettings(epochs=1, learning_rate=3e-4, entropy=1e-2)


@dataclass(frozen=True)
@checked(
    sampler=one_of(get_args(Sampler)),
    mode=one_of(get_args(Mode)),
    gradient=one_of(get_args(Gradient)),
    credit=at_least(0),
    stuck_credit=at_least(0),
    prior=at_least(0),
    patience=at_least(0),
    start_prior=above(0),
    sharpness=above(0),
)
class Recipe:
    """How a policy learns. Defaults are what measured best; see docs/explanation/learned-search.md.

    Attributes:
        rollouts: proposals per iteration (MCM, section 5.1: 20).
        sampler: see `Sampler`.
        mode: see `Mode`; the monotone path sampler always draws.
        gradient: see `Gradient`.
        credit: weight of what each node adds to the load of its chip, in the advantage; 0 for the
            same advantage for all nodes, as published.
        stuck_credit: the same in iterations in which no partition runs, so that rewards say
            nothing; 0 for none, as published.
        sharpness: power of the loads that credit is given by: the higher, the more the busiest
            chips alone count; 1 for the loads themselves.
        prior: deviation in chips of the head start towards the balanced chip; 0 for none, as
            published.
        start_prior: the same around the chips of a partition that a search starts from (ours).
        patience: iterations on one graph without a better partition after which a search starts
            again, from the first weights, around the best and along the next order; 0 for never,
            as published.
        improving: whether what cannot be better than the best partition so far is left out where
            one is drawn along an order; see `ImprovingWindows` (ours).
        layout: shape of the policy.
        ppo: settings of the updates.

    Raises:
        ValueError: if a number is out of range.
    """

    rollouts: int = 20
    sampler: Sampler = "staircase"
    mode: Mode = "fix"
    gradient: Gradient = "repaired"
    credit: float = 2.0
    stuck_credit: float = 2.0
    sharpness: float = 4.0
    prior: float = 1.0
    start_prior: float = 0.5
    patience: int = 10
    improving: bool = True
    layout: PolicyLayout = field(default_factory=PolicyLayout)
    ppo: PpoSettings = _ON_ONE_GRAPH

    def __post_init__(self) -> None:
        if self.rollouts < 2 or self.rollouts % self.ppo.minibatches:
            raise ValueError(
                f"{self.rollouts} rollouts do not divide into {self.ppo.minibatches} mini-batches"
            )


PUBLISHED = Recipe(
    sampler="engine",
    mode="fix",
    gradient="proposed",
    credit=0.0,
    stuck_credit=0.0,
    sharpness=1.0,
    prior=0.0,
    patience=0,
    improving=False,
    layout=PolicyLayout(iterations=2, around=0),
    ppo=PpoSettings(entropy=1e-2),
)
"""MCM as published, sections 4 and 5.1; what the paper leaves open stands in `PpoSettings`."""

RECIPES = {
    "default": Recipe(),
    "windows": Recipe(prior=0.0),
    "no-prior": Recipe(prior=0.0, improving=False),
    "published": PUBLISHED,
    "published-prior": dataclasses.replace(PUBLISHED, prior=1.0),
}
"""Recipes by the name that `--recipe` takes. What is not learned in `default` is the prior and the
windows that are left out: `windows` is without the first, `no-prior` without both."""


def transferring(recipe: Recipe) -> Recipe:
    """The recipe for a policy that serves many graphs: in its training, and after it on one more.

    Ours; published settings stay as they are. Scores of single nodes could not be handed on. One
    pass over the rollouts, and credit only where nothing runs. A step that suits one graph moves
    the partitions of all others. With more passes, larger steps or credit the mean reward fell
    after a few thousand samples. On one more graph the same steps kept what the policy knows,
    and larger ones did not.
    """
    if not recipe.ppo.node_scores:
        return recipe
    return dataclasses.replace(recipe, credit=0.0, sharpness=1.0, ppo=_TRANSFERRING)
