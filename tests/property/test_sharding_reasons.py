"""Every dimension of every weight and input of the zoo is explained, and the reason holds."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from mcm_compiler.ir.reading.importer import import_model
from mcm_passes.parallelism.classes.dimension_classes import dimension_classes
from mcm_passes.parallelism.classes.factor_graph import FactorGraph
from mcm_passes.parallelism.classes.variables import trainable_variables
from mcm_passes.parallelism.rules.graph_rules import rules_of
from mcm_passes.parallelism.rules.rule_templates import Block
from tests.generators.small_zoo import SMALL

NAMES = (
    "resnet50",
    "mobilenet-v2",
    "inception-v3",
    "lstm-lm",
    "residual-cnn-grouped",
    "unet-cnn",
    "bidirectional-rnn-gru",
    "conv-rnn",
    "bert-computed",
    "t5",
    "gpt2",
)
MOST = 40
"""Dimensions of each model that are looked at."""


@pytest.mark.parametrize("name", NAMES)
def test_ways_lead_from_the_dimension_to_the_reason(name):
    builder, options = SMALL[name]
    model, _ = import_model(builder(**options).build(), name)
    classes = dimension_classes(model, rules_of(model))
    graph = FactorGraph(classes)
    tensors = [*trainable_variables(model), *model.graph.inputs]
    places = [(v, dim) for v in tensors for dim in range(len(classes.of(v)))]
    rng = np.random.default_rng(0)
    chosen = [places[k] for k in rng.permutation(len(places))[:MOST]]
    for value, dim in chosen:
        index = int(classes.of(value)[dim])
        steps = graph.why(value.name, dim)
        assert bool(steps) == (index < 0 or classes.block[index] != Block.NONE)
        _follow(classes, steps[:-1], (value.name, dim))
    free = [(v, d) for v, d in chosen if classes.of(v)[d] >= 0]
    for (one, at), (other, to) in pairwise(free):
        first, second = int(classes.of(one)[at]), int(classes.of(other)[to])
        linked = graph.why_linked((one.name, at), (other.name, to))
        assert bool(linked) == (first == second)
        _follow(classes, linked, (one.name, at))
        if first != second:
            meets = bool(classes.conflicts(np.array([first, second], dtype=np.int32)).any())
            way = graph.why_conflict((one.name, at), (other.name, to))
            assert bool(way) == meets
            if way:
                assert (way[0].tensor, way[0].dim) == (one.name, at)
                assert (way[-1].tensor, way[-1].dim) == (other.name, to)


def _follow(classes, steps, start):
    """All steps but the last are in one class, and each op touches both of its ends."""
    if not steps:
        return
    assert (steps[0].tensor, steps[0].dim) == start
    nodes = {node.name: node for node in classes.ruled.nodes}
    of_start = classes.of(classes.value_by_name[start[0]])[start[1]]
    before = steps[0].tensor
    for step in steps[1:]:
        assert classes.of(classes.value_by_name[step.tensor])[step.dim] == of_start
        node = nodes[step.node]
        touched = {value.name for value in (*node.inputs, *node.outputs) if value is not None}
        assert {before, step.tensor} <= touched
        before = step.tensor
