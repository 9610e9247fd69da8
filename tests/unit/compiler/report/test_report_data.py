"""From a compile's result to the report."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx_ir as ir
import pytest

from mcm_compiler.artifact import layout
from mcm_compiler.contracts.partition import LowerBound
from mcm_compiler.contracts.verification import OutputComparison, Verification
from mcm_compiler.diagnostics import Diagnostic, Severity
from mcm_compiler.options import CompileOptions
from mcm_compiler.report.report_data import build_report, verification_data
from mcm_compiler.report.terminal import report_text
from mcm_compiler.report.versions import DISTRIBUTIONS
from mcm_compiler.text import json_text
from tests.generators.example_result import MIB, bare_result, example_model, example_result

SCHEMA = Path(__file__).parents[4] / "docs" / "reference" / "schema" / "report.schema.json"


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return json.loads(SCHEMA.read_text())


def test_schema_is_a_schema_of_this_version(schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["properties"]["schema_version"]["enum"] == [layout.REPORT_SCHEMA_VERSION]


@pytest.mark.parametrize("make", [example_result, bare_result])
def test_report_follows_the_published_schema(make: Any, schema: dict[str, Any]) -> None:
    report = json.loads(json_text.dump(build_report(make())))
    jsonschema.Draft202012Validator(schema).validate(report)


def test_schema_refuses_a_missing_and_an_unknown_field(schema: dict[str, Any]) -> None:
    validator = jsonschema.Draft202012Validator(schema)
    report = build_report(example_result())
    assert not validator.is_valid({k: v for k, v in report.items() if k != "gap"})
    assert not validator.is_valid(report | {"surprise": 1})
    for key in ("model", "target", "options", "bottleneck"):
        assert not validator.is_valid(report | {key: report[key] | {"surprise": 1}})


def test_only_what_earlier_releases_lack_may_be_missing(schema: dict[str, Any]) -> None:
    lacked = {"options", "replication", "chosen_cost_model", "host_fallback", "states", "fabrics"}
    lacked |= {"objective", "energy", "sensitivities", "stored_widths", "verdict", "assumed_trips"}
    lacked |= {"option_sources", "divisions"}
    assert set(schema["properties"]) - set(schema["required"]) == lacked
    for part in (schema, *schema["$defs"].values()):
        assert part["description"]
        assert part["additionalProperties"] is False


def test_the_schema_has_every_option_of_a_compile(schema: dict[str, Any]) -> None:
    told = {f.name for f in fields(CompileOptions)} - {"passes", "cost_model", "sources"}
    assert set(schema["$defs"]["OptionsFacts"]["properties"]) == told


def test_the_level_may_be_a_file(schema: dict[str, Any]) -> None:
    result = example_result()
    options = replace(result.options, level="patient.toml")
    report = json.loads(json_text.dump(build_report(replace(result, options=options))))
    jsonschema.Draft202012Validator(schema).validate(report)


def test_options_are_those_of_the_compile() -> None:
    result = example_result()
    shapes = {"x": (1, 3), "a": (2,)}
    options = replace(result.options, chips=2, samples=7, dims={"n": 3, "b": 1})
    # Those of given arrays are among them.
    source = replace(result.source, shapes=shapes)
    data = build_report(replace(result, options=options, source=source))["options"]
    assert (data["chips"], data["samples"], data["budget_s"]) == (2, 7, None)
    assert list(data["dims"].items()) == [("b", 1), ("n", 3)]
    assert data["shapes"] == {"a": [2], "x": [1, 3]}
    assert "passes" not in data


def test_numbers_of_the_whole() -> None:
    report = build_report(example_result())
    assert report["throughput_per_s"] == 1 / 125e-6
    assert report["gap"] == pytest.approx(125 / 110 - 1)
    assert report["analytic_gap"] == pytest.approx(121 / 110 - 1)
    assert report["bound_argument"] == "total work / 3 chips"
    assert report["bound_proof"] == "total_work"
    assert (report["strategy"], report["found_by"]) == ("portfolio", "local_search")
    assert report["period_model"] == "ring-events"
    assert report["cost_model"] == "roofline"
    assert report["chips_used"] == 3
    assert report["clones"] == [{"node": "mask", "clone": "mask/1", "chip": 1}]
    assert report["relays"] == [{"tensor": "skip", "relay": "skip/relay/1", "chip": 1}]
    assert report["sharded_operators"][0]["pieces"] == ["fc9/0", "fc9/1"]
    assert set(report["versions"]) == {*DISTRIBUTIONS, "python"}


def test_facts_of_the_model() -> None:
    model = build_report(example_result())["model"]
    assert model["ops"] == 2
    assert model["weight_bytes"] == 4 * 2 * 4
    assert model["inputs"] == [{"name": "x", "type": "float", "shape": [1, 4]}]
    assert model["outputs"] == [{"name": "y", "type": "float", "shape": [1, 2]}]


def test_computed_constants_count_as_weights_and_open_shapes_are_told() -> None:
    shape = ir.tensor(np.array([3, 5], np.int64), name="shape")
    s = ir.Value(name="shape", const_value=shape, type=ir.TensorType(ir.DataType.INT64))
    s.shape = ir.Shape((2,))
    filled = ir.Value(name="f", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape((3, 5)))
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(("n", None)))
    y = ir.Value(name="y", type=ir.TensorType(ir.DataType.FLOAT))
    nodes = [
        ir.Node("", "ConstantOfShape", [s], outputs=[filled], name="fill"),
        ir.Node("", "MatMul", [x, filled], outputs=[y], name="mm"),
    ]
    graph = ir.Graph([x], [y], nodes=nodes, initializers=[s], opset_imports={"": 21})
    result = example_result()
    source = replace(result.source, original=ir.Model(graph, ir_version=11))
    model = build_report(replace(result, source=source))["model"]
    assert model["ops"] == 1
    assert model["weight_bytes"] == 3 * 5 * 4
    assert model["inputs"][0]["shape"] == ["n", None]
    assert model["outputs"][0]["shape"] is None


def test_chips_and_links() -> None:
    report = build_report(example_result())
    chip = report["chips"][1]
    assert chip["busy_s"] == 124.9e-6
    assert chip["utilisation"] == pytest.approx(124.9 / 125)
    assert chip["stall_s"] == {"buffer": 0.0, "input": 0.0, "link": 0.1e-6}
    assert list(chip["engine_s"]) == ["array", "launch", "vector"]
    assert chip["engine_utilisation"]["array"] == pytest.approx(124.9 / 125 / 2)
    assert chip["kernels"] == 3
    assert chip["sram_high_water_bytes"] == 24 * MIB
    assert chip["sram_bytes"] == 64 * MIB
    named = {"kinds": ["MatMul", "Relu"], "layer": "layer1.1"}
    assert chip["heaviest_op"] == {"name": "layer1.1", "ops": 2, "seconds": 60.9e-6, **named}
    ends = [(link["source"], link["destination"]) for link in report["links"]]
    assert ends == [(-1, 0), (0, 1), (1, 2), (2, -1)]
    assert report["links"][1]["queue_s"] == 3e-6
    assert report["steady_from"] == 5
    assert report["bottleneck"]["sets_period"] is True
    assert report["bottleneck"]["moves"] == []  # nothing tells what was placed


def test_ops_of_a_chip_come_from_its_kernels_where_the_graph_was_not_split() -> None:
    report = build_report(replace(example_result(), chips=None))
    assert [chip["ops"] for chip in report["chips"]] == [4, 6, 2]
    assert report["chips_used"] == 3  # from the partition


def test_only_a_portfolio_says_who_found_the_partition() -> None:
    result = example_result()
    assert result.partition is not None
    alone = replace(result.partition, strategy="dp", found_by="")
    report = build_report(replace(result, partition=alone))
    assert report["found_by"] is None
    assert "found by     dp, relay routing" in report_text(report)
    assert "found by     portfolio (local_search), relay routing" in report_text(
        build_report(result)
    )


def test_what_was_not_computed_is_null() -> None:
    report = build_report(bare_result())
    for key in (
        "strategy",
        "found_by",
        "throughput_per_s",
        "period_s",
        "gap",
        "analytic_gap",
        "lower_bound_s",
        "bottleneck",
        "links",
        "clones",
        "relays",
        "sharded_operators",
        "verification",
    ):
        assert report[key] is None
    assert report["chips"] == []


def test_equal_results_give_equal_bytes() -> None:
    first, second = (json_text.dump(build_report(example_result())) for _ in range(2))
    assert first == second


def test_no_path_of_the_machine_is_told(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    result = example_result()
    source = replace(result.source, name=str(path), path=path)
    warning = Diagnostic("MCM-I999", f"odd file {path}", str(path), None, Severity.WARNING)
    report = build_report(
        replace(result, source=source, diagnostics=(warning,), folder=tmp_path / "out")
    )
    assert report["model"]["name"] == "net.onnx"
    assert report["diagnostics"][0]["message"] == "odd file net.onnx"
    assert str(tmp_path) not in json_text.dump(report)


def test_a_bound_of_zero_gives_no_gap_and_a_period_of_zero_no_throughput() -> None:
    result = example_result()
    assert result.partition is not None
    assert result.simulation is not None
    report = build_report(
        replace(
            result,
            partition=replace(result.partition, bound=LowerBound(0.0, "nothing to do")),
            simulation=replace(result.simulation, period_s=0.0),
        )
    )
    assert report["gap"] is None
    assert report["analytic_gap"] is None
    assert report["throughput_per_s"] is None
    assert report["chips"][0]["utilisation"] is None
    json_text.dump(report)


def test_an_error_that_is_not_finite_is_null() -> None:
    verdict = Verification((0,), (OutputComparison("y", False, float("inf"), 0.0),))
    data = verification_data(verdict)
    assert data["holds"] is False
    assert data["outputs"][0]["max_abs_error"] is None


def test_example_model_is_what_the_tests_assume() -> None:
    assert [node.op_type for node in example_model().graph] == ["MatMul", "Relu"]
