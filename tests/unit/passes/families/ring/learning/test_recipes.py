"""Recipes, and what they become for a policy that serves many graphs."""

from __future__ import annotations

import dataclasses

import pytest

from mcm_passes.families.ring.learning.recipes import PUBLISHED, RECIPES, transferring


@pytest.mark.parametrize("name", ["published", "published-prior"])
def test_published_settings_are_the_same_everywhere(name):
    recipe = RECIPES[name]
    assert transferring(recipe) == recipe
    assert recipe.layout.around == 0


@pytest.mark.parametrize("name", ["default", "no-prior"])
def test_nothing_that_belongs_to_one_graph_is_learned_on_many(name):
    recipe = RECIPES[name]
    many = transferring(recipe)
    assert recipe.ppo.node_scores > 0
    assert many.ppo.node_scores == many.credit == 0
    own = {name: getattr(recipe, name) for name in ("credit", "sharpness", "ppo")}
    unchanged = dataclasses.replace(many, **own)
    assert unchanged == recipe


def test_the_published_recipe_is_that_of_the_paper():
    assert (PUBLISHED.rollouts, PUBLISHED.ppo.minibatches, PUBLISHED.ppo.epochs) == (20, 4, 10)
    layout = PUBLISHED.layout
    assert (layout.layers, layout.width, layout.head_width) == (8, 128, 128)
    assert (PUBLISHED.sampler, PUBLISHED.mode, PUBLISHED.gradient) == ("engine", "fix", "proposed")
    assert PUBLISHED.credit == PUBLISHED.prior == 0
