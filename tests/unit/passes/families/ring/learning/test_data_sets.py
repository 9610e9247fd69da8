"""Data sets by name and from files, and the problems that are made of them."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter

import numpy as np
import pytest

from mcm_compiler.components.target_loading import load_target
from mcm_compiler.diagnostics import CompileError
from mcm_models.policy.features import EDGES_PER_NODE, MOST_NODES, graph_features, padded_nodes
from mcm_passes.families.ring.learning.training_problems import (
    data_set,
    digest_of,
    partition_problem,
    training_problems,
)
from mcm_passes.mapping.machine.periods import AnalyticPeriods


def test_the_built_in_data_set_leaves_the_test_models_out():
    found = data_set("mcm87")
    assert len(found.train) == 66
    assert len(found.validation) == 5
    assert not {*found.test} & {*found.train, *found.validation}
    assert found.digest == data_set("mcm87").digest


def test_a_file_names_models(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"train": ["a.onnx", "zoo:nmt"], "validation": ["b.onnx"]}))
    found = data_set(str(path))
    assert found.train == ("a.onnx", "zoo:nmt")
    assert found.validation == ("b.onnx",)
    assert found.digest != data_set("mcm87").digest


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        '{"train": ["a"]}',
        '{"train": [], "validation": ["a"]}',
        '{"train": "a", "validation": ["a"]}',
        '{"train": [1], "validation": ["a"]}',
        '{"train": ["a"], "validation": ["a"], "tests": ["a"]}',
    ],
)
def test_a_file_of_anything_else_is_diagnosed(tmp_path, text):
    path = tmp_path / "mine.json"
    path.write_text(text)
    with pytest.raises(CompileError) as caught:
        data_set(str(path))
    assert caught.value.diagnostics[0].code == "MCM-L011"


@pytest.mark.parametrize("name", ["no such set", "", "."])
def test_an_unknown_data_set_is_diagnosed(name):
    with pytest.raises(CompileError) as caught:
        data_set(name)
    assert caught.value.diagnostics[0].code == "MCM-L011"


def test_models_that_do_not_fit_are_left_out():
    fits = "zoo:plain-cnn{stages=2,blocks=2,width=16,image_size=16,shape_only=true}"
    huge = "zoo:plain-cnn{stages=2,blocks=24,width=768,image_size=16,shape_only=true}"
    told: list[int] = []
    found, left_out = training_problems([huge, fits], load_target("mcm4"), told.append)
    assert [each.model for each in found] == [fits]
    assert left_out == (huge,)
    assert told == [1, 2]


def test_the_heuristic_has_a_reward_of_one(problems):
    for each in problems:
        whole = np.zeros((1, each.problem.num_units), np.int32)
        assert each.baseline_s > 0
        period_s = AnalyticPeriods(each.problem)(whole[0])
        assert each.rewards()(whole)[0] == pytest.approx(each.baseline_s / period_s)


def test_a_digest_sees_every_change(problems):
    first = problems[0]
    digest = digest_of(problems)
    assert digest_of(problems) == digest
    slower = dataclasses.replace(first.problem, compute_s=first.problem.compute_s * 1.0000001)
    for other in (
        dataclasses.replace(first, problem=slower),
        dataclasses.replace(first, baseline_s=first.baseline_s * 2),
        dataclasses.replace(first, model="zoo:other"),
    ):
        assert digest_of([other, *problems[1:]]) != digest


def test_digests_are_those_of_the_first_release(problems):
    # As release 0.1.0 noted them in `run.json`, for all problems and for each.
    noted = (
        "3e1e1e2596cc0d8f19bfd24e59a46d65e3341fc0029cc0ac7c851ef58c5acd9e",
        "598d12bcd51349ffdc792d15f76d52d25f97eb16f057289359ccda1967bf3981",
        "5f3be305c09d09658e30a4ff44b90b23d338fee0a14a3eeb5778913523b52b8a",
        "53970a6799cf752202ea66f6fd5a4f403292563ae4eb9d32ab0362760ae16c4d",
    )
    found = [digest_of(problems), *(digest_of([each]) for each in problems)]
    assert tuple(found) == noted


def test_digests_follow_what_a_policy_learns_from_alone(problems):
    first, limits = problems[0], problems[0].problem.limits
    # Rows that a search computed on the way are no part of the problem.
    assert first.problem.reached().num_units
    fresh = dataclasses.replace(first, problem=dataclasses.replace(first.problem))
    assert digest_of([fresh]) == digest_of([first])
    slow = (*limits.latencies_s[1:], 2 * limits.hop_latency_s)
    behind = (*limits.latencies_s, limits.hop_latency_s)
    for change in (
        {"link_latency_s": slow},
        {"link_latency_s": behind},
        {"host_latency_s": 5e-6},
        {"host_latency_s": 0.0},
        {"cut_through": True},
    ):
        other = first.problem.within(dataclasses.replace(limits, **change))
        assert digest_of([dataclasses.replace(first, problem=other)]) != digest_of([first])


def test_the_data_set_needs_few_compiled_shapes():
    target = load_target("mcm36")
    buckets: Counter[int] = Counter()
    for model in data_set("mcm87").train[::7]:
        features = graph_features(partition_problem(model, target))
        nodes = padded_nodes(features.num_nodes, features.source.size)
        assert nodes > features.num_nodes
        assert nodes * EDGES_PER_NODE >= features.source.size
        # The importer cannot make a graph larger than its ops, of which there are at most 400.
        assert nodes <= 512
        buckets[nodes] += 1
    assert len(buckets) <= 10
    sizes = {padded_nodes(n, e) for n in range(1, 512) for e in (0, n, 2 * n)}
    assert len(sizes) <= 10


@pytest.mark.parametrize(("nodes", "edges"), [(MOST_NODES + 1, 0), (10, 2 * MOST_NODES + 1)])
def test_a_graph_larger_than_any_bucket_is_diagnosed(nodes, edges):
    with pytest.raises(CompileError) as caught:
        padded_nodes(nodes, edges)
    assert caught.value.diagnostics[0].code == "MCM-L005"
    assert padded_nodes(MOST_NODES, 2 * MOST_NODES) > MOST_NODES
