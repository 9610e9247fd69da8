"""Models that need all their memory compile, and no proof says otherwise."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
from onnx import helper

from mcm_compiler import CompileOptions
from mcm_compiler.api import compile_model, run_passes
from mcm_compiler.checking.check import check_folder
from mcm_compiler.components.target_loading import load_target
from mcm_compiler.contracts.fusion import FUSION_PLAN
from mcm_compiler.contracts.partition import PARTITION, PARTITION_PROBLEM, Outcome
from mcm_compiler.contracts.program import PROGRAM, SIMULATION
from mcm_compiler.contracts.replication import REPLICATION
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.options import DEFAULT_PIPELINE
from mcm_passes.families.ring.strategies.portfolio import Portfolio
from mcm_passes.mapping.bounds.infeasibility import impossible
from mcm_passes.mapping.machine.evaluation import evaluate
from mcm_passes.mapping.problem.partition_problem import build_problem
from tests.generators.tight_models import (
    coarse_products,
    falling_convolutions,
    fine_ops,
    gated_convolutions,
    onnx_model,
    package,
    weight,
)

MIB = 1 << 20
PASSES = "{fuse},annotate_cost,parallelize{{search=false}},partition,legalize,split,lower"
"""Of ops as they are: divisions that are faster are of other tests."""


def planned(model, target, *, fuse="fuse", **options):
    """Compiles a model up to its memory plans; returns the model with all facts."""
    chosen = CompileOptions(passes=PASSES.format(fuse=fuse), **options)
    model, _, _ = run_passes(model, target, chosen)
    assert not PROGRAM.get(model).overflows
    return model


def problem_of(model, target, fuse="fuse{max_group=1}"):
    options = CompileOptions(passes=f"{fuse},annotate_cost")
    model, _, _ = run_passes(model, target, options)
    return build_problem(model, target, "relay", FUSION_PLAN.get(model))


def test_coarse_alignment_is_the_searchs_too():
    planned(coarse_products(), package(9, MIB), replicas=1)


def test_an_assignment_that_the_planner_fits_is_taken(tmp_path):
    rows = ["big0,0", "big1,0", *(f"mm{i},{1 + i // 3}" for i in range(9))]
    path = tmp_path / "coarse.csv"
    path.write_text("node,chip\n" + "\n".join(rows) + "\n")
    model = planned(coarse_products(), package(9, MIB), assignment=path, fuse="fuse{max_group=1}")
    assert PARTITION.get(model).strategy == "manual"
    assert [chip.high_water_bytes for chip in PROGRAM.get(model).chips] == [
        *[7 * MIB],
        *[9 * MIB] * 3,
    ]


@pytest.mark.parametrize("replicas", [None, 1])
def test_many_small_weights_in_aligned_buffers(replicas):
    planned(fine_ops(), package(0.28125, 4096), fuse="fuse{max_group=1}", replicas=replicas)


def test_a_view_takes_no_room():
    planned(gated_convolutions(view=True), load_target("mcm36"), replicas=1, level=0)


def test_a_peak_without_gaps_is_taken_at_its_word():
    model = planned(gated_convolutions(view=False), load_target("mcm4"), replicas=1)
    high_water = [chip.high_water_bytes for chip in PROGRAM.get(model).chips]
    assert max(high_water) > 60 * MIB


@pytest.mark.parametrize("replicas", [None, 1])
def test_a_folder_whose_placement_no_estimate_fits_holds(tmp_path, replicas):
    passes = DEFAULT_PIPELINE.replace("parallelize", "parallelize{search=false}")
    options = CompileOptions(passes=passes, replicas=replicas)
    result = compile_model(gated_convolutions(view=False), "mcm4", options, output=tmp_path / "out")
    assert result.problem is not None
    assert result.partition is not None
    assert not evaluate(result.problem, result.partition.chip_of).valid
    report = check_folder(tmp_path / "out")
    assert report.holds, report.diagnostics
    assert report.complete


def test_what_plans_cannot_do_is_still_refused():
    target = load_target("mcm4")
    limits = dataclasses.replace(target.limits, sram_bytes=(49 * MIB,) * 4)
    problem = problem_of(gated_convolutions(view=False), target)
    faults = impossible(dataclasses.replace(problem, limits=limits))
    # The second convolution reads 30 MiB and makes 20 MiB.
    assert [fault.code for fault in faults] == ["MCM-P015"]
    assert "'second' alone needs 50.0 MiB on a chip of 49.0 MiB" in faults[0].message


def test_a_view_lies_in_what_it_views_and_its_shape_is_not_held():
    problem = problem_of(gated_convolutions(view=True), load_target("mcm4"))
    row = {name: t for t, name in enumerate(problem.tensor_names)}
    aliases = {
        name: problem.tensor_names[problem.tensor_alias[t]]
        for name, t in row.items()
        if problem.tensor_alias[t] >= 0
    }
    assert aliases == {"q": "p", "R": "S"}
    held = set(problem.at_need().weight_names)
    assert set(problem.weight_names) - held == {"s1", "s2"}
    readers = problem.tensor_consumers[problem.tensor_ptr[row["S"]] :][:2]
    touched = problem.tensor_touched[problem.tensor_ptr[row["S"]] :][:2]
    assert dict(zip((problem.names[u] for u in readers), touched, strict=True)) == {
        "second": True,
        "view": False,
    }


def test_every_constant_of_the_hardware_comes_with_the_target():
    limits = package(9, MIB).limits
    assert (limits.buffer_alignment_bytes, limits.channel_slots) == (MIB, 2)
    problem = problem_of(coarse_products(), package(9, MIB))
    together = np.zeros(problem.num_units, np.int32)
    for packing, stream in ((1.25, 2), (2.0, 3)):
        limits = dataclasses.replace(
            problem.limits, activation_packing=packing, stream_buffers=stream
        )
        changed = dataclasses.replace(problem, limits=limits)
        estimate = evaluate(changed, together).memory_bytes[0]
        # 11 weights, 4 slots for the host, and two tensors at a time with room for gaps.
        assert estimate == (11 + 4 + int(np.ceil(2 * packing))) * MIB
        need = evaluate(changed.at_need(), together).memory_bytes[0]
        assert need == (11 + 4 + 2) * MIB


def test_the_problem_that_is_kept_is_the_one_that_was_estimated():
    """Others read it from the model; only proofs look at the need."""
    target = load_target("mcm4")
    passes = PASSES.format(fuse="fuse").removesuffix(",legalize,split,lower")
    options = CompileOptions(passes=passes, replicas=1)
    model, _, _ = run_passes(gated_convolutions(view=False), target, options)
    assert PARTITION_PROBLEM.get(model).memory == "estimate"


def test_of_a_small_problem_every_placement_is_planned(monkeypatch):
    """Where no search finds anything, the planner tells whether there is something."""
    nodes = [
        helper.make_node("MatMul", [a, f"w{i}"], [b], name=f"m{i}")
        for i, (a, b) in enumerate(pairwise(["x", "a", "b", "y"]))
    ]
    weights = [weight(f"w{i}", 64, 64) for i in range(3)]
    model = onnx_model(nodes, {"x": [64, 64]}, {"y": [64, 64]}, weights)
    options = CompileOptions(
        passes="fuse{max_group=1},annotate_cost,parallelize,partition", replicas=1
    )
    monkeypatch.setattr(Portfolio, "solve", lambda *_: Outcome(None, 0, "it does not look"))
    # Two slots for what comes and goes, a weight, and whole buffers of 8 KiB.
    with pytest.raises(CompileError) as caught:
        run_passes(model.clone(), package(4 / 128, 8192), options)
    assert caught.value.diagnostics[0].code == "MCM-P030"
    assert "needs 40.0 KiB on a chip of 32.0 KiB" in caught.value.diagnostics[0].message
    monkeypatch.setattr(Portfolio, "solve", only_pinned)
    found, _, _ = run_passes(model.clone(), package(5 / 128, 8192), options)
    assert PARTITION.get(found).num_chips_used == 3


def only_pinned(self, problem, evaluate, rng, budget):
    pinned = problem.pinned_chip
    return Outcome(pinned, 1) if (pinned >= 0).all() else Outcome(None, 0, "it does not look")


def throughput(model, target, **options):
    """Pipelines and inferences per second, simulated."""
    passes = PASSES.format(fuse="fuse") + ",simulate"
    model, _, _ = run_passes(model, target, CompileOptions(passes=passes, **options))
    pipelines = REPLICATION.get(model).replicas
    return pipelines, pipelines / SIMULATION.get(model).period_s


def memory_of_one_chip(model):
    """MiB that the plan of one chip takes which runs all of the model."""
    planned_model = planned(model, package(1024, 64), replicas=4)
    (chip,) = PROGRAM.get(planned_model).chips
    return chip.high_water_bytes / MIB


@pytest.mark.parametrize(
    ("make", "level"),
    [
        (falling_convolutions, 2),
        (lambda: falling_convolutions(200, (3, 48, 160, 32)), 1),
        (lambda: gated_convolutions(view=True), 0),
        (lambda: gated_convolutions(view=False), 2),
    ],
)
def test_a_chip_each_is_chosen_where_the_memory_plan_alone_says_that_it_fits(make, level):
    """The estimate of memory leaves room for gaps, and rules out nothing."""
    model = make()
    target = package(memory_of_one_chip(model), 64)
    pipelines, chosen = throughput(model, target, level=level)
    assert pipelines == 4
    asked = [throughput(model, target, level=level, replicas=count)[1] for count in (1, 2, 4)]
    assert chosen >= max(asked) * 0.995
    assert throughput(model, target, level=level, chips=3)[0] == 3


@pytest.mark.parametrize("level", [0, 2])
def test_the_fewest_chips_are_found_where_the_estimate_of_memory_leaves_none(level):
    model = falling_convolutions(200, (3, 48, 160, 32))
    target = package(memory_of_one_chip(model), 64)
    _, each = throughput(model, target, replicas=1, chips=1)
    wanted = {"level": level, "objective": "chips"}
    assert throughput(model, target, throughput=0.5 * each, **wanted)[0] == 1
    assert throughput(model, target, throughput=1.9 * each, **wanted)[0] == 2
    with pytest.raises(CompileError, match=r"MCM-P063.*reach at most \d"):
        throughput(model, target, throughput=1e6 * each, **wanted)
