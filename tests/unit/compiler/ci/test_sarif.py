"""SARIF 2.1.0, held against the part of its schema that the compiler writes."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from mcm_compiler.ci.junit import MAX_RESULTS, Finding, place_in_file, sarif_log, uri_of
from mcm_compiler.diagnostics import Diagnostic, Severity
from mcm_compiler.report.verdict.words import verdict_lines
from tests.generators.example_result import example_verdict

SCHEMA = json.loads((Path(__file__).parent / "sarif_subset.schema.json").read_text("utf-8"))


def log(*findings: Finding):
    made = json.loads(json.dumps(sarif_log(findings, "0.1.0")))
    jsonschema.validate(made, SCHEMA)
    return made["runs"][0]


def finding(code="MCM-I003", severity=Severity.ERROR, file="m/a.onnx", line=1, name="a/mcm4"):
    return Finding(Diagnostic(code, "odd", "here", "do", severity), file, line, name)


def test_a_result_has_its_rule_level_place_and_fingerprint() -> None:
    run = log(
        finding("MCM-U031", Severity.NOTE, "mcmc.toml", 7),
        finding("X-ACME1", Severity.WARNING, "m/ü b.onnx", None),
        finding(),
        finding(name="b\n\x1b"),
    )
    levels = [result["level"] for result in run["results"]]
    assert levels == ["error", "error", "warning", "note"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["MCM-I003", "X-ACME1", "MCM-U031"]
    assert "help" in rules[0]
    assert rules[1] == {"id": "X-ACME1"}
    first, second, third, last = run["results"]
    assert first["message"]["text"] == "a/mcm4: odd\n  at: here\n  hint: do"
    assert (first["ruleId"], first["ruleIndex"], last["ruleIndex"]) == ("MCM-I003", 0, 2)
    assert "\x1b" not in second["message"]["text"]
    assert first["partialFingerprints"] != second["partialFingerprints"]
    places = [result["locations"][0]["physicalLocation"] for result in run["results"]]
    assert places[3]["region"] == {"startLine": 7}
    assert "region" not in places[2]
    assert third["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == (
        "m/%C3%BC%20b.onnx"
    )


def test_no_findings_make_a_log() -> None:
    assert log()["results"] == []


def test_verdicts_are_properties_of_the_run() -> None:
    verdict = example_verdict()
    made = json.loads(json.dumps(sarif_log([], "1", {"a/mcm4\x1b": verdict})))
    jsonschema.validate(made, SCHEMA)
    lines = [verdict["basis"], *verdict_lines(verdict)]
    assert made["runs"][0]["properties"]["verdicts"] == {"a/mcm4\\x1b": lines}


def test_errors_come_first_where_there_are_too_many() -> None:
    notes = [finding(severity=Severity.NOTE)] * MAX_RESULTS
    made = sarif_log([*notes, finding()], "1")["runs"][0]["results"]
    assert len(made) == MAX_RESULTS
    assert made[0]["level"] == "error"


def test_the_schema_refuses_what_is_no_sarif() -> None:
    made = sarif_log([finding()], "1")
    made["runs"][0]["results"][0]["level"] = "bad"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(made, SCHEMA)


def test_places() -> None:
    files = {"sub/mcmc.toml": "x/sub/mcmc.toml"}
    assert place_in_file("a/mcm4, sub/mcmc.toml:7: 'models'", files) == ("x/sub/mcmc.toml", 7)
    assert place_in_file("sub/mcmc.toml:3", files) == ("x/sub/mcmc.toml", 3)
    assert place_in_file("edge.toml:3: 'chip'", files) is None
    assert place_in_file(None, files) is None
    assert uri_of("a/b.onnx") == "a/b.onnx"
