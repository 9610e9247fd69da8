"""Plans for clusters with more and less of a resource."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import pytest
from click.testing import CliRunner

from mcm_compiler.api import build_zoo_model
from mcm_compiler.cli.main import cli
from mcm_compiler.components.target_loading import load_cluster, package_from_text
from mcm_compiler.contracts.planning import PlanAnswer, PlanEstimate, PlanRequest, planner_of
from mcm_compiler.contracts.requests import PlanOptions
from mcm_compiler.contracts.sharding.parallel_plan import plan_from_json, read_plan
from mcm_compiler.diagnostics import CompileError
from mcm_compiler.ir.reading.importer import import_model
from mcm_compiler.variants.plan_changes import StepChange, plan_changes

PLANNER = "auto-map"
SLACK = 1e-9
RESOURCES = [
    "arithmetic rate",
    "memory rate",
    "memory",
    "rate in servers",
    "rate between servers",
    "servers",
]
CHAIN = """g (float[16,512] x, float[512,512] wu, float[512,512] wv) => (float[16,512] y) {
  a = MatMul(x, wu)
  b = Relu(a)
  y = MatMul(b, wv)
}"""


def seconds(answer: PlanAnswer) -> float:
    (chosen,) = (one for one in answer.estimates if one.chosen)
    return chosen.seconds


def changed(model, target="config-a", **options) -> tuple[PlanAnswer, PlanAnswer, list[StepChange]]:
    """The plan without sensitivities, the one with them, and their rows."""
    cluster = load_cluster(target) if isinstance(target, str) else target
    planner, asked = planner_of(PLANNER), PlanOptions(**options)
    planner.prepare(model)
    request = PlanRequest(model=model, name="model", target=cluster, options=asked)
    plain = planner.plan(request)
    found, rows = plan_changes(PLANNER, planner, request, plain)
    return plain, found, list(rows)


def assert_monotone(plain: PlanAnswer, found: PlanAnswer, rows: list[StepChange]) -> None:
    """Twice of a resource is not slower, half not faster, and the plan no worse than without."""
    assert [row.resource for row in rows[::2]] == RESOURCES
    assert [row.factor for row in rows] == [2.0, 0.5] * len(RESOURCES)
    assert seconds(found) <= seconds(plain) * (1.0 + SLACK)
    for row in rows:
        if row.speedup is None:
            assert row.note
            continue
        assert (row.speedup - 1.0) * (row.factor - 1.0) >= -SLACK, row
        assert row.speedup == pytest.approx(seconds(found) / row.seconds)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("bert-tiny{batch=16}", {}),
        ("bert-tiny{batch=16}", {"training": True}),
        ("gpt2-tiny{batch=8}", {"training": True}),
        ("plain-cnn{batch=32}", {"training": True}),
        ("lstm-lm", {"training": True, "micro_batches": 4}),
        ("unet-cnn", {}),
    ],
)
def test_twice_is_never_slower_and_half_never_faster(name: str, options) -> None:
    plain, found, rows = changed(import_model(build_zoo_model(name), name)[0], **options)
    assert_monotone(plain, found, rows)
    # Communication of groups is spread over stages by their time, whatever the time is due to.
    spread = found.plan.degrees.operator > 1 and found.plan.degrees.pipeline > 1
    assert spread or not any("not comparable" in row.note for row in rows)


def test_a_plan_for_half_of_the_servers_is_a_plan_for_all(imported, tmp_path) -> None:
    """Gradients cross the network between servers slower than one server computes all."""
    plain, found, rows = changed(imported(CHAIN), training=True)
    assert_monotone(plain, found, rows)
    assert plain.plan.servers is None
    assert found.plan.servers == 1
    assert seconds(found) < seconds(plain)
    degrees = found.plan.degrees
    assert degrees.data * degrees.operator * degrees.pipeline <= 8
    by_name = {(row.resource, row.factor): row for row in rows}
    assert by_name["servers", 0.5].speedup == by_name["rate between servers", 2.0].speedup == 1.0
    written = found.plan.to_dict()
    assert written["servers"] == 1
    assert plan_from_json(json.loads(json.dumps(written))) == found.plan
    assert "servers" not in plain.plan.to_dict()


def test_a_search_answers_with_nothing_slower_than_its_start(imported) -> None:
    planner, cluster = planner_of(PLANNER), load_cluster("config-a")
    request = PlanRequest(
        model=imported(CHAIN), name="chain", target=cluster, options=PlanOptions(training=True)
    )
    free = planner.plan(request)
    for asked in ({"operator": 8}, {"stages": 2, "operator": 2}, {"data": 16}, {"operator": 4}):
        start = planner.plan(replace(request, options=PlanOptions(training=True, **asked)))
        again = planner.plan(replace(request, start=start.plan))
        assert seconds(again) <= min(seconds(free), seconds(start)) * (1.0 + SLACK)
        ways = [(one.data, one.operator, one.stages) for one in again.estimates]
        assert len(ways) == len(set(ways))
        assert (start.plan.degrees.data, start.plan.degrees.operator) in {way[:2] for way in ways}


def test_a_start_for_more_servers_than_there_are_counts_for_nothing(imported) -> None:
    planner, options = planner_of(PLANNER), PlanOptions(training=True)
    large, small = load_cluster("config-c"), load_cluster("config-a")
    request = PlanRequest(model=imported(CHAIN), name="chain", target=large, options=options)
    start = replace(planner.plan(request).plan, servers=4)
    request = replace(request, target=small)
    assert planner.plan(replace(request, start=start)).plan == planner.plan(request).plan


def test_altered_stages_of_a_start_are_refused_or_count_for_nothing(imported) -> None:
    planner, cluster = planner_of(PLANNER), load_cluster("config-a")
    options = PlanOptions(training=True, stages=2, operator=2)
    request = PlanRequest(model=imported(CHAIN), name="chain", target=cluster, options=options)
    whole = planner.plan(request).plan
    assert whole.pipeline is not None
    for altered in ({"device_cuts": (3,)}, {"device_cuts": (4096,)}):
        start = replace(whole, pipeline=replace(whole.pipeline, **altered))
        assert planner.plan(replace(request, start=start)).plan == whole
    start = replace(whole, pipeline=replace(whole.pipeline, first_ops=("nowhere",)))
    with pytest.raises(CompileError, match="'nowhere', which the model does not have") as caught:
        planner.plan(replace(request, start=start))
    assert caught.value.diagnostics[0].code == "MCM-S022"


def test_what_does_not_fit_says_so(imported) -> None:
    text = load_cluster("config-a").source_text
    text = text.replace("memory_mib = 32768", "memory_mib = 6", 1)
    text = text.replace("reserved_memory_mib = 1024", "reserved_memory_mib = 2.9")
    plain, found, rows = changed(imported(CHAIN), package_from_text("small", text))
    assert_monotone(plain, found, rows)
    (half,) = [row for row in rows if (row.resource, row.factor) == ("memory", 0.5)]
    assert half.seconds is None
    assert "does not fit" in half.note


def test_a_planner_without_times_says_so(imported) -> None:
    @dataclass(frozen=True)
    class Timeless:
        made: PlanAnswer

        def plan(self, _request: PlanRequest) -> PlanAnswer:
            return self.made

    request = PlanRequest(
        model=imported(CHAIN), name="chain", target=load_cluster("config-a"), options=PlanOptions()
    )
    plain = planner_of(PLANNER).plan(request)
    timeless = replace(plain, estimates=(PlanEstimate(1, 1, 1, None, chosen=True),))
    found, rows = plan_changes(PLANNER, Timeless(timeless), request, timeless)
    assert found is timeless
    assert len(rows) == 2 * len(RESOURCES)
    assert {row.note for row in rows} == {"the planner estimates no time of its plans"}


def test_the_verb_prints_them(tmp_path) -> None:
    plan = tmp_path / "plan.json"
    plain = ["parallelize", "zoo:bert-tiny{batch=16}", "--target", "config-a"]
    command = [*plain, "--sensitivities", "-o", str(plan)]
    shown = CliRunner().invoke(cli, command)
    assert shown.exit_code == 0, shown.output
    assert "twice the arithmetic rate" in shown.stdout
    assert "half the servers" in shown.stdout
    made = CliRunner().invoke(cli, [*command, "--force", "--format", "json"])
    found = json.loads(made.stdout)
    assert [row["resource"] for row in found["sensitivities"][::2]] == RESOURCES
    assert read_plan(plan).degrees.operator == found["degrees"]["operator"]
    assert "sensitivities" not in json.loads(
        CliRunner().invoke(cli, [*plain, "--format", "json"]).stdout
    )


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--target", "mcm4"], "for this target there is `mcmc compile`"),
        (["--target", "box-2gpu"], "for this target there is `mcmc place`"),
        (["--target", "config-a", "--why", "x.0"], "--why takes no --sensitivities"),
        (["--target", "config-a", "--plan", "mine.json"], "--plan takes no --sensitivities"),
    ],
)
def test_where_there_are_none(more: list[str], said: str) -> None:
    words = ["parallelize", "zoo:bert-tiny", "--sensitivities", *more]
    refused = CliRunner().invoke(cli, words)
    assert refused.exit_code != 0
    assert said in refused.output
