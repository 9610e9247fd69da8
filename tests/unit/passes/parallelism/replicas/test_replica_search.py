"""The number of pipelines is the simulator's choice, and every number has a bound of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

from mcm_compiler.api import compile_model, run_passes
from mcm_compiler.cli.main import cli
from mcm_compiler.contracts.partition import Budget, LowerBound, Partition
from mcm_compiler.contracts.program import SIMULATION
from mcm_compiler.contracts.replication import (
    PACKAGE_EVALUATOR,
    PACKAGE_PROBLEM,
    REPLICATION,
    PipelineCount,
    Replication,
)
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.options import CompileOptions
from mcm_passes.families.ring.contiguous.contiguous_dp import ContiguousDp
from mcm_passes.mapping.machine.periods import AnalyticPeriods
from mcm_passes.parallelism.replicas.replica_search import Share, Solved, solve_replicas
from mcm_passes.parallelism.replicas.replicas import ShareEvaluator, choose_replicas, on_share
from tests.generators.partition_problems import make_problem
from tests.oracles.shown_bounds import verify_bound

TO_SIMULATION = "simplify,fuse,annotate_cost,parallelize,partition,legalize,split,lower,simulate"
BRANCHES = "zoo:ensemble-cnn{shape_only=true}"


@pytest.fixture
def one_kernel(tmp_path: Path) -> Path:
    weight = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], "product")],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 64])],
        [numpy_helper.from_array(weight, "w")],
    )
    path = tmp_path / "one_kernel.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def _throughput(model: str | Path, target: str, **options: Any) -> tuple[int, float]:
    compiled, _, _ = run_passes(str(model), target, CompileOptions(passes=TO_SIMULATION, **options))
    replicas = REPLICATION.get(compiled).replicas
    return replicas, replicas / SIMULATION.get(compiled).period_s


def test_numbers_that_undercut_nothing_have_bounds_alone() -> None:
    problem = make_problem([10.0] * 12, [(u, u + 1) for u in range(11)], chips=12)
    whole = choose_replicas(problem)
    limit_s = min(one.seconds or 1.0 for one in whole.considered)
    short = choose_replicas(problem, below_s=limit_s)
    assert all(one.partitions is None for one in short.considered)
    assert [one.bound_s for one in short.considered] == [one.bound_s for one in whole.considered]
    loose = choose_replicas(problem, below_s=1.1 * limit_s)
    assert loose.replicas == whole.replicas


def test_a_model_of_one_kernel_has_as_many_pipelines_as_chips(one_kernel: Path) -> None:
    """Total work over the chips that one pipeline can use is no limit for all of them together."""
    replicas, per_s = _throughput(one_kernel, "mcm36")
    assert replicas == 36
    assert per_s == pytest.approx(36 * _throughput(one_kernel, "mcm36", replicas=1)[1])


def test_chips_are_for_all_pipelines_together(one_kernel: Path) -> None:
    assert _throughput(one_kernel, "mcm36", chips=5)[0] == 5
    assert _throughput(one_kernel, "mcm36", chips=4, replicas=4)[0] == 4
    with pytest.raises(CompileError, match=r"MCM-P013.*1 unit of ops to place in each of 2"):
        _throughput(one_kernel, "mcm36", chips=4, replicas=2)


def test_the_choice_is_within_2_percent_of_every_number_simulated_one_by_one() -> None:
    _, chosen = _throughput(BRANCHES, "mcm4")
    singly = [_throughput(BRANCHES, "mcm4", replicas=count)[1] for count in (1, 2, 4)]
    assert chosen >= 0.98 * max(singly)


def test_every_number_has_a_bound_that_is_proven_again_and_the_simulators_word() -> None:
    model, _, _ = run_passes(
        BRANCHES, "mcm36", CompileOptions(passes="simplify,fuse,annotate_cost,parallelize")
    )
    replication, problem = REPLICATION.get(model), PACKAGE_PROBLEM.get(model)
    evaluator = PACKAGE_EVALUATOR.get(model)
    assert evaluator is not None
    for one in replication.considered:
        shared = on_share(problem, one.chips_each, one.replicas)
        assert one.bound is not None
        assert one.bound_s is not None
        assert not one.ruled_out
        assert verify_bound(shared, one.bound)
        assert one.bound_s == one.bound.seconds / one.replicas <= (one.analytic_s or np.inf)
    best = min(one.simulated_s or np.inf for one in replication.considered)
    # No partition is sought for what its bound rules out.
    for one in replication.considered:
        assert one.bound_s is not None
        assert (one.simulated_s is None) == (one.analytic_s is None)
        assert one.simulated_s is not None or one.bound_s > 1.01 * best
    (chosen,) = [one for one in replication.considered if one.replicas == replication.replicas]
    assert chosen.simulated_s is not None
    assert chosen.simulated_s <= best * 1.005
    # The evaluator of the package says of a part of the chips what an evaluator of that part alone
    # says.
    shared = on_share(problem, 7, 1)
    row = (
        ContiguousDp()
        .solve(shared, AnalyticPeriods(shared), np.random.default_rng(0), Budget())
        .chip_of
    )
    assert row is not None
    results = ShareEvaluator(evaluator, shared, 1).evaluate(np.stack([row, np.full_like(row, 7)]))
    assert results.kind.tolist() == [0, 1]
    assert results.chip_busy_s.shape == (2, 7)
    assert np.isinf(results.period_s[1])
    # Exact search over ideals divides parallel branches better than cuts of one order do.
    (three,) = choose_replicas(problem, numbers=[(3, 12)]).considered
    shared = on_share(problem, 12, 1)
    found = ContiguousDp().solve(
        shared, AnalyticPeriods(shared), np.random.default_rng(0), Budget()
    )
    assert found.chip_of is not None
    assert three.analytic_s is not None
    assert three.analytic_s < 0.9 * AnalyticPeriods(shared)(found.chip_of) / 3


def _count(replicas: int, each: int, seconds: float | None, bound_s: float) -> PipelineCount:
    bound = LowerBound(bound_s * replicas, "total work", "total_work")
    return PipelineCount(replicas, each, seconds, seconds, bound)


def test_a_number_whose_bound_ruled_it_out_is_tried_before_slower_ones_where_nothing_runs() -> None:
    considered = (_count(1, 12, 4.0, 4.0), _count(2, 6, None, 2.2), _count(3, 4, 2.0, 1.5))
    chosen = Replication(3, 4, (*considered, PipelineCount(6, 2, ruled_out="MCM-P004")))
    assert [one.replicas for one in chosen.fallbacks()] == [2, 1]


CONSIDERED = (
    _count(1, 12, 4.0, 4.0),
    _count(2, 6, 2.1, 1.0),
    _count(3, 4, 2.0, 1.5),
    _count(4, 3, 9.0, 0.5),
)


def _solve(periods: dict[int, float | None], asked: list[int]) -> Any:
    """Solves with these periods of one pipeline by the chips of each; None overflows."""

    def solve(share: Share) -> Solved:
        shared = share.problem
        assert share.pipelines == 12 // shared.num_chips
        asked.append(shared.num_chips)
        seconds = periods[shared.num_chips]
        bound = LowerBound(0.0, "none")
        chip_of = np.zeros(shared.num_units, np.int32)
        found = Partition(chip_of, seconds or 1.0, bound, "dp")
        return Solved(found, seconds is not None, lambda: seconds or float("inf"))

    return solve


@pytest.mark.parametrize(
    ("periods", "chosen", "asked"),
    [
        # Two pipelines are close and may win: they are searched as well, and do or do not.
        ({4: 6.0, 6: 3.8}, 2, [4, 6]),
        ({4: 6.0, 6: 4.2}, 3, [4, 6]),
        ({4: 6.0, 6: None}, 3, [4, 6]),
        # Three come so near to the bound of two that there is nothing to win.
        ({4: 3.0}, 3, [4]),
        # What overflows makes room for fewer pipelines.
        ({4: None, 6: 4.2}, 2, [4, 6]),
    ],
)
def test_a_second_number_is_searched_where_it_may_win(
    periods: dict[int, float | None], chosen: int, asked: list[int], one_kernel: Path
) -> None:
    passes = "simplify,fuse,annotate_cost,parallelize"
    model, _, _ = run_passes(str(one_kernel), "mcm36", CompileOptions(passes=passes, chips=12))
    problem = PACKAGE_PROBLEM.get(model)
    seen: list[int] = []
    replication = Replication(3, 4, CONSIDERED)
    found = solve_replicas(problem, replication, _solve(periods, seen), further=1)
    assert (found.replication.replicas, seen) == (chosen, asked)
    seen.clear()
    solve_replicas(problem, replication, _solve(periods, seen), further=0)
    assert seen == ([4] if periods[4] is not None else [4, 6])


def test_the_bound_of_the_others_names_no_number_to_ask_for() -> None:
    others = Replication(3, 4, CONSIDERED).others
    assert others is not None
    assert others.seconds == 0.5
    assert others.proof == "total_work"
    assert "instead" not in others.argument
    assert others.argument.startswith("the weakest of the bounds of all numbers")
    assert Replication(4, 3, CONSIDERED).others == Replication(4, 3, CONSIDERED[:3]).others


def test_report_manifest_and_annotation_name_every_chip(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    result = compile_model(
        "zoo:mobilenet-v2{image_size=32}", "mcm4", CompileOptions(level=1, replicas=2),
        output=folder,
    )  # fmt: skip
    assert result.replication is not None
    report = json.loads((folder / "report.json").read_text())
    expected = [
        {"chip": pipeline * 2 + chip, "pipeline": pipeline, "runs": chip}
        for pipeline in range(2)
        for chip in range(2)
    ]
    assert report["replication"]["chips"] == expected
    assert json.loads((folder / "manifest.json").read_text())["placement"] == expected
    assert (
        "chips 1, 3 run the model of chip 1"
        in CliRunner().invoke(cli, ["report", str(folder), "--full"]).output
    )
    assert "chips 1, 3 run the model of chip 1" in (folder / "report.md").read_text()
    annotated = onnx.load(folder / "annotated.onnx", load_external_data=False)
    places = {
        prop.value
        for node in annotated.graph.node
        for prop in node.metadata_props
        if prop.key == "mcm.chip"
    }
    assert places == {"0,2", "1,3"}
    assert {p.key: p.value for p in annotated.metadata_props}["mcm.replicas"] == "2"
    trace = tmp_path / "run.pftrace"
    done = CliRunner().invoke(
        cli, ["simulate", str(folder), "--inferences", "2", "--trace", str(trace)]
    )
    assert done.exit_code == 0, done.output
    assert b"chip 3 SRAM" in trace.read_bytes()
