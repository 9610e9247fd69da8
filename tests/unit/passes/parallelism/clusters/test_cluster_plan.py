"""Plans for clusters: replicas share the rows of a batch, and no two of them one row."""

from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir
import pytest

from mcm_compiler.components.target_loading import load_cluster
from mcm_compiler.contracts.planning import PlanAnswer, PlanOptions, PlanRequest
from mcm_compiler.diagnostics import CompileError
from mcm_passes.parallelism.clusters import cluster_plan
from mcm_passes.parallelism.clusters.cluster_plan import plan_for_cluster

CHAIN = """g (float[{rows},512] x, float[512,512] wu, float[512,512] wv) => (float[{rows},512] y) {{
  a = MatMul(x, wu)
  b = Relu(a)
  y = MatMul(b, wv)
}}"""


def chain(imported, rows: int) -> ir.Model:
    return imported(CHAIN.format(rows=rows))


def planned(model: ir.Model, **options) -> PlanAnswer:
    target = load_cluster("config-a")
    asked = PlanOptions(**options)
    request = PlanRequest(model=model, name="chain", target=target, options=asked)
    return plan_for_cluster(request)


def test_a_plan_compares_no_more_combinations_than_it_may(imported) -> None:
    asked, target = PlanOptions(), load_cluster("config-a")
    request = PlanRequest(
        model=chain(imported, 64), name="chain", target=target, options=asked, evaluations=2
    )
    found = plan_for_cluster(request)
    assert len(found.estimates) == found.evaluations == 2
    assert len(plan_for_cluster(replace(request, evaluations=99)).estimates) > 2


@pytest.mark.parametrize("rows", [2, 3, 4, 8, 12, 15])
def test_mcm_s064_more_replicas_than_rows(imported, rows: int) -> None:
    with pytest.raises(CompileError, match="MCM-S064") as caught:
        planned(chain(imported, rows), operator=1, stages=1)
    said = f"each of 16 replicas of a stage needs a row of the batch, and the batch has {rows} rows"
    assert said in str(caught.value)


def test_mcm_s064_without_a_batch(imported) -> None:
    with pytest.raises(CompileError, match="no input has a batch that can be divided"):
        planned(chain(imported, 1), data=16)


@pytest.mark.parametrize("rows", [2, 3, 4, 7, 8, 16, 64])
def test_every_way_has_a_row_for_each_replica(imported, rows: int) -> None:
    found = planned(chain(imported, rows))
    assert all(each.data <= rows for each in found.estimates)
    assert found.plan.inputs["x"] == (0 if found.plan.degrees.data > 1 else -1)


def test_the_busiest_replica_sets_the_pace(imported) -> None:
    """Of 17 rows on 16 devices one has two, which is 32 seventeenths of an equal share."""
    seconds = {}
    for rows in (16, 17):
        (way,) = planned(chain(imported, rows), operator=1, stages=1).estimates
        seconds[rows] = way.seconds
    assert seconds[17] == pytest.approx(seconds[16] * 32 / 17, rel=0.02)


def test_stages_are_no_wider_than_the_batch(imported, monkeypatch: pytest.MonkeyPatch) -> None:
    """With uneven stages, too: of 16 devices in two stages none has more than the 9 rows."""
    problems = []
    real = cluster_plan.best_pipeline

    def seen(problem, **limits):
        problems.append(problem)
        return real(problem, **limits)

    monkeypatch.setattr(cluster_plan, "best_pipeline", seen)
    plan = planned(chain(imported, 9), operator=1, stages=2).plan
    assert problems[-1].rows == 9
    (cut,) = plan.pipeline.device_cuts
    assert max(cut, 16 - cut) <= 9


@pytest.mark.parametrize("stages", [2, 4, 8])
@pytest.mark.parametrize("asked", [{}, {"training": True}])
def test_what_is_printed_as_chosen_is_planned(imported, stages: int, asked) -> None:
    """Also with more stages than servers, where ways are compared by quick pipelines."""
    deep = "\n".join(f"  h{k + 1} = MatMul(h{k}, w{k})" for k in range(12))
    weights = ", ".join(f"float[{64},{64}] w{k}" for k in range(12))
    model = imported(f"g (float[16,64] h0, {weights}) => (float[16,64] h12) {{\n{deep}\n}}")
    found = planned(model, operator=1, stages=stages, **asked)
    (way,) = (one for one in found.estimates if one.chosen)
    (record,) = (one for one in found.plan.search if one.decides == "PP")
    assert way.seconds == record.objective == record.oracle
    assert len(found.plan.pipeline.cuts) == way.stages - 1


def test_what_has_to_be_divided_is_divided(imported) -> None:
    """A way that divides no op is none then, though it would be the fastest."""
    assert planned(chain(imported, 16)).plan.degrees.operator == 1
    found = planned(chain(imported, 16), shards=("wu=0",))
    assert found.plan.variables["wu"] == 0
    assert all(way.operator > 1 for way in found.estimates)


def test_degrees_that_are_too_many_for_a_dimension_are_left_out(imported) -> None:
    model = imported(CHAIN.format(rows=16).replace("512,512] wu", "512,4] wu").replace(
        "512,512] wv", "4,512] wv"
    ))  # fmt: skip
    found = planned(model, shards=("wu=1",))
    assert {way.operator for way in found.estimates} <= {2, 4}
    with pytest.raises(CompileError, match="MCM-S025"):
        planned(model, shards=("wu=1",), operator=8)


@pytest.mark.parametrize(
    ("shard", "code"), [("wu=0", "MCM-S025"), ("none=0", "MCM-S024"), ("wu", "MCM-S023")]
)
def test_constraints_are_read_where_nothing_is_divided(imported, shard: str, code: str) -> None:
    with pytest.raises(CompileError, match=code):
        planned(chain(imported, 16), operator=1, shards=(shard,))


def test_what_is_kept_whole_needs_no_devices(imported) -> None:
    plan = planned(chain(imported, 16), operator=1, shards=("wu=-1",)).plan
    assert plan.variables["wu"] == -1


def test_mcm_i004_a_model_of_constants_alone(imported) -> None:
    model = imported("g (float[4] w) => (float[4] y) { y = Relu(w) }")
    with pytest.raises(CompileError, match="MCM-I004"):
        planned(model)


def test_texts_have_no_bytes_to_count(imported) -> None:
    text = """g (string[16] t, float[16,512] x, float[512,512] wu)
        => (string[16] s, float[16,512] y) { s = Identity(t) y = MatMul(x, wu) }"""
    assert planned(imported(text), operator=1).plan.inputs["x"] == 0


def test_mcm_s064_too_few_rows_and_no_weights_to_cut_between(imported) -> None:
    model = imported("g (float[4,4] x) => (float[4,4] y) { a = Relu(x) b = Exp(a) y = Tanh(b) }")
    with pytest.raises(CompileError, match="replicas of a stage needs a row of the batch"):
        planned(model)
