"""JUnit XML, parsed back."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from mcm_compiler.ci.comparison import Comparison
from mcm_compiler.ci.junit import SUITE, compile_cases, junit_xml
from mcm_compiler.diagnostics import Diagnostic, Severity
from mcm_compiler.report.verdict.words import verdict_lines
from tests.generators.example_outcome import failed, succeeded
from tests.generators.example_result import example_verdict

ERROR = Diagnostic("MCM-I001", "no such file", at="b.onnx", hint="look elsewhere")
WARNING = Diagnostic("MCM-P020", "odd", severity=Severity.WARNING)


def _suite(*outcomes):
    root = ET.fromstring(junit_xml([(SUITE, "mcm4", compile_cases(outcomes))]))
    assert root.tag == "testsuites"
    (suite,) = root
    return suite


def test_one_case_per_model_in_order() -> None:
    suite = _suite(succeeded("a.onnx"), failed("b.onnx", ERROR, WARNING), succeeded("c.onnx"))
    assert suite.attrib == {
        "name": "mcmc compile",
        "tests": "3",
        "failures": "1",
        "errors": "0",
        "skipped": "0",
        "time": "3.250",
    }
    assert [(c.get("name"), c.get("classname"), c.get("time")) for c in suite] == [
        ("a.onnx", "mcm4", "1.500"),
        ("b.onnx", "mcm4", "0.250"),
        ("c.onnx", "mcm4", "1.500"),
    ]
    assert [len(case.findall("failure")) for case in suite] == [0, 1, 0]


def test_a_failure_has_all_diagnostics() -> None:
    failure = _suite(failed("b.onnx", ERROR, WARNING)).find("testcase/failure")
    assert failure.attrib == {"type": "MCM-I001", "message": "no such file"}
    assert failure.text == (
        "error[MCM-I001]: no such file\n  at: b.onnx\n  hint: look elsewhere\n"
        "warning[MCM-P020]: odd"
    )


def test_figures_and_warnings_of_a_success() -> None:
    case = _suite(succeeded("a.onnx", WARNING))[0]
    verdict = example_verdict()
    lines = [verdict["basis"], *verdict_lines(verdict), "warning[MCM-P020]: odd"]
    assert case.findtext("system-out").splitlines() == lines


def test_a_regression_has_figures_and_a_failure() -> None:
    comparison = Comparison(16000.0, 8000.0, 0.03, ("because",))
    case = _suite(succeeded("a.onnx", *comparison.diagnostics("a"), comparison=comparison))[0]
    assert case.find("failure").get("type") == "MCM-U031"
    assert case.findtext("system-out").endswith("-50.0 % against the baseline")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a<b>&\"c'.onnx", "a<b>&\"c'.onnx"),
        ("]]><!--.onnx", "]]><!--.onnx"),
        ("a\x00\x1b[31m\n.onnx", r"a\x00\x1b[31m\n.onnx"),
        ("\udcff\ufffe\uffff", r"\udcff\ufffe\uffff"),
        ("mod\u00e8le \U0001f600.onnx", "mod\u00e8le \U0001f600.onnx"),
        ("\u202eonno.onnx", r"\u202eonno.onnx"),
    ],
)
def test_hostile_names(name: str, shown: str) -> None:
    suite = _suite(failed(name, Diagnostic("MCM-I001", name, at=name, hint=name)))
    case = suite[0]
    assert case.get("name") == shown
    failure = case.find("failure")
    assert failure.get("message") == shown
    assert failure.text == f"error[MCM-I001]: {shown}\n  at: {shown}\n  hint: {shown}"


FORM = {
    "testsuites": (set(), {"testsuite"}),
    "testsuite": ({"name", "tests", "failures", "errors", "skipped", "time"}, {"testcase"}),
    "testcase": ({"classname", "name", "time"}, {"failure", "system-out"}),
    "failure": ({"type", "message"}, set()),
    "system-out": (set(), set()),
}
"""Attributes that an element has to have, and elements that it may hold."""


def test_groups_are_suites_of_the_form_that_services_read() -> None:
    root = ET.fromstring(
        junit_xml(
            (name, name, compile_cases(outcomes))
            for name, outcomes in (
                ("mcm4", [succeeded("a"), failed("b\x01", ERROR)]),
                ("targets/\x02.toml", [succeeded("a", WARNING)]),
            )
        )
    )
    for element in root.iter():
        attributes, inside = FORM[element.tag]
        assert set(element.attrib) == attributes
        assert {child.tag for child in element} <= inside
        if element.tag == "testsuite":
            assert int(element.get("tests")) == len(element)
            assert int(element.get("failures")) == len(element.findall("testcase/failure"))
            assert {case.get("classname") for case in element} == {element.get("name")}
    assert [suite.get("name") for suite in root] == ["mcm4", "targets/\\x02.toml"]
