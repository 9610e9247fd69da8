"""The dataset: 87 different models, all buildable, divided without overlap."""

from __future__ import annotations

from collections import Counter

import pytest

from mcm_compiler import CompileOptions, load_target
from mcm_compiler.api import build_zoo_model, run_passes
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.zoo import SHAPE_ONLY, WEIGHTS_KEY
from mcm_compiler.graph.constants import placeable_nodes
from mcm_compiler.ir.reading.importer import import_model
from mcm_compiler.registry import ZOO
from mcm_compiler.text import spec_text
from mcm_passes.families.ring.learning.training_problems import data_set
from mcm_passes.mapping.problem.partition_problem import build_problem

MCM87 = data_set("mcm87")
PARTS = MCM87.train, MCM87.validation, MCM87.test
MODELS = [model.removeprefix("zoo:") for part in PARTS for model in part]

FEWEST_OPS, MOST_OPS = 25, 400
"""Tens to hundreds."""


def family_of(spec):
    """The name of the builder in the text of a model."""
    return spec.removeprefix("zoo:").partition("{")[0]


@pytest.fixture(scope="module")
def kinds():
    """How often each kind of op occurs in each model, without what is constant."""
    counts: dict[str, Counter[str]] = {}
    for spec in MODELS:
        model = build_zoo_model(spec)
        assert model.metadata_props[WEIGHTS_KEY] == SHAPE_ONLY
        counts[spec] = Counter(node.op_type for node in placeable_nodes(model.graph))
    return counts


def test_there_are_87_different_models(kinds):
    assert len(MODELS) == len(set(MODELS)) == 87
    parsed = [spec_text.parse_one(spec) for spec in MODELS]
    builders = {spec_text.instantiate(ZOO.get(spec.name), spec) for spec in parsed}
    assert len(builders) == 87
    # Equal counts come from other widths only; most models differ in their graph as well.
    assert len({frozenset(counts.items()) for counts in kinds.values()}) > 75


def test_models_have_tens_to_hundreds_of_ops(kinds):
    sizes = sorted(counts.total() for counts in kinds.values())
    assert sizes[0] >= FEWEST_OPS
    assert sizes[-1] <= MOST_OPS
    assert 150 < sizes[len(sizes) // 2] < 250
    assert sizes[-1] > 4 * sizes[0]


def test_none_has_attention(kinds):
    """Attention needs a softmax over scores, and no model has any."""
    assert not any(counts["Softmax"] + counts["Attention"] for counts in kinds.values())


def test_half_convolve_and_a_third_recur(kinds):
    convolving = sum(counts["Conv"] > 0 for counts in kinds.values())
    recurrent = sum(counts["Sigmoid"] > 0 and counts["Tanh"] > 0 for counts in kinds.values())
    assert convolving >= 44
    assert recurrent >= 29


@pytest.mark.parametrize("spec", MODELS[66:71] + MODELS[71::3])
def test_the_importer_leaves_the_ops_that_were_built(spec, kinds):
    model, found = import_model(build_zoo_model(spec), spec, {}, {})
    assert not found
    nodes = placeable_nodes(model.graph)
    assert Counter(node.op_type for node in nodes) == kinds[spec]
    assert all(value.shape is not None for node in nodes for value in node.outputs)


@pytest.mark.parametrize("spec", sorted(MODELS)[2::9])
def test_a_model_is_worth_partitioning_over_36_chips(spec):
    target = load_target("mcm36")
    options = CompileOptions(passes="simplify,fuse,annotate_cost,shard_oversized")
    model, _, _ = run_passes(f"zoo:{spec}", target, options)
    problem = build_problem(model, target, "relay", FUSION_PLAN.get(model))
    assert problem.num_units > problem.num_chips
    assert problem.compute_s.max() < problem.compute_s.sum() / 12
    assert problem.weight_bytes.sum() < 0.6 * sum(problem.limits.sram_bytes)


def test_every_family_is_tested_and_the_largest_validate():
    sizes, tested = Counter(map(family_of, MODELS)), Counter(map(family_of, MCM87.test))
    assert [len(part) for part in PARTS] == [66, 5, 16]
    assert tested.keys() == sizes.keys()
    assert all(tested[family] <= 2 for family in sizes)
    largest = {family for family, size in sizes.items() if size >= 8}
    assert {family_of(spec) for spec in MCM87.validation} == largest
