"""How many variables and inputs Auto-MAP's workloads can have divided (Wang et al. 2020)."""

from __future__ import annotations

from collections import Counter

import pytest

from mcm_compiler.ir.reading.importer import import_model
from mcm_models.zoo.gpt2 import Gpt2
from mcm_models.zoo.image_networks import Vgg19
from mcm_passes.parallelism.decisions.count_oracle import best_decision
from mcm_passes.parallelism.decisions.decision_problem import (
    adp_problem,
    count_objective,
    opp_problem,
)
from tests.generators.automap_models import (
    T5Automap,
    T5ElevenBillion,
    T5ThreeBillion,
    Vgg19Training,
)


def _most_divided(problem):
    best = best_decision(problem, count_objective(problem))
    assert best.proven
    return problem.partitioned_dims(best.partitioned)


def _imported(builder):
    return import_model(builder.build(), builder.name)[0]


def _by_kind(plan):
    return Counter((".".join(name.split(".")[-2:]), dim) for name, dim in plan.items())


def test_t5_has_111_variables_divided_as_published():
    plan = _most_divided(opp_problem(_imported(T5Automap(shape_only=True)), 8))
    assert sum(dim >= 0 for dim in plan.values()) == 111
    assert _by_kind(plan) == {
        ("q.weight", 1): 18,
        ("k.weight", 1): 18,
        ("v.weight", 1): 18,
        ("o.weight", 0): 18,
        ("wi.weight", 1): 12,
        ("wi.bias", 0): 12,
        ("wo.weight", 0): 12,
        ("wo.bias", -1): 12,
        ("shared.weight", 0): 1,
        ("relative_attention_bias.weight", 1): 2,
        ("layer_norm.weight", -1): 30,
        ("final_layer_norm.weight", -1): 2,
    }


@pytest.mark.parametrize("builder", [T5ThreeBillion(), T5ElevenBillion()], ids=lambda b: b.name)
def test_the_large_ones_have_432_and_the_embeddings(builder):
    plan = _most_divided(opp_problem(_imported(builder), 8))
    kinds = _by_kind(plan)
    embeddings = {("shared.weight", 0): 1, ("relative_attention_bias.weight", 1): 2}
    assert {kind: kinds.pop(kind) for kind in embeddings} == embeddings
    assert sum(count for (_, dim), count in kinds.items() if dim >= 0) == 432


def test_gpt2_has_attention_divided_as_megatron_does():
    plan = _most_divided(opp_problem(_imported(Gpt2(shape_only=True)), 4))
    divided = Counter({kind: n for kind, n in _by_kind(plan).items() if kind[1] >= 0})
    assert divided == {
        ("wte.weight", 0): 1,
        ("wpe.weight", 0): 1,
        ("c_attn.weight", 1): 12,
        ("c_attn.bias", 0): 12,
        ("c_fc.weight", 1): 12,
        ("c_fc.bias", 0): 12,
        ("c_proj.weight", 0): 24,
    }


@pytest.mark.parametrize("builder", [Vgg19Training(shape_only=True), Vgg19(shape_only=True)])
def test_vgg19_has_29_of_38(builder):
    plan = _most_divided(opp_problem(_imported(builder), 8))
    assert len(plan) == 38
    assert sum(dim >= 0 for dim in plan.values()) == 29


@pytest.mark.parametrize(
    ("builder", "inputs", "divided"),
    [(T5Automap(shape_only=True), 10, 7), (Vgg19Training(shape_only=True), 4, 2)],
    ids=["t5", "vgg19"],
)
@pytest.mark.parametrize("degree", [2, 16, 32])
def test_batch_dimensions_and_nothing_else(builder, inputs, divided, degree):
    model = _imported(builder)
    plan = _most_divided(adp_problem(model, degree))
    assert len(plan) == inputs
    assert sum(dim == 0 for dim in plan.values()) == divided
    assert set(plan.values()) == {0, -1}
    shapes = {value.name: value.shape.numpy() for value in model.graph.inputs}
    assert {name for name, dim in plan.items() if dim == 0} == {
        name for name, shape in shapes.items() if shape and shape[0] == 64
    }
